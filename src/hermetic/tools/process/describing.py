"""Processes as a model is told of them, one or all."""

import asyncio

from hermetic.contract.endings import Ending
from hermetic.contract.errors import UnknownProcess
from hermetic.contract.limits import LISTED_BY_TOOL
from hermetic.contract.notice import NotifyOptions, read_wishes
from hermetic.contract.process import ProcessInfo
from hermetic.contract.tool import Fields
from hermetic.session.environment import Environment
from hermetic.tools.base.task import Task
from hermetic.tools.process.reading import tail

SHOWN_COMMAND = 200  # characters
LISTED_OUTPUT = 200  # characters
KILLED_HERE = "process.kill"


async def listing(task: Task, environment: Environment) -> Fields:
    """What runs there and what has ended; where that is too much, the newest, and rather what runs."""
    all = [info for info in await environment.processes() if _is_listed(info)]
    for info in all:
        if info.left:
            task.history.started(info.id, task.show(info.command, ""))
    by_age = sorted(all, key=lambda info: (info.is_running, info.started))
    newest = sorted(by_age[-LISTED_BY_TOOL:], key=lambda info: info.started)
    shown = await asyncio.gather(*(_listed(task, environment, info.id) for info in newest))
    answer: Fields = {"processes": [one for one in shown if one is not None], "count": len(all)}
    if len(all) > len(newest):
        answer["note"] = f"{len(all) - len(newest)} older ones are left out; their session_id still works"
    return answer


def _is_listed(info: ProcessInfo) -> bool:
    """What runs, whoever started it; of what has ended, what nobody has had the result of as an answer."""
    wishes = read_wishes(info.tag)
    if wishes is None or info.left:
        return info.is_running
    return wishes.origin != "foreground" or not wishes.told


async def _listed(task: Task, environment: Environment, id: str) -> Fields | None:
    try:
        process = await environment.process(id)
        preview = await tail(process, LISTED_OUTPUT, task.show)
    except UnknownProcess:  # it ended and was forgotten meanwhile
        return None
    info = process.info
    wishes = read_wishes(info.tag) or NotifyOptions(origin="foreground")
    return described(task, info) | {
        "cwd": info.cwd, "started_at": info.started, "output_preview": preview, "origin": wishes.origin,
    }  # fmt: skip


def described(task: Task, info: ProcessInfo) -> Fields:
    """What every answer says of a process."""
    fields: Fields = {
        "session_id": info.id, "command": task.show(info.command, "")[:SHOWN_COMMAND],
        "status": "running" if info.ending is None else "exited", "pid": info.pid,
        "uptime_seconds": round(info.duration, 3), "pty": info.pty,
    }  # fmt: skip
    wishes = read_wishes(info.tag) or NotifyOptions()
    fields |= {"notify_on_complete": wishes.notify, "watch_patterns": list(wishes.watch)}
    if wishes.every:
        fields["check_interval"] = wishes.every
    if wishes.caller != task.caller:
        fields["detached"] = True  # an earlier caller, or another one, started it; nothing else is different
    if info.ending is not None:
        fields |= _ended(info.ending, wishes)
    if info.left:
        fields["left_running"] = info.left  # processes; kill ends them
    return fields


def _ended(ending: Ending, wishes: NotifyOptions) -> Fields:
    name = type(ending).__name__
    reason = {"Exited": "exited", "Signalled": "killed", "Lost": "lost"}.get(name, name.lower())
    source = wishes.ended_by or ("backend_lost" if reason == "lost" else "")
    fields: Fields = {"exit_code": ending.exit_code, "completion_reason": reason}
    return fields | ({"termination_source": source} if source else {})
