"""Reading output logs: by offset, in as many requests as it takes, or as they grow."""

import asyncio
from collections.abc import Callable

from hermetic.contract.endings import Ending
from hermetic.contract.limits import FRAME_BODY, READ
from hermetic.contract.process import Chunk
from hermetic.link import answers
from hermetic.link.calls import Following
from hermetic.link.link import Link
from hermetic.session.arguments import check_callback, check_count, check_duration

LONG_WAIT = 3600.0  # seconds; one request's worth of waiting for output, asked anew as long as the caller waits


async def read_log(link: Link, log: str, offset: int, limit: int | None, wait: float | None) -> Chunk:
    """Output from `offset` on, at most `limit` bytes; with `wait` it waits that long for the first one."""
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
    return Chunk(data=b"".join(pieces) if len(pieces) > 1 else pieces[0], start=chunk.start, end=end, ended=ended)


async def _read_once(link: Link, log: str, offset: int, limit: int, wait: float | None) -> tuple[Chunk, bool]:
    """One request's worth, and whether there was more at that moment."""
    said, data = await link.ask("read", answers.read_from_log, log=log, offset=offset, limit=limit, wait=wait)
    if said.end - said.start != len(data) or len(data) > limit or said.end > said.total:
        raise link.distrust(f"{len(data)} bytes as [{said.start}, {said.end}) of {said.total}")
    return Chunk(data=data, start=said.start, end=said.end, ended=said.ended), bool(data) and said.end < said.total


async def follow_log(link: Link, log: str, offset: int, on_output: Callable[[bytes], object]) -> Ending:
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
