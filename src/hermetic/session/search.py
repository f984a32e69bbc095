"""Finding a text or pattern in output that is still coming, across the borders of pieces."""

import asyncio
import re
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from hermetic.contract.errors import ExecutionError, InvalidArgument
from hermetic.contract.limits import SEARCH_WINDOW
from hermetic.session import search_worker
from hermetic.session.arguments import encode_text
from hermetic.session.search_worker import ANSWER, NOTHING, ORDER, Window

# The next piece of a text, and whether it is a new text; where a match begins and ends, in bytes
# before the end.
Find = Callable[[bytes, bool], Awaitable[tuple[int, int] | None]]

# what lets a pattern match in more than one way, and then in very many
_CHOICES = frozenset(b"*+?{|")


def compile_search(text: str, *, pattern: bool) -> "re.Pattern[bytes]":
    """What to look for, as a pattern over bytes. Raises InvalidArgument."""
    encoded = encode_text(text, "text")
    if not encoded:
        raise InvalidArgument("there is nothing to wait for: the text is empty", argument="text")
    try:
        return re.compile(encoded if pattern else re.escape(encoded), re.MULTILINE)
    except re.error as error:
        raise InvalidArgument(
            f"{text!r} is no regular expression: {error}; mend it, or look for the text itself with pattern=False",
            argument="text",
        ) from None


@asynccontextmanager
async def finding(wanted: "re.Pattern[bytes]") -> AsyncIterator[Find]:
    """A way to look for it in the block; whatever the pattern, the event loop goes on."""
    if not _CHOICES.isdisjoint(re.sub(rb"\\.", b"", wanted.pattern, flags=re.DOTALL)):
        async with _elsewhere(wanted) as find:
            yield find
        return
    window = Window(wanted, SEARCH_WINDOW)

    async def find_here(data: bytes, is_new: bool) -> tuple[int, int] | None:
        return window.find(data, is_new)

    yield find_here


@asynccontextmanager
async def _elsewhere(wanted: "re.Pattern[bytes]") -> AsyncIterator[Find]:
    """The same in a process of its own, which ends with the block."""
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", search_worker.__file__, stdin=PIPE, stdout=PIPE, env={}
    )
    orders, answers = worker.stdin, worker.stdout
    assert orders is not None
    assert answers is not None
    lines = (wanted.pattern, str(SEARCH_WINDOW).encode())
    orders.writelines(line.hex().encode() + b"\n" for line in lines)

    async def find_there(data: bytes, is_new: bool) -> tuple[int, int] | None:
        try:
            orders.write(ORDER.pack(is_new, len(data)) + data)
            await orders.drain()
            found: tuple[int, int] = ANSWER.unpack(await answers.readexactly(ANSWER.size))
        except (OSError, asyncio.IncompleteReadError):
            raise ExecutionError(
                "the search was ended from outside; wait for the pattern again"
            ) from None
        return None if found == NOTHING else found

    try:
        yield find_there
    finally:
        if worker.returncode is None:
            worker.kill()
        orders.close()
        await worker.wait()


class Search:
    """Looks through a log piece by piece."""

    def __init__(self, find: Find, start: int) -> None:
        self.position = start  # up to where the log was looked through
        self._find = find

    async def feed(self, start: int, data: bytes) -> tuple[int, int] | None:
        """The offsets of the first match that ends in the log so far, or None."""
        is_new = start != self.position  # a hole in the log: nothing matches across it
        self.position = start + len(data)
        found = await self._find(data, is_new)
        return found and (self.position - found[0], self.position - found[1])
