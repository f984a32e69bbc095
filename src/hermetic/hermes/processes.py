"""The registry of background processes by its Hermes names.

The processes live in their environments.
"""

import os
import queue
import time
from collections.abc import Callable
from typing import Any

from hermetic.contract.errors import ExecutionError
from hermetic.contract.notice import Notice
from hermetic.contract.tool import DEFAULT_TASK, Fields
from hermetic.hermes.base import BaseEnvironment
from hermetic.hermes.handles import HandleProcess
from hermetic.hermes.host import Host
from hermetic.hermes.notices import KINDS, NoticeGate, event_of
from hermetic.hermes.process_session import BUFFER, ProcessSession
from hermetic.hermes.shared import shared

LINES = 200  # of a log
MOST = 64  # sessions; the oldest ended ones are forgotten
SHOWN = 200  # characters of a command or of output in a list
FOUND_AGAIN = "started by an earlier process, and found again with its output"


class ProcessRegistry:
    """Background processes of all tasks, by their session ids. Threads may share it."""

    def __init__(self) -> None:
        self._sessions: dict[str, ProcessSession] = {}
        self._consumed: set[str] = set()  # sessions whose end was seen by wait, log or kill
        self._matched: set[str] = set()  # sessions with a match of a watched pattern
        self.pending_watchers: list[Fields] = []  # for the gateway, which removes them
        self.completion_queue: queue.Queue[Fields] = queue.Queue()
        self.on_close: Callable[[ProcessSession | None, str], object] | None = None
        self.notices = NoticeGate(self._noticed, lambda id: id in self._sessions)
        shared.on_notice = self.notices.take

    def __repr__(self) -> str:
        return f"<ProcessRegistry of {len(self._sessions)} sessions>"

    # -- starting
    def spawn_local(
        self,
        command: str,
        cwd: str | None = None,
        task_id: str = "",
        session_key: str = "",
        env_vars: dict[str, str] | None = None,
        use_pty: bool = False,
    ) -> ProcessSession:
        """Starts a process on this machine. Raises RuntimeError when it does not start."""
        host = shared.host("local")
        arguments = {
            "command": command,
            "background": True,
            "workdir": cwd,
            "environment": env_vars,
            "pty": use_pty,
        }
        with self.notices.starting():
            answer = host.call("terminal", arguments, task_id, shared.caller(command))
            if not (id := answer.get("session_id")):
                raise RuntimeError(answer.get("error") or "the process did not start")
            return self.track(
                id, command, task_id, pid=answer["pid"], cwd=cwd, session_key=session_key, host=host
            )

    def spawn_via_env(
        self,
        env: BaseEnvironment,
        command: str,
        cwd: str | None = None,
        task_id: str = "",
        session_key: str = "",
        timeout: float = 10,
    ) -> ProcessSession:
        """Starts a process through an environment object. Raises what its `_run_bash` raises."""
        process = HandleProcess(env.start_bash(command, cwd or env.cwd, timeout))
        session = ProcessSession(
            process.id,
            command,
            task_id,
            session_key,
            cwd=cwd or env.cwd,
            started_at=time.time(),
            env_ref=env,
            pid_scope="sandbox",
            act=process.act,
            pid=process.pid,
        )
        return self._add(session)

    def track(
        self,
        id: str,
        command: str,
        task_id: str,
        *,
        pid: int | None = None,
        cwd: str | None = None,
        session_key: str | None = None,
        host: Host | None = None,
    ) -> ProcessSession:
        """The record of a process that a tool has started."""
        chosen = host or shared.host()

        def act(action: str, **given: Any) -> Fields:
            return chosen.call(
                "process", {"action": action, "session_id": id, **given}, task_id, shared.caller()
            )

        key = os.environ.get("HERMES_SESSION_KEY", "") if session_key is None else session_key
        scope = "host" if chosen.kind == "local" else "sandbox"
        return self._add(
            ProcessSession(
                id, command, task_id, key, pid, cwd, time.time(), pid_scope=scope, act=act
            )
        )

    def _add(self, session: ProcessSession) -> ProcessSession:
        ended = [id for id, one in self._sessions.items() if one.exited]
        for id in ended[: max(0, len(self._sessions) + 1 - MOST)]:
            self._sessions.pop(id)
            self._consumed.discard(id)
        self._sessions[session.id] = session
        return session

    # -- looking
    def get(self, session_id: str) -> ProcessSession | None:
        """The process as it is now; None for an unknown id."""
        session = self._sessions.get(session_id)
        if session is not None and not session.exited:
            session.update(self._ask(session, "log", limit=BUFFER))
        return session

    def poll(self, session_id: str) -> Fields:
        """Status and the end of the output."""
        answer = self._act(session_id, "poll")
        if "output_preview" not in answer:
            return answer
        names = (
            "session_id",
            "status",
            "pid",
            "uptime_seconds",
            "output_preview",
            "exit_code",
            "completion_reason",
        )
        found = {name: answer[name] for name in (*names, "waiting_for_input") if name in answer}
        session = self._sessions[session_id]
        found |= {"command": session.command, "uptime_seconds": int(answer["uptime_seconds"])}
        if session.detached:
            found |= {"detached": True, "note": FOUND_AGAIN}
        if "exit_code" in found:
            found["termination_source"] = answer.get("termination_source", "")
        return found

    def read_log(self, session_id: str, offset: int = 0, limit: int = LINES) -> Fields:
        """Lines of the output: the last ones, or those after the first `offset` ones."""
        answer = self._act(
            session_id, "log", offset=offset + 1 if offset > 0 else 0, limit=max(1, limit)
        )
        if "output" not in answer:
            return answer
        output = answer["output"].removesuffix("\n")
        count = len(output.splitlines())
        if "exit_code" in answer and (not offset or offset + count >= answer["total_lines"]):
            self._consumed.add(session_id)
        found = {
            "session_id": session_id,
            "command": self._sessions[session_id].command,
            "status": answer["status"],
        }
        return found | {
            "output": output,
            "total_lines": answer["total_lines"],
            "showing": f"{count} lines",
        }

    def wait(self, session_id: str, timeout: float | None = None) -> Fields:
        """Waits for its end: status exited, timeout or interrupted, and the end of the output."""
        longest = shared.host().settings.terminal.timeout
        note = (
            f"the timeout of {timeout:g} s was reduced to {longest:g} s"
            if timeout and timeout > longest
            else ""
        )
        seconds = min(timeout or longest, longest)
        answer = self._act(session_id, "wait", timeout=seconds)
        if answer["status"] not in ("exited", "timeout", "interrupted"):
            return answer
        found = {
            "status": answer["status"],
            "command": self._sessions[session_id].command,
            "output": answer["output"],
        }
        if answer["status"] == "exited":
            self._consumed.add(session_id)
            found |= _ending(answer)
        elif answer["status"] == "interrupted":
            found["note"] = "User sent a new message -- wait interrupted"
        elif not note:
            note = f"Waited {seconds:g}s, process still running"
        return found | ({"timeout_note": note} if note else {})

    def list_sessions(
        self, task_id: str | None = None, session_key: str | None = None
    ) -> list[Fields]:
        """Running and recently ended processes, of a task and of a session key where they are
        given.
        """
        wanted = [one for one in self._sessions.values() if one.is_of(task_id, session_key)]
        found = []
        for session in wanted:
            answer = self.poll(session.id)
            exited = answer.get("status") != "running"
            entry: Fields = {
                "session_id": session.id,
                "command": session.command[:SHOWN],
                "cwd": session.cwd,
                "pid": session.pid,
                "started_at": time.strftime(
                    "%Y-%m-%dT%H:%M:%S", time.localtime(session.started_at)
                ),
                "uptime_seconds": int(
                    answer.get("uptime_seconds", time.time() - session.started_at)
                ),
                "status": "exited" if exited else "running",
                "output_preview": answer.get("output_preview", "")[-SHOWN:],
            }
            if task_id and session.task_id != task_id:
                entry["session_scoped"] = True
            if session.watch_patterns:
                entry |= {
                    "watch_patterns": list(session.watch_patterns),
                    "watch_hit": session.id in self._matched,
                }
            if session.notify_on_complete:
                entry["notify_on_complete"] = True
            if exited:
                entry["exit_code"] = session.exit_code
            if session.detached:
                entry["detached"] = True
            found.append(entry)
        return found

    def has_active_processes(self, task_id: str) -> bool:
        """Whether a process of the task runs."""
        return any(one.task_id == task_id for one in self._running())

    def has_active_for_session(self, session_key: str, max_active_age: float | None = None) -> bool:
        """Whether a process of the session key runs that is not older than so many seconds."""
        now = time.time()
        return any(
            one.session_key == session_key
            and (max_active_age is None or now - one.started_at < max_active_age)
            for one in self._running()
        )

    def has_any_active(self) -> bool:
        """Whether any process runs."""
        return bool(self._running())

    def count_running(self) -> int:
        """How many processes run."""
        return len(self._running())

    def _running(self) -> list[ProcessSession]:
        found = [one for one in list(self._sessions.values()) if not one.exited]
        return [one for one in found if self.poll(one.id).get("status") == "running"]

    # -- ending and typing
    def kill_process(
        self, session_id: str, *, source: str = "process.kill", consume_output: bool = True
    ) -> Fields:
        """Ends its process tree: status killed or already_exited, the true exit code, the end of
        the output.
        """
        answer = self._act(session_id, "kill")
        if "output" not in answer:
            return answer
        session = self._sessions[session_id]
        if answer["status"] == "killed":
            session.completion_reason, session.termination_source = "killed", source
        if consume_output:
            self._consumed.add(session_id)
        found = {"status": answer["status"], "session_id": session_id, "command": session.command}
        ending = _ending(answer) | {"termination_source": session.termination_source}
        return found | ending | {"output": answer["output"]}

    def kill_all(self, task_id: str | None = None) -> int:
        """Ends all running processes, of one task where it is given; returns how many."""
        targets = [one for one in self._running() if task_id is None or one.task_id == task_id]
        ended = [
            self.kill_process(one.id, source="kill_all", consume_output=False) for one in targets
        ]
        return sum(answer.get("status") in ("killed", "already_exited") for answer in ended)

    def write_stdin(self, session_id: str, data: str) -> Fields:
        """Writes to its input."""
        return self._typed(session_id, "write", data=data)

    def submit_stdin(self, session_id: str, data: str = "") -> Fields:
        """Writes a line to its input."""
        answer = self._typed(session_id, "submit", data=data)
        return answer | (
            {"bytes_written": len(data.encode()) + 1} if answer.get("status") == "ok" else {}
        )

    def close_stdin(self, session_id: str) -> Fields:
        """Ends its input."""
        answer = self._typed(session_id, "close")
        return answer | ({"message": "stdin closed"} if answer.get("status") == "ok" else {})

    def _typed(self, session_id: str, action: str, **given: Any) -> Fields:
        session = self._sessions.get(session_id)
        if session is not None and self.poll(session_id).get("status") == "exited":
            return {"status": "already_exited", "error": "Process has already finished"}
        answer = self._act(session_id, action, **given)
        return {
            name: value
            for name, value in answer.items()
            if name in ("status", "error", "bytes_written")
        }

    def request_close_terminal(self, session_id: str) -> Fields:
        """Asks the front end, through `on_close`, to close its view of a process.

        The process runs on.
        """
        if self.on_close is None:
            return {"status": "error", "error": "there is no front end with a view to close"}
        try:
            self.on_close(self.get(session_id), session_id)
        except Exception as error:  # of the front end
            return {"status": "error", "error": str(error)}
        return {
            "status": "ok",
            "closed": session_id,
            "note": "the view was closed; the process runs on",
        }

    # -- notices
    def drain_notifications(
        self,
        session_key: str = "",
        owns_event: Callable[[Fields], bool] | None = None,
        *,
        skip_poll_observed: bool = True,
    ) -> list[tuple[Fields, str]]:
        """Takes the waiting events of a session key, or those that `owns_event` accepts: (event,
        text for the model).

        Events without a session key belong to every caller. `skip_poll_observed` has no effect: a
        poll takes nothing.
        """
        taken, left = [], []
        while not self.completion_queue.empty():
            event = self.completion_queue.get_nowait()
            key = event.get("session_key", "")
            is_ours = (
                owns_event(event)
                if owns_event and key
                else not (session_key and key) or key == session_key
            )
            if not is_ours:
                left.append(event)
            elif not (event["type"] == "completion" and event["session_id"] in self._consumed):
                taken.append((event, event["message"]))
        for event in left:
            self.completion_queue.put(event)
        return taken

    def is_completion_consumed(self, session_id: str) -> bool:
        """Whether `wait`, `read_log` or `kill_process` has shown its end."""
        return session_id in self._consumed

    def is_session_waiting(self, session_id: str) -> bool:
        """Whether it runs, and no watched pattern has matched yet."""
        session = self._sessions.get(session_id)
        if session is None or session_id in self._matched:
            return False
        return self.poll(session_id).get("status") == "running"

    def _noticed(self, notice: Notice) -> None:
        """Queues a notice of the toolbox as an event."""
        if notice.kind == "matched":
            self._matched.add(notice.session_id)
        if notice.kind in KINDS:
            session = self._sessions.get(notice.session_id)
            self.completion_queue.put(event_of(notice, session))

    # -- recovery
    def recover_from_checkpoint(self) -> int:
        """Finds running processes of an earlier process in the tasks that outlive one; returns how
        many are new.
        """
        host = shared.host()
        if not host.is_shared:
            return 0
        found = 0
        for task in {DEFAULT_TASK, *shared.overrides}:
            try:
                if not host.running(task):
                    continue
                host.recover(task)
                answer = host.call("process", {"action": "list"}, task, shared.caller())
            except ExecutionError:
                continue
            for entry in answer.get("processes", ()):
                if entry["status"] == "running" and entry["session_id"] not in self._sessions:
                    session = self.track(
                        entry["session_id"], entry["command"], task, pid=entry["pid"]
                    )
                    session.detached, session.started_at, session.cwd = (
                        True,
                        entry["started_at"],
                        entry["cwd"],
                    )
                    found += 1
        return found

    def forget(self) -> None:
        """Drops all records; their environments are gone."""
        self._sessions.clear()
        self._consumed.clear()
        self._matched.clear()
        self.pending_watchers.clear()

    # -- one action
    def _act(self, session_id: str, action: str, **given: Any) -> Fields:
        session = self._sessions.get(session_id)
        if session is None:
            return {"status": "not_found", "error": f"No process with ID {session_id}"}
        answer = self._ask(session, action, **given)
        session.update(answer)
        return answer

    def _ask(self, session: ProcessSession, action: str, **given: Any) -> Fields:
        try:
            return session.act(action, **given)
        except ExecutionError as error:
            return {"status": "error", "error": str(error)}


def _ending(answer: Fields) -> Fields:
    return {
        "exit_code": answer.get("exit_code"),
        "completion_reason": answer.get("completion_reason", "exited"),
        "termination_source": answer.get("termination_source", ""),
    }


process_registry = ProcessRegistry()
