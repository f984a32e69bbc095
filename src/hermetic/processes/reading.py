"""A process's output as a model reads it: the end of it, what is new, or some of its lines."""

import codecs
from collections import deque
from typing import NamedTuple

from hermetic.contract.process import Chunk
from hermetic.session.process import Process

MOST_LINE = 2000  # characters of one line


async def tail(process: Process, characters: int) -> str:
    """The last characters of the output so far."""
    total = process.info.out
    chunk = await process.read(max(0, total - 4 * characters), limit=4 * characters)
    return chunk.data.decode("utf-8", "replace")[-characters:]


class News(NamedTuple):
    """Output from a cursor on."""

    text: str
    cursor: int  # where to go on
    dropped: int  # bytes before it that fell out of the log


async def news(process: Process, cursor: int, most: int) -> News:
    """What came since `cursor`, at most so many bytes; a character that has not come whole waits for the next time."""
    chunk = await process.read(cursor, limit=most)
    whole = len(chunk.data) if chunk.ended else _whole(chunk)
    return News(chunk.data[:whole].decode("utf-8", "replace"), chunk.start + whole, chunk.start - cursor)


def _whole(chunk: Chunk) -> int:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(chunk.data)
    return len(chunk.data) - len(decoder.getstate()[0])


class Lines(NamedTuple):
    """Some lines of the output."""

    text: str
    first: int  # its number, from 1
    shown: int
    total: int
    dropped: int  # bytes that fell out of the log's cap: the numbers count what is left


async def lines(process: Process, offset: int, limit: int) -> Lines:
    """The last `limit` lines, or those from line `offset` on; the output itself is never held as a whole."""
    kept: deque[str] = deque(maxlen=limit) if offset == 0 else deque()
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    at, total, dropped, line = 0, 0, 0, ""
    while True:
        chunk = await process.read(at)
        dropped += chunk.start - at
        at = chunk.end
        *whole, line = (line + decoder.decode(chunk.data, final=not chunk.data)).split("\n")
        for text in whole if chunk.data or not line else [*whole, line]:
            total += 1
            if offset == 0 or offset <= total < offset + limit:
                kept.append(text[:MOST_LINE])
        line = line if len(line) < 4 * MOST_LINE else line[:MOST_LINE]
        if not chunk.data:
            break
    first = total - len(kept) + 1 if offset == 0 else offset
    return Lines("\n".join(kept), first, len(kept), total, dropped)
