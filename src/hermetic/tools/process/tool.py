"""The process tool: one function per action."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Literal
from weakref import WeakKeyDictionary

import msgspec
from msgspec import Meta

from hermetic.contract import limits
from hermetic.contract.errors import Driven, InvalidArgument, UnknownProcess
from hermetic.contract.notice import NotifyOptions, read_wishes
from hermetic.contract.process import ProcessInfo
from hermetic.contract.tool import Fields, Interrupted, Tool, about
from hermetic.session.environment import Environment
from hermetic.session.keys import encode_keys
from hermetic.session.process import Process
from hermetic.tools.base.notices import tail
from hermetic.tools.base.task import Recent, Task
from hermetic.tools.process.reading import lines, news

SHOWN_COMMAND = 200  # characters
LISTED_OUTPUT = 200  # characters
KILLED_HERE = "process.kill"

DESCRIPTION = """\
Sees and steers what runs in the background: processes started with terminal(background=true), \
and commands that outlived their timeout.

list: all of them · poll: how one is doing, and its new output (pass the cursor of the last \
answer to get each byte once) · log: its output by lines · wait: until it ends · wait_for: until \
a text or pattern appears · kill: end it and everything it started · write: raw input · submit: \
a line of input · keys: keys such as "ctrl-c up f1 enter" · close: end of input · screen: what \
its terminal shows · resize: another size for its terminal."""
ANSWERS = "{session_id?: str, status?: str, output?: str, exit_code?: int, processes?: list[dict], count?: int, error?: str}"
NEEDED = {
    "write": "the text to type, without a newline of its own",
    "keys": 'names of keys, such as "ctrl-c up enter"',
    "wait_for": "the text to wait for",
}

Action = Literal[
    "list",
    "poll",
    "log",
    "wait",
    "wait_for",
    "kill",
    "write",
    "submit",
    "keys",
    "close",
    "screen",
    "resize",
]
Size = Annotated[int, Meta(ge=1, le=1000)]


class ProcessArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of `process`."""

    action: Annotated[Action, about("What to do.")]
    session_id: Annotated[str | None, about("Which process; all actions but list need it.")] = None
    data: Annotated[
        str | list[str] | None,
        about("Input for write and submit, key names for keys, the text or pattern for wait_for."),
    ] = None
    pattern: Annotated[bool, about("wait_for: data is a regular expression.")] = False
    on: Annotated[Literal["output", "screen"], about("wait_for: where to look.")] = "output"
    timeout: Annotated[float | None, about("Seconds for wait and wait_for; default 180.")] = None
    grace: Annotated[float | None, about("kill: seconds between TERM and KILL; default 2.")] = None
    cursor: Annotated[
        Annotated[int, Meta(ge=0)] | None, about("poll: where the last answer ended.")
    ] = None
    offset: Annotated[int, about("log: first line to show; 0 shows the last ones.", ge=0)] = 0
    limit: Annotated[Annotated[int, Meta(ge=1)] | None, about("log: most lines, default 200.")] = (
        None
    )
    rows: Annotated[Size | None, about("resize: rows.")] = None
    cols: Annotated[Size | None, about("resize: columns.")] = None


class Handles:
    """Process objects by environment and id, those used last: their searches and screens continue."""

    def __init__(self) -> None:
        self._kept: WeakKeyDictionary[Environment, Recent[str, Process]] = WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"<Handles of {sum(map(len, self._kept.values()))} processes>"

    async def get(self, environment: Environment, id: str) -> Process:
        """The process with this id, its status current. Raises UnknownProcess, InvalidArgument."""
        kept = self._kept.setdefault(environment, Recent(limits.HANDLES))
        known = kept.get(id)
        try:
            if known is None:
                found = await environment.process(id)
            else:
                await known.status()
        except UnknownProcess:
            kept.pop(id, None)
            raise
        known = kept[id] = kept.get(id) or known or found  # a concurrent call may have added one
        return known


class ProcessCall(msgspec.Struct, frozen=True):
    """One call of an action on a process."""

    task: Task
    arguments: ProcessArguments
    environment: Environment
    process: Process

    @property
    def info(self) -> ProcessInfo:
        return self.process.info

    @property
    def data(self) -> str:
        """The text that was given. Raises InvalidArgument when there is none."""
        data, action = self.arguments.data, self.arguments.action
        if data is None:
            raise InvalidArgument(f"{action} needs data: {NEEDED[action]}", argument="data")
        return data if isinstance(data, str) else " ".join(data)


async def process(handles: Handles, task: Task, arguments: ProcessArguments) -> Fields:
    """The answer of one action."""
    async with task.environment() as environment:
        id = arguments.session_id
        if arguments.action == "list":
            return await _list(task, environment)
        if not id:
            raise InvalidArgument(
                f"{arguments.action} needs session_id; process(action='list') shows them",
                argument="session_id",
            )
        try:
            found = await handles.get(environment, id)
        except (UnknownProcess, InvalidArgument):
            shown = id[: limits.ID_LENGTH]
            error = f"no process {shown!r} here; process(action='list') shows which there are"
            return {"session_id": shown, "status": "not_found", "error": error}
        async with task.alive():
            return await ACTIONS[arguments.action](ProcessCall(task, arguments, environment, found))


# -- looking
async def _list(task: Task, environment: Environment) -> Fields:
    """Running and ended processes; of too many the newest, and rather those that run."""
    all = [info for info in await environment.processes() if _is_listed(info)]
    for info in all:
        if info.left:
            task.history.started[info.id] = task.show(info.command, "")
    by_age = sorted(all, key=lambda info: (info.is_running, info.started))
    newest = sorted(by_age[-limits.LISTED_BY_TOOL :], key=lambda info: info.started)
    shown = await asyncio.gather(*(_listed(task, environment, info.id) for info in newest))
    answer: Fields = {"processes": [one for one in shown if one is not None], "count": len(all)}
    if len(all) > len(newest):
        answer["note"] = (
            f"{len(all) - len(newest)} older ones are left out; their session_id still works"
        )
    return answer


def _is_listed(info: ProcessInfo) -> bool:
    """All that run; of those that ended, those whose result no answer has carried."""
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
    more = {
        "cwd": info.cwd,
        "started_at": info.started,
        "output_preview": preview,
        "origin": wishes.origin,
    }
    return _described(task, info) | more


def _described(task: Task, info: ProcessInfo) -> Fields:
    """The fields on a process that every answer has."""
    wishes = read_wishes(info.tag) or NotifyOptions()
    fields: Fields = {
        "session_id": info.id,
        "command": task.show(info.command, "")[:SHOWN_COMMAND],
        "status": "running" if info.ending is None else "exited",
        "pid": info.pid,
        "uptime_seconds": round(info.duration, 3),
        "pty": info.pty,
        "notify_on_complete": wishes.notify,
        "watch_patterns": list(wishes.watch),
    }
    if wishes.every:
        fields["check_interval"] = wishes.every
    if wishes.caller != task.caller:
        # Another caller, or an earlier one, started it; nothing else is different.
        fields["detached"] = True
    if info.ending is not None:
        name = type(info.ending).__name__
        reason = {"Exited": "exited", "Signalled": "killed", "Lost": "lost"}.get(name, name.lower())
        fields |= {"exit_code": info.ending.exit_code, "completion_reason": reason}
        if source := wishes.ended_by or ("backend_lost" if reason == "lost" else ""):
            fields["termination_source"] = source
    if info.left:
        fields["left_running"] = info.left  # processes; kill ends them
    return fields | _control(task, info)


def _control(task: Task, info: ProcessInfo) -> Fields:
    """Who drives a process besides the model, or did so last."""
    fields: Fields = {}
    if info.driver is not None:
        fields["driver"] = {"name": info.driver.name, "since": info.driver.since}
    elif info.handed is not None:
        fields["given_back"] = {
            "by": info.handed.by,
            "note": task.show(info.handed.note, ""),
            "at": info.handed.at,
        }
    return fields


async def _poll(request: ProcessCall) -> Fields:
    status = await request.process.status()
    task, info, cursor = request.task, request.info, request.arguments.cursor
    answer = _described(task, info)
    if info.ending is None:
        answer["waiting_for_input"] = status.waiting_for_input
    if not info.is_running:
        task.history.started.pop(info.id, None)
    if cursor is None:
        shown = await tail(request.process, limits.PREVIEW, task.show)
        return answer | {"output_preview": shown, "cursor": info.out}
    if cursor > info.out:
        raise InvalidArgument(
            f"cursor {cursor} lies behind the {info.out} bytes there are", argument="cursor"
        )
    found = await news(request.process, cursor, task.limits.output, task.show)
    answer |= {"output": found.text, "cursor": found.cursor}
    if found.dropped:
        answer["dropped_bytes"] = found.dropped
    if found.cursor < info.out:
        answer["more_bytes"] = info.out - found.cursor
    return answer


async def _log(request: ProcessCall) -> Fields:
    await request.process.status()
    task, limit = request.task, request.arguments.limit or limits.LOG_LINES
    with task.notices.attended(request.process.id):
        found = await lines(request.process, request.arguments.offset, limit, task.limits.output)
        text, last, info = found.text, found.first + found.shown - 1, request.info
        if found.is_open and last == found.total and info.ending is None:
            text = text[: len(text) - task.show.unfinished(text)]
        answer = _described(task, info) | {
            "output": task.show(text, info.command),
            "total_lines": found.total,
            "showing": f"lines {found.first} to {last}" if found.shown else "no lines",
        }
        if found.dropped:
            answer["dropped_bytes"] = found.dropped
        if info.ending is not None:
            await task.notices.seen(request.process)
    return answer


async def _screen(request: ProcessCall) -> Fields:
    await request.process.status()
    if not request.info.pty:
        raise InvalidArgument(
            "it has no terminal; start it with pty=true, or use poll or log", argument="action"
        )
    shown = await request.process.shown()
    answer = _described(request.task, request.info) | {
        "screen": request.task.show.screen(shown, request.info.command),
        "rows": shown.rows,
        "cols": shown.cols,
        "cursor": {"row": shown.cursor[0], "col": shown.cursor[1]},
        "alternate": shown.alternate,
    }
    return answer | ({"screen_note": shown.note} if shown.note else {})


# -- waiting and ending
async def _wait(request: ProcessCall) -> Fields:
    timeout, note = request.task.limits.waiting(request.arguments.timeout)
    with request.task.notices.attended(request.process.id):
        state = await _within(request, timeout, request.process.wait(), "exited")
        answer = await _final(request, limits.FINAL_OUTPUT if state == "exited" else limits.PREVIEW)
    return answer | {"status": state} | ({"timeout_note": note} if note else {})


async def _wait_for(request: ProcessCall) -> Fields:
    given, process = request.arguments, request.process
    timeout, note = request.task.limits.waiting(given.timeout)
    if given.on == "screen" and not request.info.pty:
        raise InvalidArgument(
            "it has no terminal; start it with pty=true, or wait for its output", argument="on"
        )
    status, end = "exited", None

    async def search() -> None:
        nonlocal end
        end = (
            await process.wait_for(request.data, timeout=None, pattern=given.pattern, on=given.on)
        )[1]

    with request.task.notices.attended(process.id):
        with contextlib.suppress(EOFError):
            status = await _within(request, timeout, search(), "matched")
        answer = await _final(request, limits.PREVIEW) | {"status": status}
    if given.on == "output" and end is not None:
        answer["cursor"] = end
    return answer | ({"timeout_note": note} if note else {})


async def _within(request: ProcessCall, timeout: float, work: Awaitable[object], done: str) -> str:
    """The status of waiting for the work."""
    try:
        async with asyncio.timeout(timeout):
            await request.task.interruptible(work)
    except Interrupted:
        return "interrupted"
    except TimeoutError:
        return "timeout"
    return done


async def _final(request: ProcessCall, characters: int) -> Fields:
    """The process's fields and the end of its output; an end that is reported here is not reported
    again.
    """
    await request.process.status()
    task, info = request.task, request.info
    if not info.is_running:
        task.history.started.pop(info.id, None)
    if info.ending is not None:
        await task.notices.seen(request.process)
    shown = await tail(request.process, characters, task.show)
    return _described(task, info) | {"output": shown, "cursor": info.out}


async def _kill(request: ProcessCall) -> Fields:
    await request.process.status()
    task, grace, info = request.task, request.arguments.grace, request.info
    if not info.is_running:
        return await _final(request, limits.FINAL_OUTPUT) | {"status": "already_exited"}
    if info.driver is not None:
        message = f"{info.driver.name} drives process {info.id} now: it is not ended before it was given back"
        raise Driven(message, process_id=info.id, driver=info.driver.name)
    with task.notices.attended(request.process.id):
        await request.process.kill(task.limits.kill_grace if grace is None else grace)
        if info.ending is None:
            await task.notices.amend(request.process, ended_by=KILLED_HERE)
        return await _final(request, limits.FINAL_OUTPUT) | {"status": "killed"}


# -- typing
async def _allow(request: ProcessCall, text: str) -> None:
    """Raises NotPermitted for a text that must not be typed into the process."""
    await request.process.status()
    task = request.task
    if task.gate is not None:
        await task.interruptible(task.gate.input(task.id, text, request.info, request.environment))


async def _type(request: ProcessCall, text: str, send: Callable[[], Awaitable[None]]) -> Fields:
    timeout, _ = request.task.limits.waiting(request.arguments.timeout)
    await _allow(request, text)
    state = await _within(request, timeout, send(), "ok")
    answer: Fields = {"session_id": request.process.id, "status": state} | _control(
        request.task, request.info
    )
    if state != "ok":
        answer["error"] = "the process does not read its input: only a part was typed"
    return answer


async def _write(request: ProcessCall) -> Fields:
    answer = await _type(request, request.data, lambda: request.process.write(request.data))
    return answer | (
        {"bytes_written": len(request.data.encode())} if answer["status"] == "ok" else {}
    )


async def _submit(request: ProcessCall) -> Fields:
    line = "" if request.arguments.data is None else request.data
    return await _type(request, line + "\n", lambda: request.process.submit(line))


async def _keys(request: ProcessCall) -> Fields:
    typed = encode_keys(request.data).decode()
    return await _type(request, typed, lambda: request.process.keys(request.data))


async def _close(request: ProcessCall) -> Fields:
    await request.process.status()
    if request.info.input == "open":
        await _allow(request, "\n")  # an unfinished line becomes a whole one
    await request.process.close_input()
    return {"session_id": request.process.id, "status": "ok"}


async def _resize(request: ProcessCall) -> Fields:
    rows, cols = request.arguments.rows, request.arguments.cols
    if rows is None or cols is None:
        raise InvalidArgument("resize needs rows and cols", argument="rows")
    await request.process.resize(rows, cols)
    return {"session_id": request.process.id, "status": "ok", "rows": rows, "cols": cols}


ACTIONS: dict[str, Callable[[ProcessCall], Awaitable[Fields]]] = {
    "poll": _poll,
    "log": _log,
    "wait": _wait,
    "wait_for": _wait_for,
    "kill": _kill,
    "write": _write,
    "submit": _submit,
    "keys": _keys,
    "close": _close,
    "screen": _screen,
    "resize": _resize,
}


def process_tool() -> Tool[ProcessArguments]:
    """The tool, with the process objects that it keeps."""
    return Tool(
        "process", DESCRIPTION, ProcessArguments, partial(process, Handles()), answers=ANSWERS
    )
