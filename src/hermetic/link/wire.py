"""Frames on the host's side: packed at once, read from arbitrary pieces, validated."""

from collections.abc import Mapping
from io import BytesIO
from typing import NamedTuple

import msgspec

from hermetic.contract.errors import InvalidArgument
from hermetic.resident.wire.frames import (
    ERROR,
    EVENT,
    FIRST_FRAME,
    FRAME_BODY,
    FRAME_HEADER,
    MAX_FRAME,
    PREFIX,
    REPLY,
    REQUEST,
    FrameError,
)

__all__ = [
    "ERROR",
    "EVENT",
    "MALFORMED",
    "REPLY",
    "REQUEST",
    "Frame",
    "FrameError",
    "FrameReader",
    "pack_frame",
]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[int, int, msgspec.Raw]).decode

# What msgspec raises for unexpected bytes.
MALFORMED = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, OverflowError)


class Frame(NamedTuple):
    """One received frame; `fields` is still packed, for the receiver to decode."""

    kind: int
    id: int
    fields: msgspec.Raw
    body: bytes


def pack_frame(kind: int, number: int, fields: Mapping[str, object], body: bytes = b"") -> bytes:
    """One frame as bytes. Raises InvalidArgument for fields that do not fit."""
    try:
        header = _encode((kind, number, fields))
    except UnicodeEncodeError as error:
        raise InvalidArgument(
            f"cannot be sent: {error}; give text that is valid Unicode", argument=""
        ) from None
    except OverflowError:
        raise InvalidArgument(
            "cannot be sent: a number has more than 64 bits; give a smaller one", argument=""
        ) from None
    size = len(header)
    if size > FRAME_HEADER or len(body) > FRAME_BODY or 2 + size + len(body) > MAX_FRAME:
        raise InvalidArgument(
            f"options of {size} bytes and content of {len(body)} do not fit a frame ({FRAME_HEADER} and {FRAME_BODY}); "
            "pass large variables through a file or through stdin",
            argument="env" if size > FRAME_HEADER else "",
        )
    return b"".join((PREFIX.pack(2 + size + len(body), size), header, body))


class FrameReader:
    """Splits a stream into frames; buffers at most one incomplete frame."""

    def __init__(self) -> None:
        self._most = FIRST_FRAME
        self._held = b""  # an incomplete prefix or header
        self._header = b""  # of the frame whose body is incomplete
        self._body = BytesIO()  # hands out its bytes without a copy
        self._missing = 0  # bytes of that body

    def greeted(self) -> None:
        """Allows long frames from now on."""
        self._most = MAX_FRAME

    @property
    def is_inside(self) -> bool:
        """True while a frame is incomplete."""
        return bool(self._held or self._missing)

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that are complete now.

        Raises FrameError, after which the stream is unusable.
        """
        if self._missing:
            return self._feed_body(data)
        data = self._held + data
        frames: list[Frame] = []
        at, size = 0, len(data)
        while size - at >= 6:
            length, header_length = PREFIX.unpack_from(data, at)
            if not 2 + header_length <= length <= self._most:
                raise FrameError(f"a frame of {length} bytes with a header of {header_length}")
            split, end = at + 6 + header_length, at + 4 + length
            if end > size:
                if split <= size:
                    self._header, self._missing = data[at + 6 : split], end - size
                    self._body = BytesIO(bytes(end - split))
                    self._body.write(memoryview(data)[split:])
                    at = size
                break
            frames.append(_frame(data[at + 6 : split], data[split:end]))
            at = end
        self._held = data[at:]
        return frames

    def _feed_body(self, data: bytes) -> list[Frame]:
        rest = data[self._missing :]
        self._missing -= self._body.write(data[: self._missing])
        if self._missing:
            return []
        frame = _frame(self._header, self._body.getvalue())
        self._body = BytesIO()
        return [frame, *self.feed(rest)] if rest else [frame]


def _frame(header: bytes, body: bytes) -> Frame:
    try:
        kind, number, fields = _decode(header)
    except MALFORMED as error:
        raise FrameError(f"a header that is not [kind, id, fields]: {error}") from None
    return Frame(kind, number, fields, body)
