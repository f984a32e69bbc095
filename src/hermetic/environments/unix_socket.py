"""Connections to Unix sockets in directories that other users may write to."""

import asyncio
import contextlib
import os
import socket
import stat
from collections.abc import AsyncIterator
from pathlib import Path

from hermetic.contract.concurrency import beside
from hermetic.contract.environment import EnvironmentRecord
from hermetic.environments.options import OptionsBackend
from hermetic.registry.host_process import is_alive
from hermetic.registry.janitor_process import sockets_in
from hermetic.registry.peers import peer_of


async def connect(path: str) -> socket.socket:
    """A connected, non-blocking stream. Never follows a symbolic link at `path`. Never blocks.

    Raises OSError: ConnectionRefusedError without a listener, BlockingIOError if the listener's
    backlog is full.
    """
    handle = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if not stat.S_ISSOCK(os.fstat(handle).st_mode):
            raise ConnectionRefusedError(f"{path} is no socket")
        stream = socket.socket(socket.AF_UNIX)
        try:
            stream.setblocking(False)
            stream.connect(f"/proc/self/fd/{handle}")
        except BaseException:
            stream.close()
            raise
    finally:
        os.close(handle)
    return stream


@contextlib.asynccontextmanager
async def passed_on(path: str) -> AsyncIterator[None]:
    """Listens at `path` and passes the listening socket to the first process that connects; ours is
    closed afterwards.

    Every user may connect: the directories above decide who can.
    """
    with _listening(path) as listener:
        async with beside(_pass_on(listener)):
            yield


def _listening(path: str) -> socket.socket:
    folder, name = os.path.split(path)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.setblocking(False)
        handle = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # the whole path may be too long for a socket
            listener.bind(f"/proc/self/fd/{handle}/{name}")
        finally:
            os.close(handle)
        os.chmod(path, 0o666)
        listener.listen()
    except BaseException:
        listener.close()
        raise
    return listener


async def _pass_on(listener: socket.socket) -> None:
    stream, _ = await asyncio.get_running_loop().sock_accept(listener)
    with stream, contextlib.suppress(OSError):  # it may have ended meanwhile
        socket.send_fds(stream, [b"s"], [listener.fileno()])


async def is_listened_in(directory: Path) -> bool:
    """True when a program listens at a socket in the directory or below.

    One that was killed does not, though a child that it had just forked may hold the socket for a
    moment.
    """
    for path in sockets_in(directory):
        try:
            with await connect(path) as stream:
                if (pid := peer_pid(stream)) == 0 or is_alive(pid):
                    return True
        except (FileNotFoundError, ConnectionRefusedError):
            continue
        except OSError:
            return True  # unknown, for example if its backlog is full
    return False


async def listeners(directory: Path) -> list[int]:
    """The processes that listen at sockets in the directory or below, as far as this machine sees
    them.
    """
    found = []
    for path in sockets_in(directory):
        with contextlib.suppress(OSError), await connect(path) as stream:
            found += [pid] if (pid := peer_pid(stream)) else []
    return sorted(set(found))


class SocketBackend(OptionsBackend):
    """Parts of a backend whose resident has its socket on this machine."""

    async def reach(self, record: EnvironmentRecord) -> socket.socket:
        """A socket connected to the resident's. Raises OSError."""
        return await connect(record.socket)


def peer_pid(stream: socket.socket) -> int:
    """The process that listens on the other side; 0 if this machine does not see it, or for a
    socket pair.
    """
    if not stream.getpeername():
        return 0  # one end of a pair, carried by a program of ours
    return peer_of(stream).pid
