"""The terminal tool: what a model asks for, run in the task's place, and the answer it gets."""

import asyncio
import contextlib
import secrets
from functools import partial
from typing import Any

import msgspec

from hermetic.approvals.context import PolicyContext
from hermetic.contract.approval import Judged
from hermetic.contract.command import Result
from hermetic.contract.endings import Cancelled, Ending, Lost, TimedOut, Yielded
from hermetic.contract.errors import (
    EnvironmentUnavailable,
    ExecutionError,
    InvalidArgument,
    NotPermitted,
    UnknownProcess,
)
from hermetic.contract.limits import CHECK_INTERVAL, TAG
from hermetic.contract.notice import NotifyOptions, write_wishes
from hermetic.contract.tool import Fields, Tool
from hermetic.session.environment import Environment
from hermetic.session.keeping import activity_of
from hermetic.session.process import Process
from hermetic.tools.base.history import AFTER_LOSS
from hermetic.tools.base.task import Interrupted, Task
from hermetic.tools.terminal.arguments import ANSWERS, DESCRIPTION, TerminalArguments
from hermetic.tools.terminal.attempts import Attempts
from hermetic.tools.terminal.cutting import cut_output
from hermetic.tools.terminal.exit_codes import exit_code_meaning
from hermetic.tools.terminal.hints import foreground_hint, sandbox_hint
from hermetic.tools.terminal.sudo import SudoDesks, sudo_hint, told

ROWS, COLS = 30, 120
RAW = 4  # bytes of output that are looked at for each character that is shown: some are escape sequences
SPARE = 256  # bytes of a tag for what is remembered later
INTERRUPTED = "interrupted by the user; the command and all it started were ended"


async def terminal(desks: SudoDesks, task: Task, asked: TerminalArguments) -> Fields:
    """Runs what was asked for."""
    if not asked.command.strip():
        raise InvalidArgument("command is empty; give the text to run", argument="command")
    if "\0" in asked.command:
        raise InvalidArgument("command holds a NUL character; remove it, or pass it as stdin", argument="command")
    if len(asked.command) > task.limits.command:
        raise InvalidArgument(
            f"command has {len(asked.command):,} characters, the most is {task.limits.command:,}; "
            "put its data into stdin, or write a script in parts and run that",
            argument="command",
        )
    attempts = Attempts(task, partial(_judge, task, asked))
    async with task.place(attempts, outside=asked.outside) as environment:
        desk = desks.desk(task.id, environment, asked.command)
        before = (desk.refused, desk.cleared) if desk else (0, 0)
        if desk is not None and (more := await desk.variables(environment)):
            asked = msgspec.structs.replace(asked, environment={**more, **(asked.environment or {})})
        if asked.background:
            return await _background(task, asked, environment, attempts)
        answer = await _foreground(task, asked, environment, attempts)
        if answer.get("ending") == "lost" and activity_of(environment).is_over:
            answer["error"] += f"; {AFTER_LOSS}"
            answer.pop("notes", None)  # they say the same to those who open environments themselves
        if desk is not None:
            answer |= told(before, desk)
        if hint := sudo_hint(asked.command, answer["output"], is_answered=desk is not None):
            answer["hint"] = hint
    for name in ("notify_on_complete", "watch_patterns", "check_interval"):
        if getattr(asked, name):
            answer.setdefault("notes", []).append(f"{name} holds for background=true alone; it was left out")
    return answer


async def _judge(task: Task, asked: TerminalArguments, place: Environment | PolicyContext) -> Judged | None:
    return await task.door.command(
        task.id, asked.command, place, stdin=asked.stdin, env=asked.environment, cwd=asked.workdir,
        outside=asked.outside,
    )  # fmt: skip


async def _foreground(task: Task, asked: TerminalArguments, environment: Environment, attempts: Attempts) -> Fields:
    timeout, note = _timeout(task, asked)
    async with task.alive():
        if asked.pty:
            answer = await _in_terminal(task, asked, environment, timeout, attempts)
        else:
            result = await attempts.begin(environment, lambda session: session.run(
                asked.command, timeout=timeout, on_timeout=asked.on_timeout, cwd=asked.workdir, stdin=asked.stdin,
                env=asked.environment, limit=RAW * task.limits.output, cancel=task.interrupted,
            ))  # fmt: skip
            if not asked.outside and result.cwd:
                task.history.cwd = result.cwd
            answer = await _answer(task, asked, result)
    if note:
        answer["timeout_note"] = note
    if hint := foreground_hint(asked.command):
        answer["hint"] = hint
        if not asked.outside:
            await _note_left(task, environment, answer["log"])
    if task.has_outside and not asked.outside and (hint := sandbox_hint(answer["exit_code"], answer["output"])):
        answer["hint"] = hint
    return answer


async def _note_left(task: Task, environment: Environment, log: str) -> None:
    """What a command has left running is lost with the environment as any process of the task is."""
    with contextlib.suppress(UnknownProcess, EnvironmentUnavailable):
        info = (await environment.process(log)).info
        if info.left:
            task.history.started(info.id, task.show(info.command, ""))


def _timeout(task: Task, asked: TerminalArguments) -> tuple[float, str]:
    limits = task.limits
    if asked.timeout is None:
        return limits.foreground, ""
    if not asked.timeout > 0:
        raise InvalidArgument(
            f"timeout must be seconds above zero, not {asked.timeout:g}; leave it out for {limits.foreground:g}",
            argument="timeout",
        )
    if asked.timeout > (most := max(limits.longest_foreground, limits.foreground)):
        return most, f"a timeout of {asked.timeout:g} s is more than the {most:g} s that a call may wait; used that"
    return asked.timeout, ""


async def _answer(task: Task, asked: TerminalArguments, result: Result) -> Fields:
    """The fields of a foreground command's result."""
    data, total = result.data, result.total_bytes
    if isinstance(result.ending, Yielded):
        data, total = _whole(task, data, total)
    answer: Fields = {
        "output": _shown(task, asked.command, data, result.omitted, total, result.log),
        **ending_fields(result.ending),
        "duration": round(result.duration, 3),
        "log": result.log,
    }
    if result.truncated:
        answer["total_bytes"] = result.total_bytes
    if result.notes:
        answer["notes"] = list(result.notes)
    if (code := answer["exit_code"]) and (meaning := exit_code_meaning(asked.command, code)):
        answer["exit_code_meaning"] = meaning
    if isinstance(result.ending, Yielded):
        await _keep(task, result.process)
        answer |= _yielded(result.process, result.waiting_for_input)
    return answer


def ending_fields(ending: Ending) -> Fields:
    """How it ended, in the words of the tool."""
    fields: Fields = {"exit_code": ending.exit_code, "error": None, "ending": type(ending).__name__.lower()}
    if isinstance(ending, TimedOut):
        fields |= {"ending": "timed_out", "status": "timeout"}
        fields["error"] = f"ended after {ending.after:g} s; what it printed until then is in output"
    elif isinstance(ending, Cancelled):
        fields |= {"status": "interrupted", "error": INTERRUPTED}
    elif isinstance(ending, Lost):
        fields |= {"exit_code": -1, "status": "error", "error": f"it was lost: {ending.reason}"}
    return fields


async def _keep(task: Task, process: Process) -> None:
    """A command that was yielded is one of the task's processes from now on."""
    task.history.started(process.id, task.show(process.info.command, ""))
    await process.set_tag(write_wishes(NotifyOptions(task=task.id, caller=task.caller, origin="yielded")))


def _yielded(process: Process, waiting: bool | None) -> Fields:
    return {
        "status": "yielded", "session_id": process.id, "pid": process.pid, "exit_code": None, "error": None,
        "waiting_for_input": waiting,
    }  # fmt: skip


async def _in_terminal(
    task: Task, asked: TerminalArguments, environment: Environment, timeout: float, attempts: Attempts
) -> Fields:
    """A foreground command that has a terminal."""
    wishes = NotifyOptions(task=task.id, caller=task.caller, origin="foreground")
    process = await attempts.begin(environment, lambda session: session.start(
        asked.command, id=_new_id(), pty=True, rows=ROWS, cols=COLS, cwd=asked.workdir, env=asked.environment,
        tag=write_wishes(wishes),
    ))  # fmt: skip
    try:
        ending = await _ending(task, asked, process, timeout)
    except asyncio.CancelledError:
        await process.kill()
        raise
    answer = await _printed(task, process)
    if ending is None:
        await _keep(task, process)
        return answer | _yielded(process, (await process.status()).waiting_for_input)
    await process.set_tag(write_wishes(msgspec.structs.replace(wishes, told=True)))
    answer |= ending_fields(ending)
    if isinstance(ending.exit_code, int) and (meaning := exit_code_meaning(asked.command, ending.exit_code)):
        answer["exit_code_meaning"] = meaning
    return answer | {"pty_note": "it ran beside the session: a cd or variable of its own is not kept"}


async def _ending(task: Task, asked: TerminalArguments, process: Process, timeout: float) -> Ending | None:
    """How it ended within its time; None when it may go on."""
    typing = asyncio.ensure_future(process.write(asked.stdin)) if asked.stdin else None
    try:
        async with asyncio.timeout(timeout):
            return await task.interruptible(process.wait())
    except Interrupted:
        await process.kill()
        return Cancelled()
    except TimeoutError:
        if asked.on_timeout == "yield":
            return None
        await process.kill()
        return TimedOut(timeout)
    finally:
        if typing is not None:  # what it did not read until its end, or until it is given over, is left out
            typing.cancel()
            await asyncio.wait([typing])
            if not typing.cancelled():
                typing.exception()


async def _printed(task: Task, process: Process) -> Fields:
    """What a process has printed so far, within the budget."""
    await process.status()
    info, limit = process.info, RAW * task.limits.output
    head = await process.read(0, limit=limit if info.out <= limit else limit * 2 // 5)
    data, omitted = head.data, None
    if info.out > head.end:
        tail = await process.read(max(head.end, info.out - (limit - len(head.data))), limit=limit)
        data += tail.data
        omitted = (head.end, tail.start) if tail.start > head.end else None
    total = info.out
    if info.ending is None:
        data, total = _whole(task, data, total)
    output = _shown(task, info.command, data, omitted, total, process.id)
    answer = {"output": output, "duration": round(info.duration, 3), "log": process.id}
    return answer | ({"total_bytes": info.out} if omitted else {})


def _whole(task: Task, data: bytes, total: int) -> tuple[bytes, int]:
    """Output that goes on without the start of a secret at its end, and how many bytes are left of all."""
    text = data.decode("utf-8", "replace")
    unfinished = len(text[len(text) - task.show.unfinished(text) :].encode())
    return data[: len(data) - unfinished], total - unfinished


def _shown(
    task: Task, command: str, data: bytes, omitted: tuple[int, int] | None, total: int, log: str
) -> str:  # fmt: skip
    if not total:
        return ""
    cut = cut_output(
        data, budget=task.limits.output, omitted=omitted, total_bytes=total, clean=lambda text: task.show(text, command)
    )
    return cut.text(f"Read them with process(action='log', session_id={log!r}, offset=LINE).")


async def _background(task: Task, asked: TerminalArguments, environment: Environment, attempts: Attempts) -> Fields:
    wishes, extra = _wishes(task, asked)
    if (await environment.info()).processes >= task.limits.running:
        raise InvalidArgument(
            f"{task.limits.running} processes run already; end some with process(action='kill') first",
            argument="background",
        )
    try:
        process = await attempts.begin(environment, lambda session: session.start(
            asked.command, id=_new_id(), pty=asked.pty, rows=ROWS, cols=COLS, cwd=asked.workdir,
            stdin="pipe" if asked.stdin is None else asked.stdin, env=asked.environment, tag=write_wishes(wishes),
        ))  # fmt: skip
    except (InvalidArgument, NotPermitted):
        raise
    except ExecutionError as error:
        return {"output": "", "exit_code": -1, "status": "error", "error": f"it could not be started: {error}"}
    task.watcher.follow(process)
    task.history.started(process.id, task.show(asked.command, ""))
    return {
        "output": "Background process started", "session_id": process.id, "pid": process.pid, "exit_code": 0,
        "error": None, **extra,
    }  # fmt: skip


def _wishes(task: Task, asked: TerminalArguments) -> tuple[NotifyOptions, dict[str, Any]]:
    """What to tell of a background process, and what to say about that."""
    extra: dict[str, Any] = {}
    watch = tuple(asked.watch_patterns or ())
    if any(not pattern for pattern in watch):
        raise InvalidArgument("watch_patterns must not hold an empty text", argument="watch_patterns")
    if asked.notify_on_complete and watch:
        extra["watch_patterns_ignored"] = "notify_on_complete and watch_patterns exclude each other; the first holds"
        watch = ()
    every = 0.0 if asked.check_interval is None else asked.check_interval
    if asked.check_interval is not None and not 0 < every < float("inf"):
        raise InvalidArgument("check_interval must be seconds above zero", argument="check_interval")
    if 0 < every < CHECK_INTERVAL:
        every = CHECK_INTERVAL
        extra["check_interval_note"] = f"raised to {every:g} s, the shortest there is"
    if asked.notify_on_complete:
        extra["notify_on_complete"] = True
    if watch:
        extra["watch_patterns"] = list(watch)
    if not (asked.notify_on_complete or watch or every):
        extra["hint"] = "nobody is told when it ends: use the process tool's wait or poll, or notify_on_complete"
    wishes = NotifyOptions(task=task.id, caller=task.caller, notify=asked.notify_on_complete, watch=watch, every=every)
    if (size := len(write_wishes(wishes).encode())) > TAG - SPARE:
        raise InvalidArgument(
            f"watch_patterns are {size - TAG + SPARE} bytes too long together; give fewer or shorter ones",
            argument="watch_patterns",
        )
    return wishes, extra


def _new_id() -> str:
    return f"proc_{secrets.token_hex(6)}"


def terminal_tool(desks: SudoDesks) -> Tool[TerminalArguments]:
    """The tool, with who answers for sudo."""
    return Tool("terminal", DESCRIPTION, TerminalArguments, partial(terminal, desks), answers=ANSWERS)
