"""The terminal tool by its Hermes names, and the life of the environments behind it."""

import asyncio
import json
import logging
import os
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from hermetic.config import load
from hermetic.contract.environment import Finding
from hermetic.contract.errors import ConfigError, ExecutionError
from hermetic.contract.limits import CHECK_INTERVAL
from hermetic.contract.tool import DEFAULT_TASK, Fields
from hermetic.environments import catalog
from hermetic.hermes.base import INTERRUPTED, late, with_line
from hermetic.hermes.notices import WATCHER_SECONDS, routed, watched
from hermetic.hermes.process_session import ProcessSession
from hermetic.hermes.processes import process_registry
from hermetic.hermes.shared import ApprovalCallback, PasswordCallback, shared

_log = logging.getLogger("hermetic.hermes")


def terminal_tool(
    command: str,
    background: bool = False,
    timeout: float | None = None,
    task_id: str | None = None,
    force: bool = False,
    workdir: str | None = None,
    check_interval: float | None = None,
    pty: bool = False,
    *,
    session_id: str | None = None,
    notify_on_complete: bool = False,
    watch_patterns: list[str] | None = None,
) -> str:
    """Runs a command for a task; the answer is JSON with `output`, `exit_code` and `error`.

    A foreground command that exceeds its timeout is ended. `force`: the user has approved this very
    command. `session_id` is the conversation, and not used.
    """
    if not isinstance(command, str):
        return _json(_failed(f"Invalid command: expected string, got {type(command).__name__}"))
    try:
        interval = int(check_interval or 0)
    except (TypeError, ValueError, OverflowError):
        return _json(_failed(f"check_interval is a number of seconds, not {check_interval!r}"))
    arguments: Fields = {
        "command": command,
        "background": background,
        "timeout": timeout,
        "workdir": workdir,
    }
    arguments |= {"pty": pty, "on_timeout": "kill"}
    if background:
        arguments |= {"notify_on_complete": notify_on_complete, "watch_patterns": watch_patterns}
    with process_registry.notices.starting():
        try:
            answer = _call(arguments, task_id, force=force)
        except (ExecutionError, ConfigError) as error:
            answer = _failed(str(error), "disabled" if isinstance(error, ConfigError) else "error")
        id = answer.get("session_id") if background else None
        if id:
            task = task_id or DEFAULT_TASK
            session = process_registry.track(id, command, task, pid=answer.get("pid"), cwd=workdir)
    if id:
        session.notify_on_complete = notify_on_complete
        session.watch_patterns = (
            [] if "watch_patterns_ignored" in answer else list(watch_patterns or ())
        )
        answer |= _watched(session, interval)
        answer |= {"notify_on_complete": True} if notify_on_complete else {}
    return _json(with_last_line(answer, timeout))


def _call(arguments: Fields, task_id: str | None, *, force: bool) -> Fields:
    host = shared.host()
    caller = shared.caller(arguments["command"] if force else None)
    if caller.stop():
        return {"output": "", "exit_code": 130, "error": None, "status": "interrupted"}
    answer = host.call("terminal", arguments, task_id, caller)
    if force and answer.get("status") == "approval_required":
        # The approval holds for this very command, its directory and its input.
        host.toolbox.approvals.answer(answer["approval_id"], "once")
        answer = host.call("terminal", arguments, task_id, shared.caller(arguments["command"]))
    return answer


def with_last_line(answer: Fields, timeout: float | None) -> Fields:
    """The answer with a last line of output that says why the command was ended."""
    if answer.get("status") == "interrupted":
        line = INTERRUPTED
    elif answer.get("ending") == "timed_out":
        terminal = shared.host().settings.terminal
        line = late(min(timeout or terminal.timeout, terminal.longest_timeout))
    else:
        return answer
    return {**answer, "output": with_line(answer.get("output", ""), line)}


def _watched(session: ProcessSession, interval: int) -> Fields:
    """Queues a watcher for the gateway, where one is wanted; fields of the answer on it."""
    route, notifies = routed(session, os.environ.get), session.notify_on_complete
    if interval:
        seconds = max(interval, int(CHECK_INTERVAL))
    elif notifies and route["platform"]:
        seconds = WATCHER_SECONDS
    else:
        return {}
    watcher = watched(session, seconds, route, notifies=notifies)
    process_registry.pending_watchers.append(watcher)
    if not interval or interval >= CHECK_INTERVAL:
        return {}
    return {"check_interval_note": f"raised to {CHECK_INTERVAL:g} s, the shortest there is"}


def _failed(message: str, status: str = "error") -> Fields:
    return {"output": "", "exit_code": -1, "error": message, "status": status}


def _json(answer: Fields) -> str:
    return json.dumps(answer, ensure_ascii=False)


# -- who is asked, and when to stop
def set_approval_callback(callback: ApprovalCallback | None) -> None:
    """Sets who approves: `callback(command, description)` answers "once", "session", "always" or
    "deny".

    It may take `allow_permanent` as well, which says whether "always" is offered.
    """
    shared.approval = callback


def set_sudo_password_callback(callback: PasswordCallback | None) -> None:
    """Sets who types a password for sudo:

    `callback()` returns it, or an empty text to go on without.
    """
    shared.password = callback


def set_interrupt_event(active: bool) -> None:
    """Interrupts the commands that run, and those that start until it is cleared."""
    if active:
        shared.interrupted.set()
    else:
        shared.interrupted.clear()


# -- environments
def register_task_env_overrides(task_id: str, overrides: Mapping[str, Any]) -> None:
    """Sets the image (`docker_image`, `modal_image` …) and `cwd` of a task, before its first use."""
    shared.override(task_id, overrides)


def clear_task_env_overrides(task_id: str) -> None:
    """Forgets the overrides of a task."""
    shared.clear_override(task_id)


def cleanup_vm(task_id: str, *, force_remove: bool = True) -> None:
    """Ends a task's environment. With `force_remove=False` a container is left to its lease."""
    for host in shared.hosts:
        try:
            host.close_task(task_id, remove=force_remove)
        except ExecutionError as error:
            _log.warning("the environment of task %s was not cleaned up: %s", task_id, error)


def cleanup_all_environments() -> int:
    """Ends all environments of this process; returns how many.

    The next call reads the settings again.
    """
    tasks = [task.task for host in shared.hosts for task in host.info().tasks]
    for task in tasks:
        cleanup_vm(task)
    process_registry.forget()
    shared.close()
    return len(tasks)


def get_active_environments_info() -> Fields:
    """`count`, `task_ids`, `workdirs` (task → directory) and `total_disk_usage_mb` of the open
    environments.
    """
    infos = [host.info() for host in shared.hosts]
    tasks = [task for info in infos for task in info.tasks]
    return {
        "count": len(tasks),
        "task_ids": [task.task for task in tasks],
        "workdirs": {task.task: task.cwd for task in tasks},
        "total_disk_usage_mb": round(sum(info.disk_bytes for info in infos) / (1 << 20), 2),
    }


def check_terminal_requirements() -> bool:
    """Whether the configured environment can be used here. The reason against it is logged."""
    try:
        settings = load()
    except ConfigError as error:
        _log.error("%s", error)
        return False
    kind = settings.environment.kind
    if kind == "ssh" and not settings.options.get("host"):
        _log.error("TERMINAL_SSH_HOST is not set; set it, or TERMINAL_ENV=local")
        return False
    doctor: Callable[[], Coroutine[Any, Any, Finding]] | None = getattr(
        catalog.find(kind), "doctor", None
    )
    if doctor is None:
        return True
    finding = _run(doctor())
    if finding.state not in ("ok", "weak"):
        _log.error("%s: %s; %s", kind, finding.found, finding.advice)
    return finding.state in ("ok", "weak")


def _run(work: Coroutine[Any, Any, Finding]) -> Finding:
    """The result of a coroutine, from a thread of its own: the caller may be inside an event loop."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()
