"""Searching output that is still coming."""

import asyncio
import itertools
import os
import signal
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from hermetic.contract.errors import ExecutionError, InvalidArgument
from hermetic.session.search import Search, compile_search, finding


@given(some.binary(max_size=50), some.lists(some.integers(0, 60), max_size=6))
async def test_a_text_is_found_across_any_border(before: bytes, cuts: list[int]) -> None:
    before = before.replace(b"r", b"")
    data = before + b"ready on 80" + b"rest"
    edges = sorted({0, len(data), *(cut % len(data) for cut in cuts)})
    found = None
    async with finding(compile_search("ready on", pattern=False)) as find:
        search = Search(find, 0)
        for start, end in itertools.pairwise(edges):
            found = found or await search.feed(start, data[start:end])
    assert found == (len(before), len(before) + 8)


@pytest.mark.parametrize("pattern", ["abcd", "ab+cd", "abcd|xyz"])
async def test_nothing_matches_across_a_hole(pattern: str) -> None:
    async with finding(compile_search(pattern, pattern=True)) as find:
        search = Search(find, 0)
        assert await search.feed(0, b"..ab") is None
        assert await search.feed(100, b"cd..") is None
        assert await search.feed(104, b"ab") is None
        assert await search.feed(106, b"cd.") == (104, 108)


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*b", "a?" * 40 + "a" * 40 + "b", ".*.*.*=.*"])
async def test_a_pattern_that_takes_ages_holds_nobody_else_up(pattern: str) -> None:
    turns: list[float] = []

    async def others() -> None:
        while True:
            turns.append(time.monotonic())
            await asyncio.sleep(0.01)

    async with finding(compile_search(pattern, pattern=True)) as find:
        going_on = asyncio.ensure_future(others())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(find(b"a" * 100_000 + b"!", True), 0.5)
        going_on.cancel()
    assert len(turns) >= 5


async def test_a_search_that_is_ended_from_outside_is_an_error_and_no_end_of_the_process() -> None:
    async with finding(compile_search("a+b", pattern=True)) as find:
        assert await find(b"xaab.", True) == (4, 1)
        [worker] = workers()
        os.kill(worker, signal.SIGKILL)
        with pytest.raises(ExecutionError, match="again"):
            await find(b"aab", True)


def workers() -> list[int]:
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [
        int(pid)
        for pid in children
        if b"search_worker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]


@pytest.mark.parametrize(("text", "pattern"), [("", False), ("(", True), ("\ud800", False)])
def test_what_cannot_be_searched_for_is_an_invalid_argument(text: str, pattern: bool) -> None:
    with pytest.raises(InvalidArgument):
        compile_search(text, pattern=pattern)
