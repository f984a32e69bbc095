"""`hermetic run`: one command, its output live, its exit code ours.

Three ways: in a session, as a process with live input, or for JSON.
"""

import argparse
import asyncio
import os
import shlex
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple

from hermetic.cli.command import BAD_USAGE, INTERRUPTED, Command, report_error, report_output_error
from hermetic.cli.copying import LogCopy, feed, has_input, pieces
from hermetic.cli.interrupts import Interrupted, Interrupts, run_interruptibly, shielded
from hermetic.cli.opening import (
    Chosen,
    DenyRules,
    add_environment_options,
    choose,
    given_options,
    log_progress,
    option_errors,
    slow_start,
)
from hermetic.cli.report import one_line, print_json
from hermetic.contract.command import Result
from hermetic.contract.endings import Ending, Lost, TimedOut
from hermetic.contract.errors import ConfigError, ExecutionError, InvalidArgument, NotPermitted
from hermetic.fleet.opening import LivesOtherwise
from hermetic.fleet.opening import open as open_environment
from hermetic.session.arguments import check_positive
from hermetic.session.environment import Environment
from hermetic.session.process import Process

Outcome = tuple[int | None, tuple[str, ...]]  # exit code, notes


class RunRequest(NamedTuple):
    """The command to run, and how."""

    command: str | list[str]
    timeout: float | None
    cwd: str | None
    separate: bool


def _run_arguments(parser: argparse.ArgumentParser) -> None:
    add_environment_options(parser)
    parser.add_argument("--task", metavar="T", help="run in the environment of this task, opened if it does not live")
    parser.add_argument("--timeout", metavar="S", type=float, help="end the whole tree after so many seconds")
    parser.add_argument("--cwd", metavar="D", help="directory for this command alone")
    parser.add_argument("--separate", action="store_true", help="keep stderr apart from stdout")
    parser.add_argument("--json", action="store_true", help="print the result as JSON instead of streaming")
    parser.add_argument("-v", "--verbose", action="store_true", help="say notes on stderr: state restored, cwd …")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND")


STDOUT, STDERR = 1, 2

NOT_DONE = 125  # the environment failed, not the command

# A private environment ends soon after this process, also after SIGKILL.
PRIVATE_SECONDS = 30.0

ABOUT = """\
Runs COMMAND in a new environment that is ended afterwards, or with --task in that task's environment, whose shell
keeps its state. Options stand before COMMAND. One argument is shell text, several are a program and its arguments.
Standard input is passed on when it is not a terminal. Exits with the command's code: 128+n after a signal, 124 when its
time was over, 130 after Ctrl-C, 125 when the environment could not do its part, 2 for a usage error."""


def _main(arguments: argparse.Namespace) -> int:
    """Runs the command; its exit code."""
    log_progress()
    try:
        return run_interruptibly(lambda interrupts: _run(arguments, interrupts))
    except Interrupted:
        return INTERRUPTED
    except LivesOtherwise as error:
        return report_error(_task_differs(arguments, error), BAD_USAGE)
    except (InvalidArgument, ConfigError):
        raise
    except ExecutionError as error:
        return report_error(error, NOT_DONE)
    except BrokenPipeError:
        raise
    except OSError as error:
        return report_output_error(error, NOT_DONE)


async def _run(arguments: argparse.Namespace, interrupts: Interrupts) -> int:
    words = _command(arguments.command)
    if arguments.timeout is not None and not arguments.timeout > 0:
        raise InvalidArgument("--timeout is seconds above zero; leave it out for no limit", argument="timeout")
    wanted = RunRequest(
        command=words[0] if len(words) == 1 else words,
        timeout=arguments.timeout,
        cwd=arguments.cwd,
        separate=arguments.separate,
    )
    chosen = choose(arguments)
    environment = await _open(arguments, chosen, wanted)
    try:
        code, notes = await _choose(arguments, environment, wanted, interrupts)
    finally:
        await shielded(environment.close())
    if arguments.verbose:
        left_out = chosen.settings.notes if chosen.settings is not None else ()
        sys.stderr.writelines(f"hermetic: {one_line(note)}\n" for note in (*left_out, *notes))
    if code is None:
        return report_error("; ".join(notes) or "the environment was lost while the command ran", NOT_DONE)
    return code


def _task_differs(arguments: argparse.Namespace, error: LivesOtherwise) -> str:
    """The error for a task that lives with other options than the command line or the settings name."""
    named = {*given_options(arguments), *(["kind"] if arguments.env is not None else [])}
    removal = f"end it first: hermetic rm {shlex.quote(error.task)}"
    if named & set(error.differing):
        return f"{error.problem}, or {removal}"
    problem = f"task {error.task!r} lives with other options than your settings or the defaults"
    advice = "name its kind with --env, or " if "kind" in error.differing else ""
    return f"{problem}: {', '.join(error.differing)}; {advice}{removal}"


def _command(words: list[str]) -> list[str]:
    """The words of the command, without a leading `--`."""
    words = words[1:] if words[:1] == ["--"] else words
    if not words:
        raise InvalidArgument("give the COMMAND to run: hermetic run [OPTION…] -- COMMAND…", argument="command")
    return words


async def _open(arguments: argparse.Namespace, chosen: Chosen, wanted: RunRequest) -> Environment:
    """The opened environment, guarded by the user's deny rules. A denied command is refused before that."""
    options = chosen.options
    if arguments.task is None:
        options = {**options, "lease": PRIVATE_SECONDS, "unattended": PRIVATE_SECONDS, **given_options(arguments)}
    rules = DenyRules(chosen.settings)
    with option_errors():
        await rules.check_before_opening(chosen.kind, options, arguments.task, wanted.command, wanted.cwd)
        with slow_start(chosen.kind, options):
            environment = await open_environment(chosen.kind, task=arguments.task, **options)
    rules.guard_environment(environment)
    return environment


async def _choose(
    arguments: argparse.Namespace, environment: Environment, wanted: RunRequest, interrupts: Interrupts
) -> Outcome:
    if arguments.json:
        return await run_for_json(environment, wanted)
    if arguments.task is None and (arguments.separate or has_input()):
        return await run_as_process(environment, wanted, interrupts)
    return await run_in_session(environment, wanted, interrupts)


async def run_as_process(environment: Environment, wanted: RunRequest, interrupts: Interrupts) -> Outcome:
    """Runs it as a process: input is forwarded live, and stdout and stderr stay separate while it runs."""
    if wanted.timeout is not None:
        check_positive(wanted.timeout, "timeout")
    process = await environment.start(
        wanted.command, cwd=wanted.cwd, separate=wanted.separate, stdin="pipe" if has_input() else "null"
    )
    streams = {process.id: STDOUT} | ({f"{process.id}/err": STDERR} if wanted.separate else {})
    copying = [environment.follow_log(log, _writer(interrupts, fd)) for log, fd in streams.items()]
    refused: list[NotPermitted] = []
    feeding = asyncio.create_task(_feed(process, refused)) if has_input() else None
    try:
        ending = await _wait(process, copying, wanted.timeout)
    except (asyncio.CancelledError, Interrupted, OSError):
        await shielded(process.kill())
        raise
    finally:
        if feeding is not None:
            feeding.cancel()
            await asyncio.wait([feeding])
    if refused:
        raise refused[0]
    _report_timeout(ending)
    return ending.exit_code, ()


async def _feed(process: Process, refused: list[NotPermitted]) -> None:
    """Forwards our input. When the user's rules deny a part of it, the process is ended."""
    try:
        await feed(process)
    except NotPermitted as error:
        refused.append(error)
        await process.kill()


async def run_in_session(environment: Environment, wanted: RunRequest, interrupts: Interrupts) -> Outcome:
    """Runs it in a shell that keeps its state. No output is lost: a slow reader makes the command wait.

    Its input is read to the end before it starts.
    """
    written = 0

    def write(data: bytes) -> None:
        nonlocal written
        interrupts.write(STDOUT, data)
        written += len(data)

    result = await environment.run(
        wanted.command, timeout=wanted.timeout, cwd=wanted.cwd, separate=wanted.separate, stdin=await _read_input(),
        limit=0, on_output=None if wanted.separate else write,
    )  # fmt: skip
    if wanted.separate:
        dropped = await _copy_streams(environment, result, interrupts)
    else:
        dropped = result.total_bytes - written
    _report_timeout(result.ending)
    return _outcome(result, _report_dropped(dropped))


async def run_for_json(environment: Environment, wanted: RunRequest) -> Outcome:
    """Runs it and prints its result as one JSON object."""
    result = await environment.run(
        wanted.command, timeout=wanted.timeout, cwd=wanted.cwd, separate=wanted.separate, stdin=await _read_input()
    )
    print_json(
        {
            "exit_code": result.exit_code,
            "ending": result.ending,
            "output": result.output,
            "stderr": result.stderr,
            "truncated": result.truncated,
            "total_bytes": result.total_bytes,
            "stderr_bytes": result.stderr_bytes,
            "duration": result.duration,
            "cwd": result.cwd,
            "notes": result.notes,
            "log": result.log,
            "environment": environment.id,
            "task": environment.task,
        }
    )
    return _outcome(result, ())


async def _wait(process: Process, copying: Sequence[Coroutine[Any, Any, Ending]], timeout: float | None) -> Ending:
    """Copies output until the process has ended or timed out."""
    tasks = [asyncio.create_task(copy) for copy in copying]
    try:
        _, late = await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_EXCEPTION)
        if not late or any(task.done() and task.exception() for task in tasks):
            return await _ends(tasks)
        await shielded(process.kill())
        await _ends(tasks)
        return TimedOut(timeout or 0.0)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def _ends(tasks: list["asyncio.Task[Ending]"]) -> Ending:
    """The ending that all tasks return, or the first error."""
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    return next(iter([task.result() for task in done]))


async def _read_input() -> bytes | None:
    if not has_input():
        return None
    return b"".join([piece async for piece in pieces(0)])


async def _copy_streams(environment: Environment, result: Result, interrupts: Interrupts) -> int:
    """Writes both streams of an ended command; returns how many bytes were dropped."""
    if isinstance(result.ending, Lost):
        return 0
    copies = [
        LogCopy(environment, result.log, _writer(interrupts, STDOUT)),
        LogCopy(environment, f"{result.log}/err", _writer(interrupts, STDERR)),
    ]
    for copy in copies:
        await copy.to_now()
    return sum(copy.dropped for copy in copies)


def _writer(interrupts: Interrupts, fd: int) -> Callable[[bytes], None]:
    return lambda data: interrupts.write(fd, data)


def _outcome(result: Result, more: tuple[str, ...]) -> Outcome:
    lost = (str(result.ending),) if isinstance(result.ending, Lost) else ()
    return result.exit_code, (*lost, *result.notes, *more)


def _report_timeout(ending: Ending) -> None:
    """Reported even without -v: otherwise only the exit code distinguishes a timeout."""
    if isinstance(ending, TimedOut):
        os.write(STDERR, f"hermetic: {ending}; all that it had started was ended\n".encode())


def _report_dropped(count: int) -> tuple[str, ...]:
    """Reported even without -v: incomplete output must not look complete."""
    if count <= 0:
        return ()
    note = f"{count} bytes of output came faster than they could be written and fell out of the log"
    os.write(STDERR, f"hermetic: {note}\n".encode())
    return (note,)


COMMANDS = {
    "run": Command(ABOUT, _run_arguments, _main, usage="hermetic run [OPTION…] [--] COMMAND…"),
}
