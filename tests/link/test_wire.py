"""Frames at the host's end: whatever the pieces, whatever the bytes."""

import itertools
import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some

from hermetic.contract.errors import InvalidArgument
from hermetic.link.wire import Frame, FrameReader, pack_frame
from hermetic.resident.wire import frames
from hermetic.resident.wire.frames import FIRST_FRAME, FRAME_BODY, MAX_FRAME, PREFIX, FrameError

scalars = some.one_of(
    some.none(),
    some.booleans(),
    some.integers(-(2**63), 2**63 - 1),
    some.floats(allow_nan=False),
    some.text(),
    some.binary(),
)
values = some.recursive(
    scalars,
    lambda inner: some.lists(inner, max_size=4) | some.dictionaries(some.text(), inner, max_size=4),
    max_leaves=8,
)
fields = some.dictionaries(some.text(max_size=20), values, max_size=6)
numbers = some.integers(0, 2**62)
frame_parts = some.tuples(some.integers(1, 6), numbers, fields, some.binary(max_size=2000))


def greeted_reader() -> FrameReader:
    reader = FrameReader()
    reader.greeted()
    return reader


def opened(frame: Frame) -> tuple[int, int, object, bytes]:
    return frame.kind, frame.id, msgspec.msgpack.decode(frame.fields), frame.body


def in_pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[start:end] for start, end in itertools.pairwise(edges)]


@given(some.lists(frame_parts, max_size=5), some.lists(some.integers(0, 10**6), max_size=20))
def test_frames_come_back_whole_however_the_stream_is_cut(
    parts: list[tuple[int, int, dict[str, object], bytes]], cuts: list[int]
) -> None:
    stream = b"".join(pack_frame(*part) for part in parts)
    reader = greeted_reader()
    came = [frame for piece in in_pieces(stream, cuts) for frame in reader.feed(piece)]
    assert [opened(frame) for frame in came] == parts


@given(frame_parts)
def test_the_resident_packs_and_reads_the_same_frames(
    part: tuple[int, int, dict[str, object], bytes],
) -> None:
    kind, number, header, body = part
    ours, theirs = pack_frame(*part), frames.pack_frame(*part)
    assert [opened(frame) for frame in greeted_reader().feed(theirs)] == [part]
    reader = frames.FrameReader(MAX_FRAME)
    assert list(reader.feed(ours)) == [(kind, number, header, body)]


@given(some.binary(max_size=4000), some.lists(some.integers(0, 4000), max_size=5))
def test_any_bytes_give_frames_or_one_typed_error(data: bytes, cuts: list[int]) -> None:
    reader = greeted_reader()
    try:
        for piece in in_pieces(data, cuts):
            reader.feed(piece)
    except FrameError:
        pass


def test_a_frame_that_is_too_long_is_refused_before_it_has_come() -> None:
    with pytest.raises(FrameError):
        greeted_reader().feed(PREFIX.pack(MAX_FRAME + 1, 3))


def test_only_short_frames_are_welcome_before_the_greeting() -> None:
    long = pack_frame(2, 0, {}, b"x" * FIRST_FRAME)
    with pytest.raises(FrameError):
        FrameReader().feed(long)
    assert len(greeted_reader().feed(long)) == 1


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"\xc0",
        b"\x93\x01\x02",
        b"\x92\x01\x02",
        b"\x93\xc2\x01\x80",
        b"\x93\x01\xa1x\x80",
        b"\x93\x01\x02\x80\x00",
        b"\x93\x01\x02\xdd\xff\xff\xff\xff",
        b"\x93\x01\x02" + b"\x91" * 60000,
    ],
    ids=lambda header: header[:9].hex(),
)
def test_a_header_of_another_shape_is_refused(header: bytes) -> None:
    with pytest.raises(FrameError):
        greeted_reader().feed(PREFIX.pack(2 + len(header), len(header)) + header)


def test_a_long_frame_in_many_pieces_is_held_once() -> None:
    body = random.Random(1).randbytes(FRAME_BODY)
    stream = pack_frame(2, 7, {}, body)
    reader = greeted_reader()
    came: list[Frame] = []
    for at in range(0, len(stream), 4096):
        came += reader.feed(stream[at : at + 4096])
    assert [frame.body for frame in came] == [body]


@pytest.mark.parametrize(
    "header", [{"env": {"A": "x" * 70000}}, {"cwd": "\udcff"}, {"n": 2**70}], ids=str
)
def test_what_no_frame_can_carry_is_an_invalid_argument(header: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument):
        pack_frame(1, 1, header)
