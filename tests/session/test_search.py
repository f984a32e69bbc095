"""Searching output that is still coming."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as some

from hermetic.contract.errors import InvalidArgument
from hermetic.session.search import Search, compile_search


@given(some.binary(max_size=50), some.lists(some.integers(0, 60), max_size=6))
def test_a_text_is_found_across_any_border(before: bytes, cuts: list[int]) -> None:
    before = before.replace(b"r", b"")
    data = before + b"ready on 80" + b"rest"
    search = Search(compile_search("ready on", pattern=False), 0)
    edges = sorted({0, len(data), *(cut % len(data) for cut in cuts)})
    found = None
    for start, end in itertools.pairwise(edges):
        found = found or search.feed(start, data[start:end])
    assert found == (len(before), len(before) + 8)


def test_nothing_matches_across_a_hole() -> None:
    search = Search(compile_search("abcd", pattern=False), 0)
    assert search.feed(0, b"..ab") is None
    assert search.feed(100, b"cd..") is None
    assert search.feed(104, b"abcd") == (104, 108)


@pytest.mark.parametrize(("text", "pattern"), [("", False), ("(", True), ("\ud800", False)])
def test_what_cannot_be_searched_for_is_an_invalid_argument(text: str, pattern: bool) -> None:
    with pytest.raises(InvalidArgument):
        compile_search(text, pattern=pattern)
