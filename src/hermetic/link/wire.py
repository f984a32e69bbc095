"""Frames on the host's side: packed at once, read from arbitrary pieces, validated."""

from collections.abc import Mapping
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
        self._held = bytearray()

    def greeted(self) -> None:
        """Allows long frames from now on."""
        self._most = MAX_FRAME

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that are complete now.

        Raises FrameError, after which the stream is unusable.
        """
        held = self._held
        if not held and len(data) >= 6:
            length, header_length = PREFIX.unpack_from(data)
            # nearly always: just one frame
            if length == len(data) - 4 and 2 + header_length <= length <= self._most:
                return [_frame(data[6 : 6 + header_length], data[6 + header_length :])]
        if not held:
            frames, used = self._cut(data)
            held += memoryview(data)[used:]
            return frames
        held += data
        frames, used = self._cut(held)
        if used:
            del held[:used]
        return frames

    def _cut(self, data: bytes | bytearray) -> tuple[list[Frame], int]:
        """Whole frames at the start of `data`, and how many bytes they take."""
        frames: list[Frame] = []
        at, size = 0, len(data)
        with memoryview(data) as view:
            while size - at >= 6:
                length, header_length = PREFIX.unpack_from(view, at)
                if not 2 + header_length <= length <= self._most:
                    raise FrameError(f"a frame of {length} bytes with a header of {header_length}")
                end = at + 4 + length
                if end > size:
                    break
                split = at + 6 + header_length
                frames.append(_frame(bytes(view[at + 6 : split]), bytes(view[split:end])))
                at = end
        return frames, at


def _frame(header: bytes, body: bytes) -> Frame:
    try:
        kind, number, fields = _decode(header)
    except MALFORMED as error:
        raise FrameError(f"a header that is not [kind, id, fields]: {error}") from None
    return Frame(kind, number, fields, body)
