"""Starting a resident by a program: passes its input, waits for its readiness frame, collects the
program.
"""

import asyncio
import os
import socket
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Literal, NamedTuple

import msgspec

from hermetic.contract.environment import ResidentConfig, Started
from hermetic.contract.errors import EnvironmentUnavailable
from hermetic.link.archive import BOOT, build_archive, starting_input
from hermetic.link.readiness import NotReady, ready
from hermetic.registry.host_process import (
    DETACHED,
    end,
    end_group,
    end_session,
    ended,
    is_scarce,
    session_ended,
    spawn,
    terminate,
)

MOST_NOISE = 65536  # bytes that a user's shell may print before the program it was to run
MOST_STDERR = 4000  # bytes of error output that go into the error


CLEANUP_SECONDS = 5.0  # for the watchdog of a program that failed
EXIT_SECONDS = 1.0  # for a program that has closed its output to end

Afterwards = Literal["ends", "is ended", "stays"]

BOOT_ARGUMENTS = ("-I", "-S", "-c", BOOT)  # of a Python that becomes a resident


def resident_input(config: ResidentConfig) -> bytes:
    """What such a Python reads: the resident and its configuration."""
    return starting_input(build_archive(), msgspec.msgpack.encode(config))


class Completed(NamedTuple):
    """A program that has ended."""

    code: int
    output: bytes
    errors: str  # the end of its error output


async def run_program(
    argv: Sequence[str],
    *,
    seconds: float,
    given: bytes = b"",
    environ: Mapping[str, str] | None = None,
) -> Completed:
    """Runs a program to its end, with this input. Raises TimeoutError, OSError.

    `environ` are its variables besides PATH; an empty value removes one.
    """
    with ExitStack() as opened:
        stdin, output, errors = (
            memory_file(opened, name) for name in ("input", "output", "errors")
        )
        _fill(stdin, given)
        pid = spawn(argv, stdin, output, errors, environ or {})
        try:
            async with asyncio.timeout(seconds):
                await ended(pid)
        finally:
            code = end(pid)
        size = os.fstat(output).st_size
        return Completed(code, os.pread(output, size, 0), stderr_text(errors))


class StartFailed(EnvironmentUnavailable):
    """A resident did not start.

    `error` is the type of the resident's own error, by name; `exit_code` that of the program that
    was to start it. Both are empty where they are not known. `stderr` is what the program printed
    last.
    """

    def __init__(
        self, reason: str, stderr: str, *, error: str = "", exit_code: int | None = None
    ) -> None:
        super().__init__(
            f"the resident did not start: {reason}" + (f"; it said:\n{stderr}" if stderr else "")
        )
        self.stderr, self.error, self.exit_code = stderr, error, exit_code


async def start_resident(
    argv: Sequence[str],
    given: bytes,
    *,
    seconds: float,
    afterwards: Afterwards = "ends",
    environ: Mapping[str, str] | None = None,
    errors: int | None = None,
    passed: int | None = None,
    after: bytes = b"",
    gently: bool = False,
) -> Started:
    """Runs a program that becomes or starts a resident, with `given` as its input. Raises
    StartFailed.

    Once the resident is ready, the program ends by itself, is ended (an engine's client that would
    stay attached), or stays, detached (the resident is that program, or its child). `environ` are
    its variables besides PATH; an empty value removes one. `passed` is a descriptor that it
    inherits as PASSED. Its stderr goes to the file `errors`, for a caller that reads it after a
    success too. Output on stdout before `after` is skipped. `gently`: the program gets SIGTERM and
    time to finish instead of SIGKILL.
    """
    with ExitStack() as opened:
        ours, theirs = map(opened.enter_context, socket.socketpair())
        # Unnamed files: neither writing the input nor reading the errors can block.
        stdin = memory_file(opened, "input")
        stderr = memory_file(opened, "errors", errors)
        pid: int | None = None
        try:
            ours.setblocking(False)
            _fill(stdin, given)
            whole = [*DETACHED, *argv] if afterwards == "stays" else argv
            pid = spawn(whole, stdin, theirs.fileno(), stderr, environ or {}, passed)
            theirs.close()
            async with asyncio.timeout(seconds):
                await skip(ours, after)
                started = await ready(ours)
                if afterwards != "is ended":
                    await ended(pid)
            return started
        except BaseException as error:
            if pid is not None and afterwards == "stays":
                if isinstance(error, NotReady):  # the program failed; its watchdog cleans up
                    await session_ended(pid, CLEANUP_SECONDS)
                end_session(pid)
            if isinstance(error, TimeoutError):
                raise StartFailed(
                    f"it was not ready within {seconds:g} s", stderr_text(stderr)
                ) from None
            if isinstance(error, NotReady):
                if pid is not None and afterwards != "stays":
                    with suppress(TimeoutError):
                        async with asyncio.timeout(EXIT_SECONDS):
                            await ended(pid)
                code = None if pid is None else _exit_code(pid)
                raise StartFailed(
                    str(error), stderr_text(stderr), error=error.error, exit_code=code
                ) from error
            if isinstance(error, OSError) and not is_scarce(error):
                raise StartFailed(str(error), stderr_text(stderr)) from error
            raise
        finally:
            for side in (ours, theirs):
                side.close()
            try:
                if pid is not None and gently:
                    await terminate(pid)
            finally:
                if pid is not None:
                    end_group(pid) if afterwards == "is ended" else end(pid)


def _exit_code(pid: int) -> int | None:
    """Exit code of a child, which stays to be collected; None if it runs, or was killed."""
    state = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    return state.si_status if state is not None and state.si_code == os.CLD_EXITED else None


def memory_file(opened: ExitStack, name: str, same_as: int | None = None) -> int:
    """A file without a name, or another descriptor of one, that is closed with the stack."""
    fd = os.memfd_create(name) if same_as is None else os.dup(same_as)
    opened.callback(os.close, fd)
    return fd


async def skip(stream: socket.socket, mark: bytes) -> bool:
    """Reads and drops everything up to the mark; False if that is too much, or the stream ends
    before.
    """
    loop, said = asyncio.get_running_loop(), b""
    for _ in range(MOST_NOISE):
        if said == mark:
            return True
        said = (said + (byte := await loop.sock_recv(stream, 1)))[-len(mark) :]
        if not byte:
            break
    return False


def _fill(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    os.lseek(fd, 0, os.SEEK_SET)


def stderr_text(errors: int) -> str:
    """The end of a program's error output."""
    return os.pread(errors, 1 << 20, 0)[-MOST_STDERR:].decode("utf-8", "replace").strip()
