"""Client of the janitor, the process on this host that cleans up after residents which cannot do it
themselves.

One janitor per runtime directory (janitor_process.py) waits for residents to end, also when their
openers have exited. The first client starts it. Without a janitor, or after it was killed, the same
leftovers stay until `hermetic gc`.
"""

import asyncio
import contextlib
import json
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from hermetic.registry.file_lock import acquire
from hermetic.registry.host_process import DETACHED, end, ended, spawn
from hermetic.registry.records import Records

NAME = "janitor"  # of its socket, in the runtime directory
RECEIVED = b"."  # the reply to `open`
LONGEST_MESSAGE = 1 << 16  # bytes that the janitor reads at once
PROGRAM = Path(__file__).with_name("janitor_process.py")
_NAMES = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "HERMETIC_RUNTIME_DIR",
    "HERMETIC_SPOOL_DIR",
    "HERMETIC_DOCKER_BINARY",
)
# variables that the clients of environments read
_PREFIXES = ("SSH_", "XDG_", "DOCKER_", "CONTAINER_", "KRB5")
ATTEMPTS = 3  # a janitor may exit while a client connects; the next one then has a client and stays


class JanitorClient:
    """Registers one environment with the janitor while it is opened, so that nothing is left if the
    opener dies.

    Three messages: `open`, before anything is made; `made`, once the environment's directory
    exists; then `up` once the resident answers, or `done` if nothing was started. With
    `is_wanted=False` no janitor is contacted. Where none can be started, opening goes on without.
    """

    def __init__(
        self,
        records: Records,
        id: str,
        *,
        is_wanted: bool,
        spool: str | None = None,
        check: dict[str, Any] | None = None,
    ) -> None:
        self.spool = spool
        self._root = str(records.root)
        self._is_wanted = is_wanted
        self._stream: socket.socket | None = None
        # repeated to the next janitor, should this one exit
        self._sent = [_open_message(id, spool, check)]
        # for our connection to close, because it cannot see the resident
        self._waits_for_us = False

    async def begin(self) -> None:
        """Connects and sends what was sent so far. Call it before anything is made."""
        for _ in range(ATTEMPTS if self._is_wanted else 0):
            with contextlib.suppress(OSError):
                self._stream, is_new = await _connect_or_start(self._root)
                for message in self._sent:
                    self._stream.send(message)
                # A new janitor has this client to wait for and cannot exit, so its reply need not
                # be awaited.
                if is_new or await _receive(self._stream) == RECEIVED:
                    return
            self._disconnect()  # it was about to exit and read nothing

    def made(self) -> None:
        """The environment's directory exists."""
        self._send(b"made")

    def stalled(self) -> None:
        """The resident does not answer: the janitor runs the check once the resident may be ended."""
        self._send(b"stalled")

    async def up(self, pid: int) -> bool:
        """The resident answers, as this process of this host; 0 where the host does not see it.

        True when the janitor waits for the resident's end; else it waits for this client to
        disconnect.
        """
        for _ in range(ATTEMPTS if self._is_wanted else 0):
            with contextlib.suppress(OSError):
                if self._stream is not None:
                    self._stream.send(b"up %d" % pid)
                    while (answer := await _receive(self._stream)) == RECEIVED:
                        pass
                    if answer:
                        self._waits_for_us = answer == b"-"
                        return not self._waits_for_us
            self._disconnect()
            await self.begin()
        return False

    def hand_over(self) -> socket.socket | None:
        """The connection to close when the environment is released, for a janitor that waits for
        that.
        """
        stream, self._stream = (self._stream, None) if self._waits_for_us else (None, self._stream)
        return stream

    def done(self) -> None:
        """Nothing was started."""
        self._send(b"done")

    def _send(self, message: bytes) -> None:
        self._sent.append(message)
        if self._stream is not None:
            with contextlib.suppress(OSError):
                self._stream.send(message)

    def _disconnect(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    async def __aenter__(self) -> "JanitorClient":
        await self.begin()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._disconnect()


def liveness_check(
    id: str,
    lease: float,
    unattended: float,
    variables: tuple[str, ...] = (),
    *,
    orphans: bool = False,
) -> dict[str, Any]:
    """A program that removes an environment if its resident is gone, and after how many seconds to
    run it.

    `variables` are prefixes of names of variables that it needs besides the usual ones. With
    `orphans` it also runs after an opener that was killed: what that has created elsewhere has no
    record.
    """
    prefixes = (*_PREFIXES, *variables)
    environ = {
        name: value
        for name, value in os.environ.items()
        if name in _NAMES or name.startswith(prefixes)
    }
    own = str(Path(__file__).parents[2])
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, (own, os.environ.get("PYTHONPATH"))))
    argv = [sys.executable, "-m", "hermetic", "gc", id]
    return {
        "lease": lease,
        "unattended": unattended,
        "argv": argv,
        "environ": environ,
        "orphans": orphans,
    }


def _open_message(id: str, spool: str | None, check: dict[str, Any] | None) -> bytes:
    message = json.dumps({"id": id, "spool": spool or "", "check": check}).encode()
    return (
        message
        if len(message) < LONGEST_MESSAGE or check is None
        else _open_message(id, spool, None)
    )


async def _receive(stream: socket.socket) -> bytes:
    return await asyncio.get_running_loop().sock_recv(stream, 1)


async def remove_dead_socket(root: str) -> bool:
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
    """A connection to the janitor, and whether it was started for it."""
    path = f"{root}/{NAME}"
    with contextlib.suppress(FileNotFoundError, ConnectionRefusedError):
        return _connected(path), False
    async with _lock(root) as lock:
        with contextlib.suppress(FileNotFoundError, ConnectionRefusedError):
            return _connected(path), False
        return await _start(root, lock), True


@asynccontextmanager
async def _lock(root: str) -> AsyncIterator[int]:
    """A descriptor that locks the runtime directory itself, so that a killed process leaves no lock
    file.
    """
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        await acquire(fd)
        yield fd
    finally:
        os.close(fd)


async def _start(root: str, lock: int) -> socket.socket:
    """A connection to a new janitor, which inherits the lock and holds it until it listens."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        ours.setblocking(False)
        argv = [*DETACHED, sys.executable, "-I", "-S", str(PROGRAM), root]
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
    """A connection to a listening janitor. Never blocks: its backlog is long. Raises OSError."""
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        stream.setblocking(False)
        stream.connect(path)
    except BaseException:
        stream.close()
        raise
    return stream
