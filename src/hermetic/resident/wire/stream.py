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

__all__ = ["CMSG_SPACE", "MSG_CMSG_CLOEXEC", "SCM_RIGHTS", "SOL_SOCKET", "Listener", "Stream", "pair"]

PAUSE_SECONDS = 0.1  # before the next accept, if no descriptor was available


def pair() -> tuple[int, int]:
    """Two descriptors of a connected stream."""
    one, other = socketpair(AF_UNIX, SOCK_STREAM)
    return one.detach(), other.detach()


class Listener:
    """A listening socket. Calls `accepted(connection, pid, uid)` for each connection."""

    def __init__(
        self, loop: Loop, path: str, mode: int, waiting: int, accepted: Callable[[Stream, int, int], None]
    ) -> None:
        self.loop, self.path, self.mode, self.waiting, self.accepted = loop, path, mode, waiting, accepted
        self._open()

    def _open(self) -> None:
        self.stream = Stream(AF_UNIX, SOCK_STREAM)
        self.stream.setblocking(False)
        self.stream.bind(self.path)
        os.chmod(self.path, self.mode)
        self.stream.listen(self.waiting)
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
