"""The resident's codec against the host's: the same values, the same bytes, and FrameError for
anything else.
"""

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermetic.resident.wire.frames import (
    FIRST_FRAME,
    MAX_FRAME,
    REPLY,
    FrameError,
    FrameReader,
    pack,
    pack_frame,
    unpack,
)

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=300)
    | st.binary(max_size=300)
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=40), inner, max_size=20)
    ),
    max_leaves=40,
)


@given(value=values)
def test_what_the_resident_packs_the_host_reads_and_the_other_way_round(value: object) -> None:
    try:
        packed = pack(value)
        assert msgspec.msgpack.decode(packed) == value
        assert unpack(msgspec.msgpack.encode(value)) == value
    except FrameError as error:
        if "deep" not in str(error):
            raise


@given(data=st.binary(max_size=200))
def test_any_bytes_are_a_value_or_a_frame_error(data: bytes) -> None:
    try:
        value = unpack(data)
    except FrameError:
        return
    assert value is not data


@given(
    bodies=st.lists(st.binary(max_size=2000), max_size=8),
    cuts=st.lists(st.integers(1, 700), min_size=1, max_size=30),
)
def test_frames_come_out_whole_however_the_stream_is_cut(
    bodies: list[bytes], cuts: list[int]
) -> None:
    stream = b"".join(
        pack_frame(REPLY, number, {"n": number}, body) for number, body in enumerate(bodies)
    )
    reader, found, at, turn = FrameReader(MAX_FRAME), [], 0, 0
    while at < len(stream):
        size = cuts[turn % len(cuts)]
        found += list(reader.feed(stream[at : at + size]))
        at, turn = at + size, turn + 1
    assert found == [(REPLY, number, {"n": number}, body) for number, body in enumerate(bodies)]


def test_lengths_are_checked_before_memory_is_taken() -> None:
    for prefix in (
        b"\xff\xff\xff\xff\x00\x01",
        b"\x00\x00\x00\x05\x00\x09",
        (FIRST_FRAME + 1).to_bytes(4, "big") + b"\0\0",
    ):
        with pytest.raises(FrameError):
            list(FrameReader().feed(prefix))


def test_a_header_that_claims_more_items_than_bytes_is_refused() -> None:
    for data in (
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\x7f\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\xdb\xff\xff\xff\xff",
        b"\x91" * 40,
    ):
        with pytest.raises(FrameError):
            unpack(data)


def test_a_path_that_is_no_text_is_sent_readable() -> None:
    assert unpack(pack({"cwd": "/tmp/\udcff"})) == {"cwd": "/tmp/\\udcff"}


def test_infinity_and_nan_travel_as_they_are() -> None:
    assert unpack(pack(math.inf)) == math.inf
    assert math.isnan(unpack(pack(math.nan)))


def test_a_frame_whose_taker_failed_is_not_given_out_again() -> None:
    reader = FrameReader()

    def take_and_fail() -> None:
        for _ in reader.feed(pack_frame(REPLY, 1, {})):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        take_and_fail()
    assert [number for _, number, _, _ in reader.feed(pack_frame(REPLY, 2, {}))] == [2]
