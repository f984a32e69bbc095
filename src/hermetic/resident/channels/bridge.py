"""Bridge between programs inside and the client that serves them: it forwards bytes both ways.

A program connects to a socket of the resident and sends the token that it was started with. From
then on its bytes are events of the request that opened the bridge under that token, and the
client's bytes go to the program.
"""

from __future__ import annotations

from _operator import _compare_digest
from os import dup, getuid

from ..life.server import nothing
from ..limits import CHANNEL_TOKEN, CHANNEL_UNPROVEN, CHANNELS, PENDING_INPUT
from ..processes.stdin_writer import InputClosed, StdinWriter
from ..wire.stream import Listener, Stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..life.loop import Loop, Watch
    from ..life.server import Request
    from ..wire.frames import Fields

TOKEN_BYTES = 32


class Bridge:
    """Listens from its first use on. `clients` maps tokens to open requests."""

    def __init__(self, loop: Loop, directory: str) -> None:
        self.loop, self.path = loop, directory + "/b"
        self.clients: dict[bytes, BridgeClient] = {}
        self.channels: dict[int, Channel] = {}
        self.unidentified: dict[int, Channel] = {}  # oldest first
        self.number = 0
        self.listener: Listener | None = None

    def open(self, token: bytes, request: Request) -> None:
        """Connects programs that know the token to this request's client."""
        if self.listener is None:
            self.listener = Listener(self.loop, self.path, 0o600, CHANNELS, self._accepted)
        old = self.clients.get(token)
        if old is not None:  # the client has reconnected
            old.close()
        owner = self.clients[token] = BridgeClient(self, token, request)
        request.abandoned = owner.close
        request.on_room = owner.resume
        request.on_event = owner.receive
        request.event({"socket": self.path})

    def find(self, token: bytes) -> BridgeClient | None:
        found = [owner for known, owner in self.clients.items() if _compare_digest(known, token)]
        return found[0] if found else None

    def _accepted(self, connection: Stream, pid: int, uid: int) -> None:
        if uid not in (0, getuid()):
            connection.close()
            return
        if len(self.unidentified) >= CHANNEL_UNPROVEN:
            next(iter(self.unidentified.values())).close()
        self.number += 1
        self.unidentified[self.number] = Channel(self, self.number, connection)


class BridgeClient:
    """One client's side of the bridge."""

    def __init__(self, bridge: Bridge, token: bytes, request: Request) -> None:
        self.bridge, self.token, self.request = bridge, token, request
        self.channels: set[Channel] = set()

    def resume(self) -> None:
        """Reads on after the client has room again."""
        for channel in self.channels:
            channel.listen()

    def receive(self, fields: Fields, data: bytes) -> None:
        """Forwards a short message to a program without waiting until it is read."""
        number = fields.get("channel")
        channel = self.bridge.channels.get(number) if type(number) is int else None
        if channel is None or channel.owner is not self:
            return
        try:
            channel.send(data, nothing)
        except InputClosed:
            return
        if channel.writer.pending_bytes > PENDING_INPUT:  # it asks on and on and never listens
            channel.close()

    def close(self) -> None:
        """Closes its channels: programs that wait for an answer see the end of the stream."""
        if self.bridge.clients.get(self.token) is self:
            del self.bridge.clients[self.token]
        for channel in list(self.channels):
            channel.close()


class Channel:
    """One program's connection."""

    def __init__(self, bridge: Bridge, number: int, connection: Stream) -> None:
        self.bridge, self.number, self.connection = bridge, number, connection
        self.owner: BridgeClient | None = None
        self.token = b""
        self.writer = StdinWriter(bridge.loop, dup(connection.fileno()))
        self.watch: Watch | None = None
        self.timer = bridge.loop.call_later(CHANNEL_TOKEN, self.close)
        self.listen()

    def listen(self) -> None:
        if self.watch is None:
            self.watch = self.bridge.loop.watch(self.connection.fileno(), self._read)

    def _pause(self) -> None:
        if self.watch is not None:
            self.bridge.loop.unwatch(self.watch)
            self.watch = None

    def _read(self) -> None:
        buffer = self.bridge.loop.buffer
        wanted = len(buffer) if self.owner is not None else TOKEN_BYTES - len(self.token)
        try:
            count = self.connection.recv_into(buffer, wanted)
        except BlockingIOError:
            return
        except OSError:
            count = 0
        if not count:
            self.close()
        elif self.owner is None:
            self._greet(bytes(buffer[:count]))
        else:
            self._forward(self.owner, bytes(buffer[:count]))

    def _greet(self, data: bytes) -> None:
        self.token += data
        if len(self.token) < TOKEN_BYTES:
            return
        self.timer.cancel()
        owner = self.bridge.find(self.token)
        if owner is None or len(self.bridge.channels) >= CHANNELS:
            self.close()
            return
        del self.bridge.unidentified[self.number]
        self.bridge.channels[self.number] = self
        self.owner = owner
        owner.channels.add(self)

    def _forward(self, owner: BridgeClient, data: bytes) -> None:
        owner.request.event({"channel": self.number}, data)
        self.bridge.loop.spin_policy.expect_answer()
        if not owner.request.client.has_room:
            self._pause()

    def send(self, data: bytes, taken: Callable[[InputClosed | None], None]) -> None:
        """Sends bytes to the program; calls `taken(error)` once it has read nearly all of them."""
        self.writer.write(data, taken)
        self.bridge.loop.spin_policy.expect_request()

    def close(self) -> None:
        among = self.bridge.unidentified if self.owner is None else self.bridge.channels
        if among.pop(self.number, None) is None:
            return
        self.timer.cancel()
        self._pause()
        self.writer.drop()
        self.connection.close()
        if self.owner is not None:
            self.owner.channels.discard(self)
            self.owner.request.event({"channel": self.number, "end": True})
