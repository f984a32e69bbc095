"""Binary frames of a tab: u8 type, u32 channel, u64 offset (big endian), and a payload of at most
64 KiB.
"""

import struct
from typing import NamedTuple

OUTPUT, INPUT, ACK, RESIZE, REPLAY_BEGIN, REPLAY_END, GAP, INPUT_ACK = range(1, 9)
PAYLOAD = 1 << 16  # bytes
MOST_CHANNEL = (1 << 32) - 1

_HEAD = struct.Struct(">BIQ")
_SIZE = struct.Struct(">HH")
LONGEST = _HEAD.size + PAYLOAD


class Malformed(Exception):
    """The client broke the protocol; the connection is closed."""


class Frame(NamedTuple):
    """One binary frame."""

    type: int
    channel: int
    offset: int
    payload: bytes = b""


def pack(type: int, channel: int, offset: int, payload: bytes = b"") -> bytes:
    """A frame as bytes."""
    return _HEAD.pack(type, channel, offset) + payload


def unpack(data: bytes) -> tuple[int, int, int, bytes]:
    """The frame of a client: the fields of a Frame. Raises Malformed."""
    if not _HEAD.size <= len(data) <= LONGEST:
        raise Malformed(f"a binary frame has {_HEAD.size} to {LONGEST} bytes, not {len(data)}")
    type, channel, offset = _HEAD.unpack_from(data)
    if type not in (INPUT, ACK, RESIZE):
        raise Malformed(f"a client sends no frame of type {type}")
    return type, channel, offset, data[_HEAD.size :]


def unpack_size(payload: bytes) -> tuple[int, int]:
    """Rows and columns of a resize frame. Raises Malformed."""
    if len(payload) != _SIZE.size:
        raise Malformed("a resize frame holds two 16-bit numbers")
    rows, cols = _SIZE.unpack(payload)
    return rows, cols
