"""Output of commands: logs read by offset or followed as they grow, and the excerpt that a result
holds.
"""

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from hermetic.contract.endings import Ending
from hermetic.contract.errors import EnvironmentUnavailable, UnknownProcess
from hermetic.contract.limits import FRAME_BODY, READ
from hermetic.contract.process import Chunk
from hermetic.link import answers
from hermetic.link.calls import Call, Following
from hermetic.link.link import Link
from hermetic.session.arguments import check_callback, check_count, check_duration

# seconds; one request's worth of waiting for output, asked anew as long as the caller waits
LONG_WAIT = 3600.0
HEAD_PART = 0.4  # of an excerpt; the rest is its tail

# of stdout and stderr as they come
Takers = tuple[Callable[[bytes], object], Callable[[bytes], object]]


async def read_log(
    link: Link, log: str, offset: int, limit: int | None, wait: float | None
) -> Chunk:
    """Output from `offset` on, at most `limit` bytes; with `wait` it waits that long for the first
    one.
    """
    check_count(offset, "offset")
    wanted = READ if limit is None else check_count(limit, "limit", least=1)
    if wait is not None:
        check_duration(wait, "wait")
    chunk, more = await _read_once(link, log, offset, min(wanted, FRAME_BODY), wait)
    pieces = [chunk.data]
    end, ended = chunk.end, chunk.ended
    while more and (left := wanted - (end - chunk.start)) > 0:
        following, more = await _read_once(link, log, end, min(left, FRAME_BODY), None)
        if following.start != end:  # a hole: the next read tells of it
            break
        pieces.append(following.data)
        end, ended = following.end, following.ended
    return Chunk(
        data=b"".join(pieces) if len(pieces) > 1 else pieces[0],
        start=chunk.start,
        end=end,
        ended=ended,
    )


async def _read_once(
    link: Link, log: str, offset: int, limit: int, wait: float | None
) -> tuple[Chunk, bool]:
    """One request's worth, and whether there was more at that moment."""
    said, data = await link.ask(
        "read", answers.read_from_log, log=log, offset=offset, limit=limit, wait=wait
    )
    if said.end - said.start != len(data) or len(data) > limit or said.end > said.total:
        raise link.distrust(f"{len(data)} bytes as [{said.start}, {said.end}) of {said.total}")
    return Chunk(data=data, start=said.start, end=said.end, ended=said.ended), bool(
        data
    ) and said.end < said.total


async def offset_since(link: Link, log: str, age: float) -> int:
    """The offset at which the output of the last `age` seconds begins.

    Raises UnknownProcess, Unsupported.
    """
    return (await link.ask("since", answers.log_offset, log=log, age=check_duration(age, "age")))[
        0
    ].offset


async def follow_log(
    link: Link, log: str, offset: int, on_output: Callable[[bytes], object]
) -> Ending:
    """Hands every byte over as it comes; what `on_output` raises is raised here."""
    check_callback(on_output)
    failure: BaseException | None = None

    def take(_start: int, data: bytes) -> None:
        nonlocal failure
        if failure is None:
            try:
                on_output(data)
            except BaseException as error:  # the caller's own: it travels to the caller
                failure = error
                following.future.cancel()

    following = Following(log, offset, take)
    try:
        said, _ = await link.send(following)
        if said.ending is None:
            raise link.distrust("a log that has ended without an ending")
        return said.ending
    except asyncio.CancelledError:
        link.cancel(following)
        if failure is not None:
            raise failure from None
        raise


class LiveOutput:
    """Follows the logs of one open `run` from their first byte, each to its taker."""

    def __init__(self, link: Link, command: Call[answers.Ran], takers: Takers) -> None:
        self.error: BaseException | None = None  # what a taker raised; the command is cancelled
        self._link = link
        self._command = command
        self._moved = asyncio.Event()
        log, logs = str(command.fields["id"]), 2 if command.fields.get("separate") else 1
        self._followings = [
            Following(name, 0, partial(self._take, take))
            for name, take in zip((log, f"{log}/err")[:logs], takers, strict=False)
        ]
        for following in self._followings:
            link.send(following)

    async def drain(self, said: answers.Ran) -> None:
        """Returns when all output of the command has been handed over."""
        totals = [said.out[0]] if said.err is None else [said.out[0], said.err[0]]
        for following, total in zip(self._followings, totals, strict=True):
            self._link.expect(following)
            while following.position < total and not following.future.done():
                self._moved.clear()
                following.future.add_done_callback(self._wake)
                await self._moved.wait()

    def close(self) -> None:
        """Stops following."""
        for following in self._followings:
            if following.future.done():
                following.future.cancelled() or following.future.exception()
            else:
                following.future.cancel()
                self._link.cancel(following)

    def _take(self, take: Callable[[bytes], object], _start: int, data: bytes) -> None:
        self._moved.set()
        if self.error is not None:
            return
        try:
            take(data)
        except BaseException as error:  # the caller's own: it travels to the caller of `run`
            self.error = error
            self._link.cancel(self._command)

    def _wake(self, _future: object) -> None:
        self._moved.set()


class Excerpt(NamedTuple):
    """Bytes of an output, and the range [start, end) of it that is left out."""

    data: bytes
    omitted: tuple[int, int] | None


async def gather(
    link: Link, log: str, out: tuple[int, int, int], body: bytes, limit: int
) -> Excerpt:
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


async def _read_range(
    link: Link, log: str, start: int, end: int, *, is_tail: bool = False
) -> bytes:
    """The bytes from `start` on, up to `end` or to the first that is missing; of a tail those
    behind the last hole.
    """
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
