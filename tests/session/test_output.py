"""Head and tail of an output: whole characters, exact ranges."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from hermetic.session.output import cut_to_characters


@given(some.text(max_size=60), some.integers(0, 80), some.integers(0, 80))
def test_no_character_is_divided_by_the_gap(text: str, head: int, tail: int) -> None:
    data = text.encode("utf-8", "ignore")
    head = min(head, len(data))
    tail = min(tail, len(data) - head)
    excerpt = cut_to_characters(data[:head], data[len(data) - tail :], len(data))
    if excerpt.omitted is None:
        assert excerpt.data == data
        return
    start, end = excerpt.omitted
    assert excerpt.data == data[:start] + data[end:]
    assert head - 3 <= start <= head
    assert tail - 3 <= len(data) - end <= tail
    excerpt.data.decode()  # whole characters on both sides


@pytest.mark.parametrize("binary", [b"\xff" * 50, b"\x80" * 50, bytes(range(200, 250))])
def test_bytes_that_are_no_text_are_counted_exactly(binary: bytes) -> None:
    excerpt = cut_to_characters(binary[:20], binary[-20:], len(binary))
    assert excerpt.omitted is not None
    start, end = excerpt.omitted
    assert excerpt.data == binary[:start] + binary[end:]
    assert len(excerpt.data) >= 34
