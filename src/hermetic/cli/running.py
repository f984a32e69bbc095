"""The three ways to run a command for a shell: in a session, as a process with live input, for JSON."""

import asyncio
import os
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple

from hermetic.cli.copying import LogCopy, feed, has_input, pieces
from hermetic.cli.interrupts import Interrupted, Interrupts, in_any_case
from hermetic.cli.report import print_json
from hermetic.contract.command import Result
from hermetic.contract.endings import Ending, Lost, TimedOut
from hermetic.contract.errors import NotPermitted
from hermetic.session.arguments import check_positive
from hermetic.session.environment import Environment
from hermetic.session.process import Process

STDOUT, STDERR = 1, 2

Outcome = tuple[int | None, tuple[str, ...]]  # exit code, notes


class Wanted(NamedTuple):
    """What the command line asked for."""

    command: str | list[str]
    timeout: float | None
    cwd: str | None
    separate: bool


async def run_as_process(environment: Environment, wanted: Wanted, interrupts: Interrupts) -> Outcome:
    """Runs it as a process: its input is live, and its streams can be told apart while it runs."""
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
        ending = await _until_its_end(process, copying, wanted.timeout)
    except (asyncio.CancelledError, Interrupted, OSError):
        await in_any_case(process.kill())
        raise
    finally:
        if feeding is not None:
            feeding.cancel()
            await asyncio.wait([feeding])
    if refused:
        raise refused[0]
    _say_timeout(ending)
    return ending.exit_code, ()


async def _feed(process: Process, refused: list[NotPermitted]) -> None:
    """Passes our input on. Where the user's rules deny a part of it, the process gets no more and is ended."""
    try:
        await feed(process)
    except NotPermitted as error:
        refused.append(error)
        await process.kill()


async def run_in_session(environment: Environment, wanted: Wanted, interrupts: Interrupts) -> Outcome:
    """Runs it in a shell that keeps its state. No byte is lost: a slow reader of our output makes it wait.

    Its input is read to the end before it starts.
    """
    written = 0

    def write(data: bytes) -> None:
        nonlocal written
        interrupts.write(STDOUT, data)
        written += len(data)

    result = await environment.run(
        wanted.command, timeout=wanted.timeout, cwd=wanted.cwd, separate=wanted.separate, stdin=await _whole_input(),
        limit=0, on_output=None if wanted.separate else write,
    )  # fmt: skip
    if wanted.separate:
        dropped = await _write_apart(environment, result, interrupts)
    else:
        dropped = result.total_bytes - written
    _say_timeout(result.ending)
    return _outcome(result, _dropped(dropped))


async def run_for_json(environment: Environment, wanted: Wanted) -> Outcome:
    """Runs it and prints its result as one JSON object."""
    result = await environment.run(
        wanted.command, timeout=wanted.timeout, cwd=wanted.cwd, separate=wanted.separate, stdin=await _whole_input()
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


async def _until_its_end(
    process: Process, copying: Sequence[Coroutine[Any, Any, Ending]], timeout: float | None
) -> Ending:
    """Copies output until the process has ended, by itself or because its time was over."""
    tasks = [asyncio.create_task(copy) for copy in copying]
    try:
        _, late = await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_EXCEPTION)
        if not late or any(task.done() and task.exception() for task in tasks):
            return await _ends(tasks)
        await in_any_case(process.kill())
        await _ends(tasks)
        return TimedOut(timeout or 0.0)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def _ends(tasks: list["asyncio.Task[Ending]"]) -> Ending:
    """What all of them return, or the first failure of one."""
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    return next(iter([task.result() for task in done]))


async def _whole_input() -> bytes | None:
    if not has_input():
        return None
    return b"".join([piece async for piece in pieces(0)])


async def _write_apart(environment: Environment, result: Result, interrupts: Interrupts) -> int:
    """Writes both streams of an ended command; the count of bytes that could not be had."""
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


def _say_timeout(ending: Ending) -> None:
    """Said even without -v: else nothing but the code tells a timeout from an end."""
    if isinstance(ending, TimedOut):
        os.write(STDERR, f"hermetic: {ending}; all that it had started was ended\n".encode())


def _dropped(count: int) -> tuple[str, ...]:
    """Said even without -v: output that is not exact must not look exact."""
    if count <= 0:
        return ()
    note = f"{count} bytes of output came faster than they could be written and fell out of the log"
    os.write(STDERR, f"hermetic: {note}\n".encode())
    return (note,)
