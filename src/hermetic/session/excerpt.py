"""The part of a command's output that its result holds: a head and a tail, whole characters on both sides."""

import contextlib
from typing import NamedTuple

from hermetic.contract.errors import EnvironmentUnavailable, UnknownProcess
from hermetic.link.link import Link
from hermetic.session.reading import read_log

HEAD_PART = 0.4


class Excerpt(NamedTuple):
    """Bytes of an output, and the range [start, end) of it that is left out."""

    data: bytes
    omitted: tuple[int, int] | None


async def gather(link: Link, log: str, out: tuple[int, int, int], body: bytes, limit: int) -> Excerpt:
    """At most `limit` bytes of the output: what came with the answer, the rest read from the log."""
    total, head, tail = out
    if head + tail != len(body) or head + tail > total:
        raise link.distrust(f"an excerpt of {head} and {tail} bytes in {len(body)}, of {total}")
    if len(body) == total <= limit:
        return Excerpt(body, None)
    came_from = total - tail
    head_end = came_from if total <= limit else int(limit * HEAD_PART)
    first = body[: min(head, head_end)]
    if head < head_end:
        first += await _read_range(link, log, head, head_end)
    # Where less of the start was kept than wanted, the end has the room.
    tail_start = came_from if total <= limit else total - (limit - len(first))
    last = body[head + max(0, tail_start - came_from) :]
    if tail_start < came_from:
        last = await _read_range(link, log, tail_start, came_from, is_tail=True) + last
    return cut_to_characters(first, last, total)


def cut_to_characters(first: bytes, last: bytes, total: int) -> Excerpt:
    """Head and tail joined, each cut back so that no character is divided by the gap."""
    if len(first) + len(last) >= total:
        return Excerpt(first + last, None)
    first, last = first[: _whole_end(first)], last[_whole_start(last) :]
    return Excerpt(first + last, (len(first), total - len(last)))


async def _read_range(link: Link, log: str, start: int, end: int, *, is_tail: bool = False) -> bytes:
    """The bytes from `start` on, up to `end` or to the first that is missing; of a tail those behind the last hole."""
    pieces: list[bytes] = []
    at = start
    # The command has ended, and its ending is known: a shorter excerpt says so itself.
    with contextlib.suppress(EnvironmentUnavailable, UnknownProcess):
        while at < end:
            chunk = await read_log(link, log, at, end - at, None)
            if chunk.start != at:
                if not is_tail:
                    break
                pieces.clear()
            if not chunk.data:
                break
            pieces.append(chunk.data)
            at = chunk.end
    return b"" if is_tail and at < end else b"".join(pieces)[: end - start]


def _whole_end(data: bytes) -> int:
    """Where the last whole character ends; bytes that are no UTF-8 count as whole."""
    for back in range(1, min(4, len(data) + 1)):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        width = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return len(data) - back if width > back else len(data)
    return len(data)


def _whole_start(data: bytes) -> int:
    """Where the first whole character starts."""
    start = 0
    while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    return start
