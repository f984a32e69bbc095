"""The terminal tool: a command in the task's shell, in a terminal of its own or in the background."""

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from hermetic.approvals.context import PolicyContext
from hermetic.contract.approval import Judged
from hermetic.contract.command import Result
from hermetic.contract.concurrency import beside
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
from hermetic.contract.tool import Fields, Interrupted, Tool, about
from hermetic.session.environment import Environment
from hermetic.session.judged import Stale, judged_again
from hermetic.session.keeping import link_of
from hermetic.session.process import Process
from hermetic.session.session import Session, as_judged
from hermetic.tools.base.task import AFTER_LOSS, Task
from hermetic.tools.terminal.advice import (
    exit_code_meaning,
    foreground_hint,
    may_get_hint,
    sandbox_hint,
)
from hermetic.tools.terminal.cutting import cut_output
from hermetic.tools.terminal.sudo import SudoAnswers, mentions_sudo, sudo_hint

DESCRIPTION = """\
Runs a command in the task's shell and returns its output and exit code. The shell keeps its \
state between calls: directory, variables, functions, background jobs; files persist too.

A command that outlives its timeout is not lost: it goes on as a process, and the result has its \
session_id for the process tool. Start servers, watchers and other long work with \
background=true, then use the process tool (poll, log, wait, write, kill …). Programs that need \
a terminal (editors, pagers, REPLs, prompts) need pty=true; look at them with the process tool's \
screen and type with keys. Use workdir for a directory that holds for this command alone."""
ANSWERS = (
    "{output: str, exit_code: int | None, error: str | None, ending: str, duration: float, log: str, "
    "total_bytes?: int, notes?: list[str]}"
)
ROWS, COLS = 30, 120
RAW = 4  # bytes of output that are read for each character that is shown: some are escape sequences
SPARE = 256  # bytes of a tag for what is recorded later
INTERRUPTED = "interrupted by the user; the command and all it started were ended"

T = TypeVar("T")


class TerminalArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of `terminal`."""

    command: Annotated[str, about("The command, as text for bash.")]
    background: Annotated[
        bool, about("Start it as a process and return at once with its session_id.")
    ] = False
    timeout: Annotated[
        float | None, about("Seconds to wait for a foreground command; default 180, at most 600.")
    ] = None
    on_timeout: Annotated[
        Literal["yield", "kill"],
        about(
            "What becomes of a command that outlives its timeout: it goes on as a process, or is ended."
        ),
    ] = "yield"
    workdir: Annotated[str | None, about("Directory for this command alone.")] = None
    stdin: Annotated[str | None, about("Text the command reads as its standard input.")] = None
    environment: Annotated[
        dict[str, str] | None, about("Variables for this command alone, besides the shell's own.")
    ] = None
    outside: Annotated[
        bool,
        about(
            "Only where commands run in a sandbox: ask the user to let this one run outside of it."
        ),
    ] = False
    pty: Annotated[bool, about("Give it a terminal of 30 rows and 120 columns.")] = False
    notify_on_complete: Annotated[
        bool, about("Background only: you are told once when it ends, with the end of its output.")
    ] = False
    watch_patterns: Annotated[
        list[str] | None,
        about(
            "Background only: you are told of lines that contain one of these texts, now and then."
        ),
    ] = None
    check_interval: Annotated[
        float | None,
        about("Background only: seconds between two reports while it runs; at least 30."),
    ] = None


class TerminalCall:
    """One call of the tool, from its judgement to its answer."""

    def __init__(self, task: Task, asked: TerminalArguments) -> None:
        self._task = task
        self._asked = asked
        self._judged: Judged | None = None
        self._is_judged = False

    async def judge(self, place: Environment | PolicyContext) -> None:
        """Remembers the state of the session by which the command was judged.

        Raises NotPermitted.
        """
        task, asked = self._task, self._asked
        if task.gate is not None:
            self._judged = await task.gate.command(
                task.id,
                asked.command,
                place,
                stdin=asked.stdin,
                env=asked.environment,
                cwd=asked.workdir,
                outside=asked.outside,
            )
        self._is_judged = True

    async def _begin(self, environment: Environment, act: Callable[[Session], Awaitable[T]]) -> T:
        """The result of `act` with a session in the judged state; judged again if it changed.

        Raises NotPermitted.
        """

        async def attempt() -> T:
            if not self._is_judged:
                await self._task.interruptible(self.judge(environment))
            self._is_judged = False
            return await act(as_judged(environment, self._judged))

        try:
            return await attempt()
        except Stale:
            return await judged_again(attempt)

    async def foreground(self, environment: Environment, variables: dict[str, str]) -> Fields:
        """The answer of a command that the call waits for."""
        task, asked = self._task, self._asked
        timeout, note = task.limits.waiting(asked.timeout)
        env = {**variables, **(asked.environment or {})} or None
        async with task.alive():
            if asked.pty:
                answer = await self._in_terminal(environment, timeout, env)
            else:
                run = partial(
                    Session.run,
                    command=asked.command,
                    timeout=timeout,
                    on_timeout=asked.on_timeout,
                    cwd=asked.workdir,
                    stdin=asked.stdin,
                    env=env,
                    limit=RAW * task.limits.output,
                    cancel=task.interrupted,
                )
                answer = await self._answer(await self._begin(environment, run))
        if note:
            answer["timeout_note"] = note
        if may_get_hint(asked.command) and (hint := foreground_hint(asked.command, pty=asked.pty)):
            answer["hint"] = hint
            if not asked.outside:
                await _note_left(task, environment, answer["log"])
        if (
            task.outside
            and not asked.outside
            and (hint := sandbox_hint(answer["exit_code"], answer["output"]))
        ):
            answer["hint"] = hint
        for name in ("notify_on_complete", "watch_patterns", "check_interval"):
            if getattr(asked, name):
                answer.setdefault("notes", []).append(
                    f"{name} holds for background=true alone; it was left out"
                )
        return answer

    async def _answer(self, result: Result) -> Fields:
        task, asked = self._task, self._asked
        if not asked.outside and result.cwd:
            task.history.cwd = result.cwd
        is_yielded = isinstance(result.ending, Yielded)
        data, total = result.data, result.total_bytes
        if is_yielded:
            data = task.show.finished(data)
            total -= len(result.data) - len(data)
        answer: Fields = {
            "output": _shown(task, asked.command, data, result.omitted, total, result.log)
            if total
            else "",
            **ending_fields(result.ending, asked.command),
            "duration": round(result.duration, 3),
            "log": result.log,
        }
        if result.omitted is not None:
            answer["total_bytes"] = result.total_bytes
        if result.notes:
            answer["notes"] = list(result.notes)
        if is_yielded:
            answer |= await _yielded(task, result.process, result.waiting_for_input)
        return answer

    async def _in_terminal(
        self, environment: Environment, timeout: float, env: dict[str, str] | None
    ) -> Fields:
        """The answer of a foreground command that has a terminal."""
        task, asked = self._task, self._asked
        wishes = NotifyOptions(task=task.id, caller=task.caller, origin="foreground")
        process = await self._start(environment, env, wishes, pty=True)
        try:
            ending = await self._ending(process, timeout)
        except asyncio.CancelledError:
            await process.kill()
            raise
        answer = await _printed(task, process)
        if ending is None:
            return answer | await _yielded(
                task, process, (await process.status()).waiting_for_input
            )
        await process.set_tag(write_wishes(msgspec.structs.replace(wishes, told=True)))
        answer |= ending_fields(ending, asked.command)
        return answer | {
            "pty_note": "it ran beside the session: a cd or variable of its own is not kept"
        }

    async def _ending(self, process: Process, timeout: float) -> Ending | None:
        """How the process ended within its time; None when it may go on."""
        task, asked = self._task, self._asked
        # input that it has not read by the end is dropped
        typing = beside(process.write(asked.stdin)) if asked.stdin else contextlib.nullcontext()
        try:
            async with asyncio.timeout(timeout), typing:
                return await task.interruptible(process.wait())
        except Interrupted:
            await process.kill()
            return Cancelled()
        except TimeoutError:
            if asked.on_timeout == "yield":
                return None
            await process.kill()
            return TimedOut(timeout)

    async def _start(
        self,
        environment: Environment,
        env: dict[str, str] | None,
        wishes: NotifyOptions,
        **options: Any,
    ) -> Process:
        start = partial(
            Session.start,
            command=self._asked.command,
            id=f"proc_{secrets.token_hex(6)}",
            rows=ROWS,
            cols=COLS,
            cwd=self._asked.workdir,
            env=env,
            tag=write_wishes(wishes),
            **options,
        )
        return await self._begin(environment, start)

    async def background(self, environment: Environment, variables: dict[str, str]) -> Fields:
        """The answer of a command that goes on as a process."""
        task, asked = self._task, self._asked
        wishes, extra = _wishes(task, asked)
        env = {**variables, **(asked.environment or {})} or None
        if (await environment.info()).processes >= task.limits.running:
            raise InvalidArgument(
                f"{task.limits.running} processes run already; end some with process(action='kill') first",
                argument="background",
            )
        stdin = "pipe" if asked.stdin is None else asked.stdin
        try:
            process = await self._start(environment, env, wishes, pty=asked.pty, stdin=stdin)
        except (InvalidArgument, NotPermitted):
            raise
        except ExecutionError as error:
            return {
                "output": "",
                "exit_code": -1,
                "status": "error",
                "error": f"it could not be started: {error}",
            }
        task.notices.follow(process)
        task.history.started[process.id] = task.show(asked.command, "")
        answer = {
            "output": "Background process started",
            "session_id": process.id,
            "pid": process.pid,
        }
        return answer | {"exit_code": 0, "error": None, **extra}


async def terminal(sudo: SudoAnswers, task: Task, asked: TerminalArguments) -> Fields:
    """Runs the command."""
    if not asked.command.strip():
        raise InvalidArgument("command is empty; give the text to run", argument="command")
    if "\0" in asked.command:
        raise InvalidArgument(
            "command holds a NUL character; remove it, or pass it as stdin", argument="command"
        )
    if len(asked.command) > task.limits.command:
        raise InvalidArgument(
            f"command has {len(asked.command):,} characters, the most is {task.limits.command:,}; "
            "put its data into stdin, or write a script in parts and run that",
            argument="command",
        )
    if asked.outside and task.outside is None:
        raise InvalidArgument("there is no sandbox to leave: leave out outside", argument="outside")
    run = TerminalCall(task, asked)
    async with task.environment(run.judge, task.outside if asked.outside else None) as environment:
        answers = sudo.of(task.id, environment) if mentions_sudo(asked.command) else None
        before = answers.counts if answers else (0, 0)
        variables = await answers.variables(environment) if answers else {}
        if asked.background:
            return await run.background(environment, variables)
        answer = await run.foreground(environment, variables)
        if answer.get("ending") == "lost" and link_of(environment).is_over:
            answer["error"] += f"; {AFTER_LOSS}"
            # They say the same to callers that open environments themselves.
            answer.pop("notes", None)
        if answers is not None:
            answer |= answers.since(before)
        if "sudo: " in answer["output"] and mentions_sudo(asked.command):
            hint = sudo_hint(answer["output"], is_answered=answers is not None)
            answer |= {"hint": hint} if hint else {}
    return answer


async def _note_left(task: Task, environment: Environment, log: str) -> None:
    """Records what a command has left running as a process of the task."""
    with contextlib.suppress(UnknownProcess, EnvironmentUnavailable):
        info = (await environment.process(log)).info
        if info.left:
            task.history.started[info.id] = task.show(info.command, "")


def ending_fields(ending: Ending, command: str) -> Fields:
    """The answer's fields on how a command ended."""
    code = ending.exit_code
    fields: Fields = {"exit_code": code, "error": None, "ending": type(ending).__name__.lower()}
    if isinstance(ending, TimedOut):
        error = f"ended after {ending.after:g} s; what it printed until then is in output"
        fields |= {"ending": "timed_out", "status": "timeout", "error": error}
    elif isinstance(ending, Cancelled):
        fields |= {"status": "interrupted", "error": INTERRUPTED}
    elif isinstance(ending, Lost):
        fields |= {"exit_code": -1, "status": "error", "error": f"it was lost: {ending.reason}"}
    if code and (meaning := exit_code_meaning(command, code)):
        fields["exit_code_meaning"] = meaning
    return fields


async def _yielded(task: Task, process: Process, waiting: bool | None) -> Fields:
    """The answer's fields on a command that goes on as one of the task's processes."""
    await task.goes_on(process, task.show(process.info.command, ""))
    fields: Fields = {"status": "yielded", "session_id": process.id, "pid": process.pid}
    return fields | {"exit_code": None, "error": None, "waiting_for_input": waiting}


async def _printed(task: Task, process: Process) -> Fields:
    """The answer's fields on what a process has printed so far, within the budget."""
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
        shown = task.show.finished(data)
        data, total = shown, total - len(data) + len(shown)
    output = _shown(task, info.command, data, omitted, total, process.id)
    answer = {"output": output, "duration": round(info.duration, 3), "log": process.id}
    return answer | ({"total_bytes": info.out} if omitted else {})


def _shown(
    task: Task, command: str, data: bytes, omitted: tuple[int, int] | None, total: int, log: str
) -> str:
    clean = partial(task.show, command=command)
    cut = cut_output(
        data, budget=task.limits.output, omitted=omitted, total_bytes=total, clean=clean
    )
    return cut.text(f"Read them with process(action='log', session_id={log!r}, offset=LINE).")


def _wishes(task: Task, asked: TerminalArguments) -> tuple[NotifyOptions, Fields]:
    """The notify options of a background process, and fields of the answer on them."""
    extra: Fields = {}
    watch, every = tuple(asked.watch_patterns or ()), asked.check_interval
    if not all(watch):
        raise InvalidArgument(
            "watch_patterns must not hold an empty text", argument="watch_patterns"
        )
    if every is not None and not 0 < every < float("inf"):
        raise InvalidArgument(
            "check_interval must be seconds above zero", argument="check_interval"
        )
    if asked.notify_on_complete:
        extra["notify_on_complete"] = True
        if watch:
            extra["watch_patterns_ignored"] = (
                "notify_on_complete and watch_patterns exclude each other; the first holds"
            )
        watch = ()
    if every is not None and every < CHECK_INTERVAL:
        every = CHECK_INTERVAL
        extra["check_interval_note"] = f"raised to {every:g} s, the shortest there is"
    if watch:
        extra["watch_patterns"] = list(watch)
    if not (asked.notify_on_complete or watch or every):
        extra["hint"] = (
            "there is no notice when it ends: use the process tool's wait or poll, or notify_on_complete"
        )
    wishes = NotifyOptions(
        task=task.id,
        caller=task.caller,
        notify=asked.notify_on_complete,
        watch=watch,
        every=every or 0.0,
    )
    if (size := len(write_wishes(wishes).encode())) > TAG - SPARE:
        raise InvalidArgument(
            f"watch_patterns are {size - TAG + SPARE} bytes too long together; give fewer or shorter ones",
            argument="watch_patterns",
        )
    return wishes, extra


def terminal_tool(sudo: SudoAnswers) -> Tool[TerminalArguments]:
    """The tool, with the answers to sudo's password prompts."""
    return Tool(
        "terminal", DESCRIPTION, TerminalArguments, partial(terminal, sudo), answers=ANSWERS
    )
