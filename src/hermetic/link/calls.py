"""Open requests: their content, their repetition after a reconnect, and the receiver of their
answers.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from hermetic.contract.errors import InputClosed
from hermetic.contract.limits import FOLLOW_CREDIT
from hermetic.link import answers
from hermetic.link.wire import pack_frame
from hermetic.resident.wire.frames import CREDIT, EVENT, PREFIX, REQUEST, FrameError, LogPieces

R = TypeVar("R")


class Interruption(asyncio.Event):
    """An event with callbacks: a call that waits for something else needs no task to notice it."""

    def __init__(self) -> None:
        super().__init__()
        self.callbacks: set[Callable[[], object]] = set()  # each is removed, then called once

    def set(self) -> None:
        """Wakes all waiters, and runs the callbacks."""
        super().set()
        callbacks, self.callbacks = self.callbacks, set()
        for callback in callbacks:
            callback()


class Call(Generic[R]):
    """A request with one answer. `repeats`: the request is idempotent."""

    __slots__ = ("body", "due", "fields", "future", "id", "is_cancelled", "repeats", "reply")

    def __init__(
        self,
        fields: dict[str, object],
        reply: "msgspec.msgpack.Decoder[R]",
        body: bytes = b"",
        *,
        repeats: bool = True,
    ) -> None:
        self.id = 0
        self.fields = fields
        self.body = body
        self.reply = reply
        self.repeats = repeats
        self.is_cancelled = False
        self.due: float | None = None  # loop time after which the answer is overdue; None: never
        self.future: asyncio.Future[tuple[R, bytes]]

    def frame(self) -> bytes:
        """The request, to be sent or sent again."""
        return pack_frame(REQUEST, self.id, self.fields, self.body)

    def event(self, fields: msgspec.Raw, body: bytes) -> bytes | None:
        """Handles an event; the returned frame is sent.

        Raises FrameError for a request without events.
        """
        raise FrameError(f"an event for {self.fields['op']!r}, which has none")

    def interrupt(self, error: Exception) -> None:
        """The connection broke: what was sent as events may be lost."""

    @property
    def waits(self) -> float | None:
        """Longest duration of the request in seconds; None without a timeout."""
        fields: dict[str, Any] = self.fields
        if self.reply is answers.ran:
            return fields.get("timeout")
        if fields["op"] in ("wait", "claim"):
            return None
        return fields.get("wait") or fields.get("seconds") or fields.get("grace") or 0.0

    @property
    def has_clock(self) -> bool:
        """True where the resident ends it by itself: a command with a timeout, or a cancelled one."""
        return self.is_cancelled or self.reply is answers.ran

    @property
    def is_awaited(self) -> bool:
        """False when the caller no longer waits."""
        return not self.future.done()


class Following(Call[answers.FollowEnd]):
    """A live log; `take(start, data)` gets its bytes in order and must not raise.

    It holds: a program that prints faster than we take waits for us, so that nothing falls out of
    the log unseen.
    """

    __slots__ = ("_take", "position")

    def __init__(self, log: str, offset: int, take: Callable[[int, bytes], None]) -> None:
        super().__init__({"op": "follow", "log": log, "hold": True}, answers.follow_end)
        self.position = offset
        self._take = take

    @property
    def waits(self) -> None:
        """None: it lasts as long as the log."""
        return

    def frame(self) -> bytes:
        """The request, from the first byte that has not arrived."""
        fields = {**self.fields, "offset": self.position, "credit": FOLLOW_CREDIT}
        return pack_frame(REQUEST, self.id, fields)

    def event(self, fields: msgspec.Raw, body: bytes) -> bytes | None:
        """Passes the bytes on and returns the credit."""
        start = answers.log_piece.decode(fields).start
        if start < self.position:
            raise FrameError(f"output from byte {start} again, after byte {self.position}")
        self.position = start + len(body)
        self._take(start, body)
        return pack_frame(CREDIT, self.id, {"n": len(body)})


class Viewing(Following):
    """A live log up to an offset: bytes behind `until` arrive after `advance`.

    It does not hold the program. With `pace` the program does not outrun the fastest of its
    viewers.
    """

    __slots__ = ("_until", "header")

    def __init__(
        self, log: str, offset: int, take: Callable[[int, bytes], None], *, until: int, pace: bool
    ) -> None:
        super().__init__(log, offset, take)
        self.fields = {"op": "follow", "log": log, "pace": pace}
        self._until = until
        self.header = b""  # of its events, without the offset at the end

    def frame(self) -> bytes:
        """The request, from the first byte that has not arrived."""
        self.header = LogPieces(self.id).header
        fields = {**self.fields, "offset": self.position, "credit": self._until - self.position}
        return pack_frame(REQUEST, self.id, fields)

    def event(self, fields: msgspec.Raw, body: bytes) -> None:
        """Passes the bytes on."""
        self.piece(answers.log_piece.decode(fields).start, body)

    def piece(self, start: int, body: bytes) -> None:
        """Passes the bytes on. Raises FrameError for bytes that were not asked for."""
        if start < self.position or len(body) > self._until - self.position:
            raise FrameError(f"{len(body)} bytes from byte {start}, which were not asked for")
        self._until += start - self.position  # bytes that fell out of the log take no credit
        self.position = start + len(body)
        self._take(start, body)

    def advance(self, until: int) -> bytes | None:
        """The frame that gives credit for the bytes before `until`."""
        more = until - self._until
        if more <= 0:
            return None
        self._until = until
        return pack_frame(CREDIT, self.id, {"n": more})


class Views:
    """Open views by the header of their events: a piece of output that comes alone, as an echo
    does, needs no parser.
    """

    def __init__(self) -> None:
        self._calls: dict[bytes, Viewing] = {}

    def add(self, call: Viewing) -> None:
        """Adds a view that was sent, until its answer comes."""
        self._calls[call.header] = call
        call.future.add_done_callback(lambda _: self._calls.pop(call.header, None))

    def take(self, data: bytes) -> bool:
        """Passes on bytes that are one piece for a view; False for all others. Raises FrameError."""
        if not self._calls or len(data) < PREFIX.size:
            return False
        length, size = PREFIX.unpack_from(data)
        end = PREFIX.size + size
        call = self._calls.get(data[PREFIX.size : end - 8])
        if call is None or length != len(data) - 4 or end > len(data):
            return False
        call.piece(int.from_bytes(data[end - 8 : end], "big"), data[end:])
        return True


class Standing(Call[answers.Done]):
    """A request that stays open for events; `again()` is called when some may have been missed."""

    __slots__ = ("_again", "_sent")

    def __init__(self, fields: Mapping[str, object], again: Callable[[], None]) -> None:
        super().__init__(dict(fields), answers.done)
        self._again = again
        self._sent = False

    @property
    def waits(self) -> None:
        """None: it stays open."""
        return

    def frame(self) -> bytes:
        """The request. A second call means that the connection broke and events may be lost."""
        if self._sent:
            self._again()
        self._sent = True
        return super().frame()


class Bridging(Standing):
    """Messages of programs inside; `take(event, body)` gets each, `again()` is called when all have
    disconnected.
    """

    __slots__ = ("_take",)

    def __init__(
        self, token: str, take: Callable[[answers.Bridged, bytes], None], again: Callable[[], None]
    ) -> None:
        super().__init__({"op": "bridge", "token": token}, again)
        self._take = take

    def event(self, fields: msgspec.Raw, body: bytes) -> None:
        """Passes the event on."""
        self._take(answers.bridged.decode(fields), body)

    def message(self, channel: int, data: bytes) -> bytes:
        """The frame of a message to one of the programs."""
        return pack_frame(EVENT, self.id, {"channel": channel}, data)


class Listening(Standing):
    """Events; `take(fields)` gets each."""

    __slots__ = ("_take",)

    def __init__(
        self,
        fields: Mapping[str, object],
        take: Callable[[msgspec.Raw], None],
        again: Callable[[], None],
    ) -> None:
        super().__init__(fields, again)
        self._take = take

    def event(self, fields: msgspec.Raw, body: bytes) -> None:
        """Passes the event on."""
        self._take(fields)


class Driving(Call[answers.DriveEnd]):
    """A person's control over a process, for as long as it is open; `began` is set with the first
    event.

    Where the resident `types`, events that are sent are input; `typing` gets the outcome of each,
    in order.
    """

    __slots__ = ("_header", "_sent", "began", "types", "typing")

    def __init__(self, process: str, key: str, name: str) -> None:
        super().__init__(
            {"op": "drive", "process": process, "key": key, "name": name}, answers.drive_end
        )
        self.began: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.types = False
        self.typing: deque[Callable[[Exception | None], None]] = deque()
        self._sent = False

    @property
    def waits(self) -> None:
        """None: it stays open."""
        return

    def frame(self) -> bytes:
        """The request. After a reconnect it takes nothing from another person."""
        again = {"again": True} if self._sent else {}
        self._sent, self._header = True, msgspec.msgpack.encode((EVENT, self.id, {}))
        return pack_frame(REQUEST, self.id, {**self.fields, **again})

    def input(self, data: bytes) -> bytes:
        """The frame that types data, which fits one."""
        header = self._header
        return PREFIX.pack(2 + len(header) + len(data), len(header)) + header + data

    def event(self, fields: msgspec.Raw, body: bytes) -> None:
        """The person drives now, or input was taken or refused."""
        said = answers.drive_event.decode(fields)
        if said.typed > len(self.typing):
            raise FrameError(f"{said.typed} inputs were taken, of {len(self.typing)}")
        for _ in range(said.typed):
            self.typing.popleft()(None)
        if said.closed:
            self.interrupt(
                InputClosed(
                    "the process takes no more input", process_id=str(self.fields["process"])
                )
            )
        if not self.began.done():
            self.types = said.types
            self.began.set_result(None)

    def interrupt(self, error: Exception) -> None:
        """Reports that input was not taken, or that this is not known."""
        typing, self.typing = self.typing, deque()
        for done in typing:
            done(error)
