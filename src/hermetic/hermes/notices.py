"""Background processes as Hermes Agent's own registry sees them, and notices of them for its user."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hermetic.contract.notice import Notice
from hermetic.contract.tool import Fields
from hermetic.hermes.agent_environment import AgentEnvironment
from hermetic.hermes.host import Host

SHOWING = ("wait", "log", "kill")  # actions that show the end of a process
KINDS = {"completed": "completion", "matched": "watch_match", "watch_disabled": "watch_disabled"}
WATCHER_SECONDS = 5  # between two looks of the gateway
# of a gateway's conversation
ROUTE = ("platform", "chat_id", "user_id", "user_name", "thread_id", "message_id")


class NoticeGate:
    """Passes notices on. Those of a process whose start has not returned wait for its record, which
    names its session.

    Threads may share it.
    """

    def __init__(self, deliver: Callable[[Notice], None], is_known: Callable[[str], bool]) -> None:
        self._lock = threading.Lock()
        self._deliver, self._is_known = deliver, is_known
        self._starts = 0
        self.held: list[Notice] = []

    def __repr__(self) -> str:
        return f"<NoticeGate with {self._starts} starts, {len(self.held)} notices held>"

    def take(self, notice: Notice) -> None:
        """Delivers a notice now, or at the end of a start that is under way."""
        with self._lock:
            if self._starts and not self._is_known(notice.session_id):
                self.held.append(notice)
                return
        self._deliver(notice)

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Around a start and the record of what it has started."""
        with self._lock:
            self._starts += 1
        try:
            yield
        finally:
            with self._lock:
                self._starts -= 1
                # While other starts are under way, an unknown process may be theirs.
                ready = [
                    one for one in self.held if not self._starts or self._is_known(one.session_id)
                ]
                self.held = [one for one in self.held if one not in ready]
            for notice in ready:
                self._deliver(notice)


class Shadows:
    """Records of our processes in Hermes' registry: a gateway looks there, and no session with one
    is reset.
    """

    def __init__(self) -> None:
        self._known: dict[str, Any] = {}  # session id → Hermes' record
        self.gate = NoticeGate(_queue, _is_recorded)

    def __repr__(self) -> str:
        return f"<Shadows of {len(self._known)} processes>"

    def seen(
        self, host: Host, tool: str, asked: Fields, answer: Fields, task: str, task_id: str | None
    ) -> None:
        """Takes in what a call has started or shown."""
        id = answer.get("session_id")
        if not id:
            return
        if tool == "terminal":
            self._start(host, asked, answer, task, task_id or task)
        elif (
            tool == "process" and asked.get("action") in SHOWING and answer.get("completion_reason")
        ):
            from tools.process_registry import process_registry

            process_registry._completion_consumed.add(id)

    def _start(self, host: Host, asked: Fields, answer: Fields, task: str, task_id: str) -> None:
        from gateway.session_context import get_session_env
        from tools.approval import get_current_session_key
        from tools.process_registry import ProcessSession, process_registry

        id = answer["session_id"]
        session = ProcessSession(
            id=id,
            command=asked.get("command", ""),
            task_id=task,
            session_key=get_current_session_key(default="") or task_id,
            pid=answer.get("pid"),
            env_ref=AgentEnvironment(host, task),
            cwd=asked.get("workdir"),
            started_at=time.time(),
            pid_scope="sandbox",  # it is never found again by its number alone
            watch_patterns=list(asked.get("watch_patterns") or ()),
        )
        route = routed(session, get_session_env)
        with process_registry._lock:
            process_registry._running[id] = session
        self._known[id] = session
        if asked.get("notify_on_complete") and route["platform"]:
            watcher = watched(session, WATCHER_SECONDS, route, notifies=True)
            process_registry.pending_watchers.append(watcher)
        host.follow(task, id, lambda code, output: self._ended(id, code, output))

    def _ended(self, id: str, code: int | None, output: str) -> None:
        from tools.process_registry import process_registry

        session = self._known.pop(id, None)
        if session is None:
            return
        session.output_buffer, session.exit_code, session.exited = output, code, True
        if code is None:
            session.completion_reason, session.termination_source = "lost", "backend_lost"
        process_registry._move_to_finished(session)


def routed(session: Any, variable: Callable[[str, str], str]) -> dict[str, str]:
    """The conversation that a process was started in, by the gateway's variables; its record gets
    it too.
    """
    route = {name: variable(f"HERMES_SESSION_{name.upper()}", "") for name in ROUTE}
    for name, value in route.items():
        setattr(session, f"watcher_{name}", value)
    return route


def watched(session: Any, interval: int, route: dict[str, str], *, notifies: bool) -> Fields:
    """A watcher of a process, for the gateway."""
    session.watcher_interval = interval
    return {
        "session_id": session.id,
        "check_interval": interval,
        "session_key": session.session_key,
        "notify_on_complete": notifies,
        **route,
    }


def _is_recorded(session_id: str) -> bool:
    from tools.process_registry import process_registry

    return process_registry.get(session_id) is not None


def _queue(notice: Notice) -> None:
    """Puts a notice into the queue that Hermes' front ends drain."""
    from tools.process_registry import process_registry

    if notice.kind in KINDS:
        session = process_registry.get(notice.session_id)
        process_registry.completion_queue.put(event_of(notice, session))


def event_of(notice: Notice, session: Any | None) -> Fields:
    """A notice as Hermes' completion queue holds it; `session` is the record of its process."""
    return {
        "type": KINDS[notice.kind],
        "session_id": notice.session_id,
        "session_key": "" if session is None else session.session_key,
        "command": notice.command,
        "exit_code": notice.exit_code,
        "output": notice.output,
        "pattern": notice.pattern,
        "suppressed": notice.suppressed,
        "message": notice.text,
    }
