"""A janitor for environments whose resident cannot take away what it has on this host: asked for, started if need be.

One small process for each runtime directory (janitor_process.py) waits for residents to end, also when their openers
are long gone. Without it, or when it is killed, the same things stay until `hermetic gc`.
"""

import asyncio
import contextlib
import fcntl
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from hermetic.registry.file_lock import wait_for_lock
from hermetic.registry.host_process import BESIDE, end, ended, spawn
from hermetic.registry.records import Records

NAME = "janitor"  # of its socket, in the runtime directory
HEARD = b"."  # answered to `open`
PROGRAM = Path(__file__).with_name("janitor_process.py")
_NAMES = ("PATH", "HOME", "USER", "LOGNAME", "HERMETIC_RUNTIME_DIR", "HERMETIC_SPOOL_DIR", "HERMETIC_DOCKER_BINARY")
_PREFIXES = ("SSH_", "XDG_", "DOCKER_", "CONTAINER_", "KRB5")  # what the clients of these places go by
ATTEMPTS = 3  # it may end while we connect to it; the next one then finds somebody new to wait for


class Watch:
    """The janitor's eye on one environment while it is opened: whatever its opener leaves undone, the janitor does.

    No janitor is asked where none is wanted, and none is missed where it cannot be had.
    """

    def __init__(self, records: Records, id: str, *, is_wanted: bool) -> None:
        self._records, self._id = records, id
        self._is_wanted = is_wanted
        self._stream: socket.socket | None = None
        self._said = [f"open {id}"]
        self._is_missed = False  # the janitor waits for us to go, instead of the resident

    async def begin(self) -> None:
        """Before anything is made; after it the janitor hears of us, whatever becomes of us."""
        for _ in range(ATTEMPTS if self._is_wanted else 0):
            with contextlib.suppress(OSError):
                self._stream, is_new = await _connect_or_start(str(self._records.root))
                for message in self._said:
                    self._stream.send(os.fsencode(message))
                # A new one has us to wait for, so nobody has to wait until it is up.
                if is_new or await _answer(self._stream) == HEARD:
                    return
            self._let_go()  # it was about to end, and heard nothing

    def spool(self, path: str) -> None:
        """Before the spool's directory is made."""
        self._say(f"spool {path}")

    def made(self) -> None:
        """The environment's directory is there."""
        self._say("made")

    def check(self, lease: float, unattended: float, variables: tuple[str, ...] = ()) -> None:
        """How long the resident lives without us, should it be where this host cannot see it end.

        `variables` are beginnings of names that whoever looks there needs besides the usual ones.
        """
        self._say("\0\0".join((f"check {lease} {unattended}", *map("\0".join, _looking(self._id, variables)))))

    def stalled(self) -> None:
        """The resident does not answer: what `check` names is to look at it when it may be ended."""
        self._say("stalled")

    async def keep(self) -> bool:
        """The resident lives; True when the janitor waits for its end, else it waits for us to let go."""
        for _ in range(ATTEMPTS if self._is_wanted else 0):
            with contextlib.suppress(OSError):
                if self._stream is not None:
                    self._stream.send(b"up")
                    while (answer := await _answer(self._stream)) == HEARD:
                        pass
                    if answer:
                        self._is_missed = answer == b"-"
                        return not self._is_missed
            self._let_go()
            await self.begin()
        return False

    def hand_over(self) -> socket.socket | None:
        """What is to be closed when the environment is let go of, for a janitor that waits for that."""
        stream, self._stream = (self._stream, None) if self._is_missed else (None, self._stream)
        return stream

    def done(self) -> None:
        """There is nothing to look after."""
        self._say("done")

    def _say(self, message: str) -> None:
        self._said.append(message)
        if self._stream is not None:
            with contextlib.suppress(OSError):
                self._stream.send(os.fsencode(message))

    def _let_go(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    async def __aenter__(self) -> "Watch":
        await self.begin()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._let_go()


async def _answer(stream: socket.socket) -> bytes:
    return await asyncio.get_running_loop().sock_recv(stream, 1)


def _looking(id: str, variables: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Words and variables of a program that takes an environment away if its resident is gone."""
    starts = (*_PREFIXES, *variables)
    environ = {name: value for name, value in os.environ.items() if name in _NAMES or name.startswith(starts)}
    own = str(Path(__file__).parents[2])
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, (own, os.environ.get("PYTHONPATH"))))
    return [sys.executable, "-m", "hermetic", "gc", id], [f"{name}={value}" for name, value in environ.items()]


async def bury(root: str) -> bool:
    """Removes the socket of a janitor that was killed; False where there is none."""
    path = f"{root}/{NAME}"
    async with _lock(root):
        try:
            _connected(path).close()
        except ConnectionRefusedError:
            os.unlink(path)
            return True
        except OSError:
            return False
    return False


async def _connect_or_start(root: str) -> tuple[socket.socket, bool]:
    """A connection to the janitor, and whether it is a new one."""
    path = f"{root}/{NAME}"
    with contextlib.suppress(FileNotFoundError, ConnectionRefusedError):
        return _connected(path), False
    async with _lock(root) as lock:
        with contextlib.suppress(FileNotFoundError, ConnectionRefusedError):
            return _connected(path), False
        return await _start(root, lock), True


@asynccontextmanager
async def _lock(root: str) -> AsyncIterator[int]:
    """A descriptor that holds the runtime directory's own lock: no file of ours is left when we are killed."""
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            await wait_for_lock(fd)
        yield fd
    finally:
        os.close(fd)


async def _start(root: str, lock: int) -> socket.socket:
    """A connection to a new janitor, who is handed the lock and keeps it until it listens."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        ours.setblocking(False)
        argv = [*BESIDE, sys.executable, "-I", "-S", str(PROGRAM), root]
        socket.send_fds(ours, [b"lock"], [lock])
        pid = spawn(argv, theirs.fileno(), null, null, {})
        try:
            await ended(pid)
        finally:
            end(pid)
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
        os.close(null)
    return ours


def _connected(path: str) -> socket.socket:
    """Raises OSError where nobody listens. It never waits: the janitor's queue is longer than there are openers."""
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        stream.setblocking(False)
        stream.connect(path)
    except BaseException:
        stream.close()
        raise
    return stream
