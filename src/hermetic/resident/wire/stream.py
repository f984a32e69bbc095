"""Unix sockets from the C module alone: the standard library's wrapper is slow to import."""

from __future__ import annotations

import os
import struct
from _socket import (
    AF_UNIX,
    CMSG_SPACE,
    MSG_CMSG_CLOEXEC,
    SCM_RIGHTS,
    SO_PEERCRED,
    SOCK_STREAM,
    SOL_SOCKET,
    socketpair,
)
from _socket import socket as Stream

from ..life.loop import READ

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..life.loop import Loop

__all__ = [
    "CMSG_SPACE",
    "MSG_CMSG_CLOEXEC",
    "SCM_RIGHTS",
    "SOL_SOCKET",
    "Listener",
    "Stream",
    "pair",
]

PASSED_SECONDS = 5.0  # for the host to pass a socket on
PAUSE_SECONDS = 0.1  # before the next accept, if no descriptor was available


def pair() -> tuple[int, int]:
    """Two descriptors of a connected stream."""
    one, other = socketpair(AF_UNIX, SOCK_STREAM)
    return one.detach(), other.detach()


def passed_listener(path: str) -> Stream | None:
    """The socket that a program of the host listens at under this path, and passes on; None if it
    does not.

    A container cannot create a socket on the host where the directory is mounted read-only, but
    connect to one.
    """
    stream = Stream(AF_UNIX, SOCK_STREAM)
    try:
        stream.settimeout(PASSED_SECONDS)
        stream.connect(path)
        _, passed, _, _ = stream.recvmsg(1, CMSG_SPACE(4), MSG_CMSG_CLOEXEC)
    except OSError:  # the engine runs in a virtual machine, where the socket has no listener
        return None
    finally:
        stream.close()
    fds = [
        data
        for level, kind, data in passed
        if (level, kind, len(data)) == (SOL_SOCKET, SCM_RIGHTS, 4)
    ]
    return Stream(fileno=struct.unpack("i", fds[0])[0]) if fds else None


class Listener:
    """A listening socket. Calls `accepted(connection, pid, uid)` for each connection."""

    def __init__(
        self,
        loop: Loop,
        path: str,
        mode: int,
        waiting: int,
        accepted: Callable[[Stream, int, int], None],
    ) -> None:
        self.loop, self.path, self.mode, self.waiting, self.accepted = (
            loop,
            path,
            mode,
            waiting,
            accepted,
        )
        self._open()

    def _open(self) -> None:
        self.stream = Stream(AF_UNIX, SOCK_STREAM)
        self.stream.bind(self.path)
        os.chmod(self.path, self.mode)
        self._listen()

    def _listen(self) -> None:
        self.stream.setblocking(False)
        self.stream.listen(self.waiting)  # for a passed socket too: callers then see our pid
        self.watch = self.loop.watch(self.stream.fileno(), self._accept)

    def restore(self) -> None:
        """Listens again after its file was removed. Raises OSError."""
        if not os.path.lexists(self.path):
            self.close()
            self._open()

    def _accept(self) -> None:
        try:
            fd, _ = self.stream._accept()  # type: ignore[attr-defined]  # what the wrapper calls too
        except (BlockingIOError, ConnectionError):
            return
        except OSError:  # no descriptor available: stop polling, and accept later
            watch = self.watch
            self.loop.want(watch, 0)
            self.loop.call_later(PAUSE_SECONDS, lambda: self.loop.want(watch, READ))
            return
        connection = Stream(fileno=fd)
        connection.setblocking(False)
        pid, uid, _ = struct.unpack("3i", connection.getsockopt(SOL_SOCKET, SO_PEERCRED, 12))
        self.accepted(connection, pid, uid)

    def close(self) -> None:
        self.loop.unwatch(self.watch)
        self.stream.close()


class PassedListener(Listener):
    """One whose socket another process has made. It cannot be restored."""

    def __init__(
        self, loop: Loop, stream: Stream, waiting: int, accepted: Callable[[Stream, int, int], None]
    ) -> None:
        self.loop, self.stream, self.waiting, self.accepted = loop, stream, waiting, accepted
        self._listen()
