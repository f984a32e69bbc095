"""Frames and events on their way to one tab: written at once while it reads, queued within bounds
while it does not.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import msgspec

from hermetic.serve import frames

EVENTS = 1 << 19  # bytes of text events that wait for a tab that does not read
MOST_WAITING = 1 << 20  # bytes that wait before another operation of the tab is taken
# bytes of output that wait, or are on their way from residents, for all channels together
OUTPUT_WAITING = 1 << 19
LEAST_SHARE = 1 << 12  # bytes of it for one channel
ENTRY = 128  # bytes that an entry of the queue costs besides its content

Event = Mapping[str, Any]
Publish = Callable[[Event], None]


class Socket(Protocol):
    """What a tab uses of a WebSocket."""

    @property
    def is_writable(self) -> bool:
        """False while the client does not read."""

    def listen(
        self, take: Callable[[str | bytes], None], when_writable: Callable[[], None]
    ) -> None:
        """From now on `take` gets every message, and `when_writable` is called when the client
        reads again.
        """

    def write(self, data: str | bytes) -> None:
        """Sends a message at once."""

    def pause_reading(self) -> None:
        """Takes no more messages of the client."""

    def resume_reading(self) -> None:
        """Takes them again."""

    async def wait_closed(self) -> None:
        """Returns when the connection is closed."""

    async def close(self, code: int = 1000, reason: str | None = None) -> None:
        """Closes it."""


class Output(NamedTuple):
    """Bytes of a channel at an offset; `sent(end)` is called when they are written."""

    channel: int
    start: int
    data: bytes
    sent: Callable[[int], None]


Entry = str | bytes | Output  # an event, a frame, or output


class Outgoing:
    """Frames for a tab, in order.

    What waits is bounded: output by credit for its channels, events by their size.
    """

    def __init__(self, socket: Socket) -> None:
        self.channels = 0  # that share the space for output
        self._socket = socket
        self._waiting: deque[Entry] = deque()
        self._sequence = 0
        self._bytes = 0  # that wait, and those of events among them
        self._event_bytes = 0
        self._is_missing = False

    @property
    def share(self) -> int:
        """Bytes of output that may wait for one channel."""
        return max(LEAST_SHARE, OUTPUT_WAITING // max(2, self.channels))

    @property
    def has_room(self) -> bool:
        """False when the tab has not read enough of what its operations led to."""
        return self._bytes < MOST_WAITING

    def output(self, channel: int, start: int, data: bytes, sent: Callable[[int], None]) -> None:
        """Sends output; pieces that wait and follow each other become one frame."""
        if self._waiting or len(data) > frames.PAYLOAD or not self._socket.is_writable:
            self._add(Output(channel, start, data, sent))
        else:
            self._socket.write(frames.pack(frames.OUTPUT, channel, start, data))
            sent(start + len(data))

    def frame(self, type: int, channel: int, offset: int, payload: bytes = b"") -> None:
        """Sends a binary frame."""
        self._add(frames.pack(type, channel, offset, payload))

    def event(self, event: str, **fields: object) -> None:
        """Sends a text event of this tab's own."""
        fields = {"event": event, "seq": self._sequence, **fields}
        self._sequence += 1
        self._add(msgspec.json.encode(fields).decode())

    def publish(self, event: Event) -> None:
        """Sends an event for all tabs. A tab that does not read gets `missed` instead of many."""
        if self._event_bytes < EVENTS:
            self._is_missing = False
            self.event(**event)
        elif not self._is_missing:
            self._is_missing = True
            self.event("missed")

    def flush(self) -> None:
        """Writes what waits, as far as the tab reads it."""
        while self._waiting and self._socket.is_writable:
            self._write(self._take())
        if self.has_room:
            self._socket.resume_reading()

    def _add(self, entry: Entry) -> None:
        if not self._waiting and self._socket.is_writable:  # nearly always
            self._write(entry)
            return
        self._waiting.append(entry)
        self._count(entry, 1)
        if not self.has_room:
            self._socket.pause_reading()

    def _take(self) -> Entry:
        entry = self._waiting.popleft()
        self._count(entry, -1)
        return entry

    def _count(self, entry: Entry, sign: int) -> None:
        size = sign * (ENTRY + len(entry.data if isinstance(entry, Output) else entry))
        self._bytes += size
        if isinstance(entry, str):
            self._event_bytes += size

    def _write(self, entry: Entry) -> None:
        if not isinstance(entry, Output):
            self._socket.write(entry)
            return
        channel, start, data, sent = entry
        if self._waiting:
            data = self._joined(entry)
        for at in range(0, len(data), frames.PAYLOAD):
            payload = data[at : at + frames.PAYLOAD]
            self._socket.write(frames.pack(frames.OUTPUT, channel, start + at, payload))
        sent(start + len(data))

    def _joined(self, entry: Output) -> bytes:
        """The bytes of an output and of those right behind it, if they fit one frame."""
        pieces, size = [entry.data], len(entry.data)
        while self._waiting:
            following = self._waiting[0]
            if not isinstance(following, Output) or following[:2] != (
                entry.channel,
                entry.start + size,
            ):
                break
            if size + len(following.data) > frames.PAYLOAD:
                break
            pieces.append(following.data)
            size += len(following.data)
            self._take()
        return b"".join(pieces)
