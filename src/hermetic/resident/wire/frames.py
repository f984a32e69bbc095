"""Frame layout, shared by both ends, and a small MessagePack codec."""

from __future__ import annotations

import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Fields = dict[str, Any]  # values that MessagePack can carry, by name
    Frame = tuple[int, int, Fields, bytes]

VERSIONS = (1,)

# Limits that both ends share; this module is also shipped alone, so they are not in `limits`.
FRAME_BODY = 1 << 20  # bytes: most body in one frame; longer input and files go in pieces
FRAME_HEADER = 65535  # bytes: most header in one frame, whose length is a u16
FIRST_FRAME = 4096  # bytes: longest frame before the greeting has been answered
FRAME_DEPTH = 8  # levels: deepest nesting in a header
FRAME_ITEMS = 65536  # items: most items in one array or map of a frame

MAX_FRAME = FRAME_BODY + (1 << 16)

REQUEST, REPLY, ERROR, EVENT, CREDIT, CANCEL = 1, 2, 3, 4, 5, 6

PREFIX = struct.Struct(">IH")
# Longest body that is copied behind its header, so that both are sent at once.
_COPIED = 1 << 16
_FLOAT = struct.Struct(">Bd")
_OFFSET = struct.Struct(">Q")


class FrameError(Exception):
    """The bytes are not a frame of this protocol. The stream cannot be read any further."""


def frame_parts(kind: int, number: int, fields: Fields, body: bytes = b"") -> tuple[bytes, ...]:
    """One frame as bytes to send one after the other. A large body is a part of its own: no copy."""
    header = pack([kind, number, fields])
    if (
        len(header) > FRAME_HEADER
        or len(body) > FRAME_BODY
        or 2 + len(header) + len(body) > MAX_FRAME
    ):
        raise FrameError("frame too large: header %d, body %d bytes" % (len(header), len(body)))
    return _parts(header, body)


def _parts(header: bytes, body: bytes) -> tuple[bytes, ...]:
    start = PREFIX.pack(2 + len(header) + len(body), len(header))
    return (start + header, body) if len(body) > _COPIED else (b"".join((start, header, body)),)


def pack_frame(kind: int, number: int, fields: Fields, body: bytes = b"") -> bytes:
    """One frame as bytes."""
    return b"".join(frame_parts(kind, number, fields, body))


class LogPieces:
    """Packs events of one request that say where their body begins.

    Their headers differ in the last bytes alone.
    """

    def __init__(self, number: int) -> None:
        self.header = pack([EVENT, number, {"start": 1 << 63}])[: -_OFFSET.size]

    def parts(self, start: int, body: bytes) -> tuple[bytes, ...]:
        """One event, as `frame_parts` returns it. The body fits a frame."""
        header = self.header + _OFFSET.pack(start)
        if len(body) > _COPIED:
            return _parts(header, body)
        return (PREFIX.pack(2 + len(header) + len(body), len(header)) + header + body,)


class FrameReader:
    """Cuts a stream into frames `(kind, id, fields, body)`.

    Buffers at most one unfinished frame.
    """

    def __init__(self, most: int = FIRST_FRAME) -> None:
        self.most = most
        self.buffer = bytearray()
        # a header without fields, and what it says: keys that are typed have the same one
        self.plain: tuple[bytes, int, int] = (b"", 0, 0)

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Adds bytes and returns the complete frames.

        Raises FrameError, here or during iteration.
        """
        if not self.buffer and len(data) >= 6:
            length, header_length = PREFIX.unpack_from(data)
            # nearly always: exactly one frame
            if length == len(data) - 4 and 2 + header_length <= length <= self.most:
                return iter((self._frame(data[6 : 6 + header_length], data[6 + header_length :]),))
        return self._cut(data)

    def _cut(self, data: bytes) -> Iterator[Frame]:
        buffer = self.buffer
        buffer += data
        at = 0
        try:
            while len(buffer) - at >= 6:
                length, header_length = PREFIX.unpack_from(buffer, at)
                if length > self.most or length < 2 + header_length:
                    raise FrameError(
                        "frame of %d bytes with a header of %d" % (length, header_length)
                    )
                end = at + 4 + length
                if end > len(buffer):
                    break
                split = at + 6 + header_length
                frame = self._frame(bytes(buffer[at + 6 : split]), bytes(buffer[split:end]))
                at = end
                yield frame
        finally:  # also if the consumer fails: no frame is returned twice
            del buffer[:at]

    def _frame(self, packed: bytes, body: bytes) -> Frame:
        known, kind, number = self.plain
        if packed == known:
            return kind, number, {}, body
        header = unpack(packed)
        if type(header) is not list or [*map(type, header)] != [int, int, dict]:
            raise FrameError("header is not [kind, id, fields]")
        if not header[2]:
            self.plain = packed, header[0], header[1]
        return header[0], header[1], header[2], body


def pack(value: Any) -> bytes:
    """MessagePack form of nil, bool, int, float, str, bytes, and lists and dicts of these."""
    out = bytearray()
    _pack(value, out)
    return bytes(out)


class _Names(dict):  # type: ignore[type-arg]  # Python 3.8 knows no dict[str, bytes]
    """Cache of packed field names. It is bounded, because users' names appear too."""

    def __missing__(self, name: str) -> bytes:
        out = bytearray()
        _pack_text(name, out)
        if len(self) < 512 and len(name) < 24:
            self[name] = bytes(out)
        return bytes(out)


_NAMES = _Names()


def wire_text(text: str) -> str:
    """A text as the other side gets it: a path may hold bytes that are no text."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _pack_text(text: str, out: bytearray) -> None:
    data = text.encode("utf-8", "backslashreplace")  # a path may not be valid UTF-8
    if len(data) < 32:
        out.append(0xA0 | len(data))
    else:
        _pack_size(len(data), out, 0xA0, 31, 0xD9)
    out += data


def _pack(value: Any, out: bytearray) -> None:
    kind = type(value)
    if kind is str:
        _pack_text(value, out)
    elif kind is int:
        if 0 <= value < 128:
            out.append(value)
        else:
            _pack_int(value, out)
    elif value is None:
        out.append(0xC0)
    elif kind is bool:
        out.append(0xC3 if value else 0xC2)
    elif kind is dict:
        _pack_size(len(value), out, 0x80, 15, 0xDD)
        for key, item in value.items():
            out += _NAMES[key]
            if item is None:
                out.append(0xC0)
            else:
                _pack(item, out)
    elif kind is list or kind is tuple:
        _pack_size(len(value), out, 0x90, 15, 0xDB)
        for item in value:
            if type(item) is int and 0 <= item < 128:  # most are
                out.append(item)
            else:
                _pack(item, out)
    elif kind is float:
        out += _FLOAT.pack(0xCB, value)
    elif kind is bytes or kind is bytearray:
        _pack_size(len(value), out, 0, -1, 0xC4)
        out += value
    else:
        raise FrameError("cannot pack %r" % kind.__name__)


def _pack_size(size: int, out: bytearray, fixed: int, most: int, base: int) -> None:
    """`base` is the code of the 8-bit form.

    Arrays and maps have none; their 16-bit form is base + 1.
    """
    if size <= most:
        out.append(fixed | size)
    elif size < 256 and base not in (0xDB, 0xDD):
        out += bytes((base, size))
    elif size < 65536:
        out += struct.pack(">BH", base + 1, size)
    else:
        out += struct.pack(">BI", base + 2, size)


def _pack_int(value: int, out: bytearray) -> None:
    if -32 <= value < 0:
        out.append(value & 0xFF)
    elif 0 <= value < 1 << 64:
        out += struct.pack(">BQ", 0xCF, value)
    elif -(1 << 63) <= value < 0:
        out += b"\xd3" + struct.pack(">q", value)
    else:
        raise FrameError("integer out of range")


def unpack(data: bytes) -> Any:
    """The single value in `data`. Raises FrameError."""
    try:
        value, end = _unpack(data, 0, 0)
    except (IndexError, struct.error, UnicodeDecodeError, TypeError) as error:
        raise FrameError("malformed header: %s" % error) from error
    if end != len(data):
        raise FrameError("bytes behind the header's value")
    return value


_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
_SCALARS = {0xCA + at: struct.Struct(">" + layout) for at, layout in enumerate("fdBHIQbhiq")}
_SIZED = {
    first + at: (struct.Struct(">" + layout), kind)
    for first, kind, layouts in (
        (0xC4, "bin", "BHI"),
        (0xD9, "str", "BHI"),
        (0xDC, "array", "HI"),
        (0xDE, "map", "HI"),
    )
    for at, layout in enumerate(layouts)
}


def _unpack(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    if depth > FRAME_DEPTH:
        raise FrameError("nested too deep")
    code = data[at]
    at += 1
    if code < 0x80:
        return code, at
    if code >= 0xE0:
        return code - 256, at
    if code < 0x90:
        return _unpack_items("map", code & 15, data, at, depth)
    if code < 0xA0:
        return _unpack_items("array", code & 15, data, at, depth)
    if code < 0xC0:
        return _unpack_items("str", code & 31, data, at, depth)
    if code in _CONSTANTS:
        return _CONSTANTS[code], at
    if code in _SCALARS:
        layout = _SCALARS[code]
        return layout.unpack_from(data, at)[0], at + layout.size
    if code in _SIZED:
        layout, kind = _SIZED[code]
        return _unpack_items(kind, layout.unpack_from(data, at)[0], data, at + layout.size, depth)
    raise FrameError("code 0x%02x is not used here" % code)


def _unpack_items(kind: str, size: int, data: bytes, at: int, depth: int) -> tuple[Any, int]:
    if size > len(data) - at or (size > FRAME_ITEMS and kind in ("array", "map")):
        raise FrameError("%s of %d items in %d bytes" % (kind, size, len(data) - at))
    if kind == "str":
        return data[at : at + size].decode("utf-8"), at + size
    if kind == "bin":
        return data[at : at + size], at + size
    if kind == "array":
        items = []
        for _ in range(size):
            item, at = _unpack_short(data, at, depth)
            items.append(item)
        return items, at
    fields = {}
    for _ in range(size):
        end = at + 1 + (data[at] & 31)
        if 0xA0 <= data[at] < 0xC0 and end <= len(data):
            key, at = data[at + 1 : end].decode("utf-8"), end  # nearly always
        else:
            key, at = _unpack_short(data, at, depth)
        if type(key) is not str:
            raise FrameError("a key is not a string")
        fields[key], at = _unpack_short(data, at, depth)
    return fields, at


def _unpack_short(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    """An item of an array or map: short texts and small numbers, nearly all, take no further call."""
    code = data[at]
    if code < 0x80:
        return code, at + 1
    end = at + 1 + (code & 31)
    if 0xA0 <= code < 0xC0 and end <= len(data):
        return data[at + 1 : end].decode("utf-8"), end
    return _unpack(data, at, depth + 1)
