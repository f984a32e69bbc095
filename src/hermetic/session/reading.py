"""Reading output logs: by offset, in as many requests as it takes."""

from hermetic.contract.limits import FRAME_BODY, READ
from hermetic.contract.process import Chunk
from hermetic.link import answers
from hermetic.link.link import Link
from hermetic.session.arguments import check_count, check_duration


async def read_log(link: Link, log: str, offset: int, limit: int | None, wait: float | None) -> Chunk:
    """Output from `offset` on, at most `limit` bytes; with `wait` it waits that long for the first one."""
    check_count(offset, "offset")
    wanted = READ.value if limit is None else check_count(limit, "limit", least=1)
    if wait is not None:
        check_duration(wait, "wait")
    chunk, more = await _read_once(link, log, offset, min(wanted, FRAME_BODY.value), wait)
    pieces = [chunk.data]
    end, ended = chunk.end, chunk.ended
    while more and (left := wanted - (end - chunk.start)) > 0:
        following, more = await _read_once(link, log, end, min(left, FRAME_BODY.value), None)
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
