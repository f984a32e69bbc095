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

__all__ = ["CMSG_SPACE", "MSG_CMSG_CLOEXEC", "SCM_RIGHTS", "SOL_SOCKET", "Stream", "accept", "listen", "pair", "peer"]


def pair() -> tuple[int, int]:
    """Two descriptors of a connected stream."""
    one, other = socketpair(AF_UNIX, SOCK_STREAM)
    return one.detach(), other.detach()


def listen(path: str, mode: int, waiting: int) -> Stream:
    """A non-blocking socket that listens at `path`."""
    stream = Stream(AF_UNIX, SOCK_STREAM)
    stream.setblocking(False)
    stream.bind(path)
    os.chmod(path, mode)
    stream.listen(waiting)
    return stream


def accept(listening: Stream) -> Stream | None:
    """The next connection, or None. Raises OSError if no descriptor is available."""
    try:
        fd, _ = listening._accept()  # type: ignore[attr-defined]  # what the wrapper calls too
    except (BlockingIOError, ConnectionError):
        return None
    stream = Stream(fileno=fd)
    stream.setblocking(False)
    return stream


def peer(stream: Stream) -> tuple[int, int]:
    """`(pid, uid)` of the connected process."""
    pid, uid, _ = struct.unpack("3i", stream.getsockopt(SOL_SOCKET, SO_PEERCRED, 12))
    return pid, uid
