"""Work beside that of an event loop."""

import asyncio
from collections.abc import Iterator

import pytest

from hermetic.contract.concurrency import in_thread


async def test_a_call_that_finds_no_next_item_fails_at_once() -> None:
    answers: Iterator[str] = iter(())
    async with asyncio.timeout(5):
        with pytest.raises(RuntimeError, match="StopIteration"):
            await in_thread(lambda: next(answers))
