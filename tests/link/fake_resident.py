"""The other end of a link, under a test's control: it greets, then sends whatever bytes it is given."""

import asyncio
import socket

from hermetic.link.link import Link
from hermetic.link.wire import pack_frame
from hermetic.resident.frames import REPLY

GREETING = pack_frame(REPLY, 0, {"version": 1, "resident": "r1", "pid": 1})


class FakeResident:
    """Accepts one connection; nobody listens any more after it."""

    def __init__(self, greeting: bytes = GREETING) -> None:
        self._greeting = greeting
        self._ours: socket.socket | None = None
        self.dialled = 0

    async def dial(self) -> socket.socket:
        """The client's end of a new stream, the first time."""
        self.dialled += 1
        if self._ours is not None:
            raise ConnectionRefusedError("nobody listens")
        self._ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        self._ours.setblocking(False)
        self._ours.send(self._greeting)
        return theirs

    def link(self) -> Link:
        """A link to it, not yet open."""
        return Link(self.dial, b"token", environment="fake")

    async def send(self, data: bytes) -> None:
        """Sends bytes as they are."""
        assert self._ours is not None
        try:
            await asyncio.get_running_loop().sock_sendall(self._ours, data)
        except (BrokenPipeError, ConnectionResetError):
            return  # the client has closed already

    def hang_up(self) -> None:
        """Ends the stream."""
        if self._ours is not None:
            self._ours.close()
