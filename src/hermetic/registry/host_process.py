"""Processes of this machine: starting, watching and ending them, safe against reused pids."""

import asyncio
import contextlib
import errno
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple, Self

import msgspec

# Runs the remaining arguments as an orphan: a child that outlives its start would end as a zombie
# of this process.
DETACHED = ("/bin/sh", "-c", 'exec 3<&0; "$@" <&3 3<&- &', "sh")
PASSED = 8  # the highest descriptors that a plain sh can name are 8 and 9
ENDING_SECONDS = 10.0  # between SIGTERM and SIGKILL
UNKNOWN_CODE = 255  # for an exit code that is not known
SWEEPS = 3  # passes over the process table, since processes may fork meanwhile
CLOCK_SLACK = 2.0  # seconds; for changes of the clock and rounding of the kernel
_SCARCE = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS))
_DEFAULT_SIGNALS = (
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGPIPE,
    signal.SIGCHLD,
)


PATIENCE = 2.0  # seconds for a process that was asked to end


class HostProcess(msgspec.Struct, frozen=True):
    """A process by pid and start time, which together are unique."""

    pid: int
    born: str  # start time in clock ticks since boot; "" for a process that had ended already

    @classmethod
    def find(cls, pid: int) -> Self | None:
        """The living process with this pid."""
        seen = _stat(pid)
        return None if seen is None or seen.has_ended else cls(pid, seen.fields[19])

    @classmethod
    def parse(cls, text: str) -> Self:
        """The reverse of `str`."""
        pid, _, born = text.partition(".")
        return cls(int(pid), born)

    def __str__(self) -> str:
        return f"{self.pid}.{self.born}"

    @property
    def is_alive(self) -> bool:
        """False also when another process has its pid now."""
        found = HostProcess.find(self.pid)
        return found is not None and found.born == self.born

    async def ensure_ended(self, patience: float = PATIENCE) -> None:
        """Returns when the process has ended: by itself, or after growing force."""
        for step in (lambda: None, *self._steps()):  # first it only waits
            if not self.is_alive:
                return
            step()
            with suppress(TimeoutError):
                async with asyncio.timeout(patience):
                    await ended(self.pid)

    def _steps(self) -> Sequence[Callable[[], None]]:
        return [partial(self._send, number) for number in (signal.SIGTERM, signal.SIGKILL)]

    def _send(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)


def is_scarce(error: BaseException) -> bool:
    """Whether descriptors or memory ran out here; the environment itself may be well."""
    return isinstance(error, OSError) and error.errno in _SCARCE


async def ended(pid: int) -> None:
    """Returns when a process has ended; its parent may still have to collect it."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    except OSError as error:
        if not is_scarce(error):
            raise
        while _runs(pid):  # noqa: ASYNC110  # without a descriptor there is no event to wait for
            await asyncio.sleep(0.02)
        return
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    loop.add_reader(handle, over.set)
    try:
        await over.wait()
    finally:
        loop.remove_reader(handle)
        os.close(handle)


def _runs(pid: int) -> bool:
    """Whether a process has not ended; needs no descriptor."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    except ChildProcessError:
        return os.path.exists(f"/proc/{pid}")


def is_resident(pid: int, *, born_before: float) -> bool:
    """Whether the pid is that of a resident or guardian of this age, not of a later process.

    Raises OSError if that is not known, for example without descriptors.
    """
    seen = _stat(pid)
    if seen is None or seen.has_ended or not seen.name.startswith("hermetic"):
        return False
    return _born(int(seen.fields[19])) < born_before + CLOCK_SLACK


def is_alive(pid: int) -> bool:
    """False for an ended process, also for a zombie. Raises OSError if that is not known."""
    seen = _stat(pid)
    return seen is not None and not seen.has_ended


def is_stopped(pid: int) -> bool:
    """Whether the process is stopped by a signal or a tracer, so that it handles no other signals."""
    seen = _stat(pid)
    return seen is not None and seen.fields[0] in "Tt"


def parent_of(pid: int) -> int | None:
    """None for what has ended."""
    seen = _stat(pid)
    return None if seen is None else int(seen.fields[1])


def comm_of(pid: int) -> str:
    """The kernel's name of the process; "" if it has ended."""
    seen = _stat(pid)
    return "" if seen is None else seen.name


class _Stat(NamedTuple):
    """A process as /proc shows it."""

    name: str
    fields: list[str]  # those after the name: state, parent, group, session …

    @property
    def has_ended(self) -> bool:
        return self.fields[0] in "ZX"


def _stat(pid: int) -> _Stat | None:
    """None for what has ended."""
    try:
        name, _, rest = (
            Path(f"/proc/{pid}/stat").read_text(errors="replace").partition("(")[2].rpartition(")")
        )
    except (FileNotFoundError, ProcessLookupError):  # other errors, such as EMFILE, prove nothing
        return None
    return _Stat(name, rest.split())


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def end_descendants(pid: int) -> None:
    """Kills all descendants of a process."""
    for _ in range(SWEEPS):
        parents = {one: parent_of(one) for one in _pids()}
        below, new = set[int](), {pid}
        while new := {one for one, parent in parents.items() if parent in new} - below:
            below |= new
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for one in below:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(one, number)
        if not below:
            return


def _born(ticks: int) -> float:
    """Start time of a process in seconds since 1970."""
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    return time.time() - uptime + ticks / os.sysconf("SC_CLK_TCK")


def spawn(
    argv: Sequence[str],
    stdin: int,
    stdout: int,
    stderr: int,
    environ: Mapping[str, str],
    passed: int | None = None,
) -> int:
    """Starts a program in its own session, so that a Ctrl-C at our terminal does not reach it."""
    # Few variables: /proc shows them to others, and those of its commands are in its configuration.
    own = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    actions: list[tuple[int, ...]] = [(os.POSIX_SPAWN_CLOSE, fd) for fd in _inheritable()]
    actions += [
        (os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate((stdin, stdout, stderr))
    ]
    if passed is not None:
        actions.append((os.POSIX_SPAWN_DUP2, passed, PASSED))
    return os.posix_spawnp(
        argv[0],
        list(argv),
        {name: value for name, value in {**own, "LC_ALL": "C.UTF-8", **environ}.items() if value},
        file_actions=actions,
        setsid=True,
        setsigmask=(),
        setsigdef=_DEFAULT_SIGNALS,
    )


def _inheritable() -> list[int]:
    """Inheritable descriptors of this process: in a program that stays, they would keep pipes open."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the listing's own descriptor is closed
            if int(name) > 2 and os.get_inheritable(int(name)):
                found.append(int(name))
    return found


def end(pid: int) -> int:
    """Collects a program that `spawn` started, and kills it if it still runs; its exit code."""
    try:
        found, status = os.waitpid(pid, os.WNOHANG)
        if not found:
            os.kill(pid, signal.SIGKILL)
            status = os.waitpid(pid, 0)[1]
        return os.waitstatus_to_exitcode(status)
    except (ChildProcessError, ProcessLookupError):  # collected elsewhere
        return UNKNOWN_CODE


async def terminate(pid: int) -> None:
    """Sends SIGTERM to a child's group; returns when the child has ended, or after a few seconds."""
    with contextlib.suppress(ProcessLookupError, TimeoutError):
        os.killpg(pid, signal.SIGTERM)
        async with asyncio.timeout(ENDING_SECONDS):
            await ended(pid)


def end_group(pid: int) -> None:
    """Kills a program that `spawn` started, with its group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    end(pid)


def end_session(session: int) -> None:
    """Kills all processes of a session that `spawn` made, in all its groups."""
    for _ in range(SWEEPS):
        members = _members(session)
        if not members:
            return
        for pid in members:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


async def session_ended(session: int, seconds: float) -> None:
    """Returns when all that ran in a session has ended by itself, or after so many seconds."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while members := _members(session):
                for pid in members:
                    await ended(pid)


def _members(session: int) -> list[int]:
    found = []
    for pid in _pids():
        with suppress(OSError):
            if (seen := _stat(pid)) and not seen.has_ended and int(seen.fields[3]) == session:
                found.append(pid)
    return found
