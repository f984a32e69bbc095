"""The process tool: one function per action."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from hermetic.contract.endings import Ending
from hermetic.contract.errors import InvalidArgument, UnknownProcess
from hermetic.contract.limits import FINAL_OUTPUT, GRACE, LOG_LINES, PREVIEW
from hermetic.contract.notice import read_wishes
from hermetic.contract.process import ProcessInfo
from hermetic.contract.tool import Fields, Tool
from hermetic.processes.arguments import DESCRIPTION, ProcessArguments
from hermetic.processes.reading import lines, news, tail
from hermetic.session.environment import Environment
from hermetic.session.process import Process
from hermetic.session.task import Task

SHOWN_COMMAND = 200  # characters
LISTED_OUTPUT = 200  # characters


class Asked(msgspec.Struct, frozen=True):
    """One call: whose, of which process, with what."""

    task: Task
    arguments: ProcessArguments
    environment: Environment
    process: Process

    def show(self, text: str) -> str:
        """A text that the process printed, as a model may see it."""
        return self.task.show(text, self.process.info.command)

    @property
    def data(self) -> str:
        """The text that was given. Raises InvalidArgument when there is none."""
        data = self.arguments.data
        if data is None:
            raise InvalidArgument(f"{self.arguments.action} needs data", argument="data")
        return data if isinstance(data, str) else " ".join(data)


async def process(task: Task, arguments: ProcessArguments) -> Fields:
    """Does what was asked for."""
    async with task.place() as environment:
        if arguments.action == "list":
            return await _list(task, environment)
        if not arguments.session_id:
            raise InvalidArgument(
                f"{arguments.action} needs session_id; process(action='list') shows them", argument="session_id"
            )
        try:
            found = await environment.process(arguments.session_id)
        except (UnknownProcess, InvalidArgument):
            return {
                "session_id": arguments.session_id, "status": "not_found",
                "error": f"no process {arguments.session_id!r} here; process(action='list') shows which there are",
            }  # fmt: skip
        async with task.alive():
            return await ACTIONS[arguments.action](Asked(task, arguments, environment, found))


async def _list(task: Task, environment: Environment) -> Fields:
    listed = []
    for info in await environment.processes():
        wishes = read_wishes(info.tag)
        if wishes is None or wishes.origin == "foreground":
            continue
        shown = _described(task, info)
        preview = await tail(await environment.process(info.id), LISTED_OUTPUT)
        listed.append({
            **shown, "cwd": info.cwd, "started_at": info.started, "output_preview": task.show(preview, info.command),
            "notify_on_complete": wishes.notify, "watch_patterns": list(wishes.watch),
        })  # fmt: skip
    return {"processes": listed, "count": len(listed)}


def _described(task: Task, info: ProcessInfo) -> Fields:
    fields: Fields = {
        "session_id": info.id, "command": task.show(info.command, "")[:SHOWN_COMMAND],
        "status": "running" if info.ending is None else "exited", "pid": info.pid,
        "uptime_seconds": round(info.duration, 3), "pty": info.pty,
    }  # fmt: skip
    if info.ending is not None:
        fields |= _ended(info.ending)
    return fields


def _ended(ending: Ending) -> Fields:
    name = type(ending).__name__
    reason = {"Exited": "exited", "Signalled": "killed", "Lost": "lost"}.get(name, name.lower())
    return {"exit_code": ending.exit_code, "completion_reason": reason}


async def _poll(asked: Asked) -> Fields:
    status = await asked.process.status()
    info = asked.process.info
    answer = _described(asked.task, info)
    if info.ending is None:
        answer["waiting_for_input"] = status.waiting_for_input
    cursor = asked.arguments.cursor
    if cursor is None:
        shown = await tail(asked.process, PREVIEW.value)
        return answer | {"output_preview": asked.show(shown), "cursor": info.out}
    if cursor > info.out:
        raise InvalidArgument(f"cursor {cursor} lies behind the {info.out} bytes there are", argument="cursor")
    found = await news(asked.process, cursor, asked.task.limits.output)
    answer |= {"output": asked.show(found.text), "cursor": found.cursor}
    if found.dropped:
        answer["dropped_bytes"] = found.dropped
    if found.cursor < info.out:
        answer["more_bytes"] = info.out - found.cursor
    return answer


async def _log(asked: Asked) -> Fields:
    await asked.process.status()
    found = await lines(asked.process, asked.arguments.offset, asked.arguments.limit or LOG_LINES.value)
    answer = _described(asked.task, asked.process.info)
    budget = asked.task.limits.output
    shown = asked.show(found.text)
    answer |= {
        "output": shown[-budget:] if asked.arguments.offset == 0 else shown[:budget], "total_lines": found.total,
        "showing": f"lines {found.first} to {found.first + found.shown - 1}" if found.shown else "no lines",
    }  # fmt: skip
    if len(shown) > budget:
        answer["showing"] += f", cut to {budget} characters: ask for fewer lines"
    if found.dropped:
        answer["dropped_bytes"] = found.dropped
    if asked.process.info.ending is not None:
        await asked.task.watcher.told(asked.process)
    return answer


async def _wait(asked: Asked) -> Fields:
    timeout, note = _waiting_time(asked)
    interrupted = asyncio.ensure_future(asked.task.interrupted.wait())
    waiting = asyncio.ensure_future(asked.process.wait())
    try:
        await asyncio.wait([interrupted, waiting], timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        state = "exited" if waiting.done() else "interrupted" if interrupted.done() else "timeout"
        if waiting.done():
            waiting.result()
    finally:
        interrupted.cancel()
        waiting.cancel()
    answer = await _final(asked, FINAL_OUTPUT.value if state == "exited" else PREVIEW.value)
    answer["status"] = state
    if note:
        answer["timeout_note"] = note
    return answer


def _waiting_time(asked: Asked) -> tuple[float, str]:
    most, timeout = asked.task.limits.foreground, asked.arguments.timeout
    if timeout is None:
        return most, ""
    if timeout <= 0:
        raise InvalidArgument("timeout must be seconds above zero", argument="timeout")
    longest = max(asked.task.limits.longest_foreground, most)
    if timeout > longest:
        return longest, f"a timeout of {timeout:g} s is more than the {longest:g} s that a call may wait; used that"
    return timeout, ""


async def _final(asked: Asked, characters: int) -> Fields:
    """How it is doing and the end of its output; an end that is told here is not told again."""
    await asked.process.status()
    info = asked.process.info
    if info.ending is not None:
        await asked.task.watcher.told(asked.process)
    shown = await tail(asked.process, characters)
    return _described(asked.task, info) | {"output": asked.show(shown), "cursor": info.out}


async def _wait_for(asked: Asked) -> Fields:
    timeout, note = _waiting_time(asked)
    given, status, end = asked.arguments, "matched", None
    try:
        _, end = await asked.process.wait_for(asked.data, timeout=timeout, pattern=given.pattern, on=given.on)
    except TimeoutError:
        status = "timeout"
    except EOFError:
        status = "exited"
    answer = await _final(asked, PREVIEW.value) | {"status": status}
    if given.on == "output" and end is not None:
        answer["cursor"] = end
    if note:
        answer["timeout_note"] = note
    return answer


async def _kill(asked: Asked) -> Fields:
    await asked.process.status()
    was_running = asked.process.info.ending is None
    grace = asked.arguments.grace
    await asked.process.kill(GRACE.value if grace is None else grace)
    return await _final(asked, FINAL_OUTPUT.value) | {"status": "killed" if was_running else "already_exited"}


async def _type(asked: Asked, text: str, send: Callable[[], Awaitable[None]]) -> Fields:
    """Lets something be typed, if the door allows it."""
    await asked.process.status()
    await asked.task.door.input(asked.task.id, text, asked.process.info, asked.environment)
    await send()
    return {"session_id": asked.process.id, "status": "ok", "bytes_written": len(text.encode())}


async def _write(asked: Asked) -> Fields:
    return await _type(asked, asked.data, lambda: asked.process.write(asked.data))


async def _submit(asked: Asked) -> Fields:
    line = "" if asked.arguments.data is None else asked.data
    return await _type(asked, line + "\n", lambda: asked.process.submit(line))


async def _keys(asked: Asked) -> Fields:
    return await _type(asked, asked.data, lambda: asked.process.keys(asked.data))


async def _close(asked: Asked) -> Fields:
    await asked.process.close_input()
    return {"session_id": asked.process.id, "status": "ok"}


async def _screen(asked: Asked) -> Fields:
    await asked.process.status()
    if not asked.process.info.pty:
        raise InvalidArgument("it has no terminal; start it with pty=true, or use poll or log", argument="action")
    shown = await asked.process.shown()
    return _described(asked.task, asked.process.info) | {
        "screen": [asked.show(line) for line in shown.lines], "rows": shown.rows, "cols": shown.cols,
        "cursor": {"row": shown.cursor[0], "col": shown.cursor[1]}, "alternate": shown.alternate,
    }  # fmt: skip


async def _resize(asked: Asked) -> Fields:
    rows, cols = asked.arguments.rows, asked.arguments.cols
    if rows is None or cols is None:
        raise InvalidArgument("resize needs rows and cols", argument="rows")
    await asked.process.resize(rows, cols)
    return {"session_id": asked.process.id, "status": "ok", "rows": rows, "cols": cols}


ACTIONS: dict[str, Callable[[Asked], Awaitable[dict[str, Any]]]] = {
    "poll": _poll, "log": _log, "wait": _wait, "wait_for": _wait_for, "kill": _kill, "write": _write,
    "submit": _submit, "keys": _keys, "close": _close, "screen": _screen, "resize": _resize,
}  # fmt: skip

PROCESS = Tool("process", DESCRIPTION, ProcessArguments, process)
