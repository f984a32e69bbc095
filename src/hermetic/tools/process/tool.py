"""The process tool: one function per action."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import msgspec

from hermetic.contract.errors import InvalidArgument, UnknownProcess
from hermetic.contract.limits import FINAL_OUTPUT, ID_LENGTH, LOG_LINES, PREVIEW
from hermetic.contract.tool import Fields, Tool
from hermetic.session.environment import Environment
from hermetic.session.keys import encode_keys
from hermetic.session.process import Process
from hermetic.tools.base.task import Interrupted, Task
from hermetic.tools.process.arguments import ANSWERS, DESCRIPTION, ProcessArguments
from hermetic.tools.process.describing import KILLED_HERE, described, listing
from hermetic.tools.process.handles import Handles
from hermetic.tools.process.reading import lines, news, tail

NEEDED = {
    "write": "the text to type, without a newline of its own", "keys": 'names of keys, such as "ctrl-c up enter"',
    "wait_for": "the text to wait for",
}  # fmt: skip


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
            raise InvalidArgument(
                f"{self.arguments.action} needs data: {NEEDED[self.arguments.action]}", argument="data"
            )
        return data if isinstance(data, str) else " ".join(data)


async def process(handles: Handles, task: Task, arguments: ProcessArguments) -> Fields:
    """Does what was asked for."""
    async with task.place() as environment:
        if arguments.action == "list":
            return await listing(task, environment)
        if not arguments.session_id:
            raise InvalidArgument(
                f"{arguments.action} needs session_id; process(action='list') shows them", argument="session_id"
            )
        try:
            found = await handles.get(environment, arguments.session_id)
        except (UnknownProcess, InvalidArgument):
            shown = arguments.session_id[:ID_LENGTH]
            return {
                "session_id": shown, "status": "not_found",
                "error": f"no process {shown!r} here; process(action='list') shows which there are",
            }  # fmt: skip
        async with task.alive():
            return await ACTIONS[arguments.action](Asked(task, arguments, environment, found))


async def _poll(asked: Asked) -> Fields:
    status = await asked.process.status()
    info = asked.process.info
    answer = described(asked.task, info)
    if info.ending is None:
        answer["waiting_for_input"] = status.waiting_for_input
    if not info.is_running:
        asked.task.history.ended(info.id)
    cursor = asked.arguments.cursor
    if cursor is None:
        shown = await tail(asked.process, PREVIEW, asked.task.show)
        return answer | {"output_preview": shown, "cursor": info.out}
    if cursor > info.out:
        raise InvalidArgument(f"cursor {cursor} lies behind the {info.out} bytes there are", argument="cursor")
    found = await news(asked.process, cursor, asked.task.limits.output, asked.task.show)
    answer |= {"output": found.text, "cursor": found.cursor}
    if found.dropped:
        answer["dropped_bytes"] = found.dropped
    if found.cursor < info.out:
        answer["more_bytes"] = info.out - found.cursor
    return answer


async def _log(asked: Asked) -> Fields:
    await asked.process.status()
    budget = asked.task.limits.output
    limit = asked.arguments.limit or LOG_LINES
    with asked.task.watcher.attended(asked.process.id):
        found = await lines(asked.process, asked.arguments.offset, limit, budget)
        text, last = found.text, found.first + found.shown - 1
        if found.is_open and last == found.total and asked.process.info.ending is None:
            text = text[: len(text) - asked.task.show.unfinished(text)]
        answer = described(asked.task, asked.process.info)
        answer |= {
            "output": asked.show(text), "total_lines": found.total,
            "showing": f"lines {found.first} to {last}" if found.shown else "no lines",
        }  # fmt: skip
        if found.dropped:
            answer["dropped_bytes"] = found.dropped
        if asked.process.info.ending is not None:
            await asked.task.watcher.told(asked.process)
    return answer


async def _wait(asked: Asked) -> Fields:
    timeout, note = _waiting_time(asked)
    with asked.task.watcher.attended(asked.process.id):
        state = await _within(asked, timeout, asked.process.wait(), "exited")
        answer = await _final(asked, FINAL_OUTPUT if state == "exited" else PREVIEW)
    answer["status"] = state
    if note:
        answer["timeout_note"] = note
    return answer


async def _within(asked: Asked, timeout: float, work: Awaitable[object], done: str) -> str:
    """What became of waiting for it."""
    try:
        async with asyncio.timeout(timeout):
            await asked.task.interruptible(work)
    except Interrupted:
        return "interrupted"
    except TimeoutError:
        return "timeout"
    return done


def _waiting_time(asked: Asked) -> tuple[float, str]:
    most, timeout = asked.task.limits.foreground, asked.arguments.timeout
    if timeout is None:
        return most, ""
    if not timeout > 0:
        raise InvalidArgument("timeout must be seconds above zero", argument="timeout")
    longest = max(asked.task.limits.longest_foreground, most)
    if timeout > longest:
        return longest, f"a timeout of {timeout:g} s is more than the {longest:g} s that a call may wait; used that"
    return timeout, ""


async def _final(asked: Asked, characters: int) -> Fields:
    """How it is doing and the end of its output; an end that is told here is not told again."""
    await asked.process.status()
    info = asked.process.info
    if not info.is_running:
        asked.task.history.ended(info.id)
    if info.ending is not None:
        await asked.task.watcher.told(asked.process)
    shown = await tail(asked.process, characters, asked.task.show)
    return described(asked.task, info) | {"output": shown, "cursor": info.out}


async def _wait_for(asked: Asked) -> Fields:
    timeout, note = _waiting_time(asked)
    given, status = asked.arguments, "exited"
    if given.on == "screen" and not asked.process.info.pty:
        raise InvalidArgument("it has no terminal; start it with pty=true, or wait for its output", argument="on")
    end: list[int] = []

    async def search() -> None:
        end.append((await asked.process.wait_for(asked.data, timeout=None, pattern=given.pattern, on=given.on))[1])

    with asked.task.watcher.attended(asked.process.id):
        with contextlib.suppress(EOFError):
            status = await _within(asked, timeout, search(), "matched")
        answer = await _final(asked, PREVIEW) | {"status": status}
    if given.on == "output" and end:
        answer["cursor"] = end[0]
    if note:
        answer["timeout_note"] = note
    return answer


async def _kill(asked: Asked) -> Fields:
    await asked.process.status()
    grace = asked.arguments.grace
    info = asked.process.info
    if not info.is_running:
        return await _final(asked, FINAL_OUTPUT) | {"status": "already_exited"}
    with asked.task.watcher.attended(asked.process.id):
        await asked.process.kill(asked.task.limits.kill_grace if grace is None else grace)
        if info.ending is None:
            await asked.task.watcher.amend(asked.process, ended_by=KILLED_HERE)
        return await _final(asked, FINAL_OUTPUT) | {"status": "killed"}


async def _type(asked: Asked, text: str, send: Callable[[], Awaitable[None]]) -> Fields:
    """Lets something be typed, if the door allows it."""
    timeout, _ = _waiting_time(asked)
    task = asked.task
    await asked.process.status()
    await task.interruptible(task.door.input(task.id, text, asked.process.info, asked.environment))
    state = await _within(asked, timeout, send(), "ok")
    answer: Fields = {"session_id": asked.process.id, "status": state}
    if state != "ok":
        answer["error"] = "the process does not read its input: only a part was typed"
    return answer


async def _write(asked: Asked) -> Fields:
    answer = await _type(asked, asked.data, lambda: asked.process.write(asked.data))
    return answer | ({"bytes_written": len(asked.data.encode())} if answer["status"] == "ok" else {})


async def _submit(asked: Asked) -> Fields:
    line = "" if asked.arguments.data is None else asked.data
    return await _type(asked, line + "\n", lambda: asked.process.submit(line))


async def _keys(asked: Asked) -> Fields:
    typed = encode_keys(asked.data).decode()
    return await _type(asked, typed, lambda: asked.process.keys(asked.data))


async def _close(asked: Asked) -> Fields:
    await asked.process.status()
    if asked.process.info.input == "open":  # what was typed so far is a whole line now
        task = asked.task
        await task.interruptible(task.door.input(task.id, "\n", asked.process.info, asked.environment))
    await asked.process.close_input()
    return {"session_id": asked.process.id, "status": "ok"}


async def _screen(asked: Asked) -> Fields:
    await asked.process.status()
    if not asked.process.info.pty:
        raise InvalidArgument("it has no terminal; start it with pty=true, or use poll or log", argument="action")
    shown = await asked.process.shown()
    return described(asked.task, asked.process.info) | {
        "screen": asked.task.show.screen(shown, asked.process.info.command), "rows": shown.rows, "cols": shown.cols,
        "cursor": {"row": shown.cursor[0], "col": shown.cursor[1]}, "alternate": shown.alternate,
        **({"screen_note": shown.note} if shown.note else {}),
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


def process_tool() -> Tool[ProcessArguments]:
    """The tool, with what it remembers of the processes it has looked at."""
    return Tool("process", DESCRIPTION, ProcessArguments, partial(process, Handles()), answers=ANSWERS)
