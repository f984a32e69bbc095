"""The other end of a link, under a test's control: it greets, then sends whatever bytes it is
given.
"""

import asyncio
import contextlib
import socket

from hermetic.contract.limits import RECONNECT
from hermetic.link.link import Link
from hermetic.link.wire import pack_frame
from hermetic.resident.wire.frames import REPLY

GREETING = pack_frame(REPLY, 0, {"version": 1, "resident": "r1", "pid": 1})


class FakeResident:
    """Accepts one connection, and nobody listens any more after it; or, where it only hangs up at
    first, more.
    """

    def __init__(self, greeting: bytes = GREETING, *, hangs_up_at_first: bool = False) -> None:
        self.greeting: bytes | None = greeting  # None: hangs up at once
        self.fails: list[Exception] = []  # what the next dials raise
        self.reached = asyncio.Event()  # by another than the first dial
        self.dialled = 0
        self._takes_more = hangs_up_at_first
        self._ours: socket.socket | None = None

    async def dial(self) -> socket.socket:
        """The client's end of a new stream."""
        self.dialled += 1
        if self.fails:
            raise self.fails.pop()
        if self._ours is not None:
            if not self._takes_more:
                raise ConnectionRefusedError("nobody listens")
            self.reached.set()
            self._ours.close()
        self._ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        self._ours.setblocking(False)
        if self.greeting is None:
            self._ours.close()
        else:
            self._ours.send(self.greeting)
        return theirs

    def link(self, patience: float = RECONNECT) -> Link:
        """A link to it, not yet open."""
        return Link(self.dial, b"token", environment="fake", patience=patience)

    async def send(self, data: bytes) -> None:
        """Sends bytes as they are."""
        assert self._ours is not None
        try:
            await asyncio.get_running_loop().sock_sendall(self._ours, data)
        except (BrokenPipeError, ConnectionResetError):
            return  # the client has closed already

    async def hears(self, word: bytes) -> None:
        """Returns when the client has said it."""
        assert self._ours is not None
        said = b""
        while word not in said:
            said += await asyncio.get_running_loop().sock_recv(self._ours, 4096)

    async def is_left(self) -> None:
        """Returns when the client has ended the stream."""
        assert self._ours is not None
        with contextlib.suppress(ConnectionResetError):
            while await asyncio.get_running_loop().sock_recv(self._ours, 4096):
                pass

    def hang_up(self) -> None:
        """Ends the stream."""
        if self._ours is not None:
            self._ours.close()
