"""A process's output as a model reads it: what is new, or some of its lines."""

import codecs
from collections import deque
from typing import NamedTuple

from hermetic.session.process import Process
from hermetic.tools.base.notices import MARGIN
from hermetic.tools.base.show import Show

MOST_LINE = 2000  # characters of one line


class News(NamedTuple):
    """Output from a cursor on."""

    text: str
    cursor: int  # where to go on
    dropped: int  # bytes before it that fell out of the log


async def news(process: Process, cursor: int, most: int, show: Show) -> News:
    """What came since `cursor`, at most so many bytes, as a model may see it.

    A character or a known secret that has not come whole waits for the next time.
    """
    start = max(0, cursor - MARGIN)
    chunk = await process.read(start, limit=cursor - start + most)
    begin = max(0, cursor - chunk.start)
    before, data = chunk.data[:begin].decode("utf-8", "replace"), chunk.data[begin:]
    if not chunk.ended:
        data = _whole(before, data, show)
    text = show.join(before, data.decode("utf-8", "replace"))
    at = chunk.start + begin
    return News(show(text, process.info.command), at + len(data), at - cursor)


def _whole(before: str, data: bytes, show: Show) -> bytes:
    """As much of it as ends neither within a character nor within a secret, which may have begun before it."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(data)
    data = data[: len(data) - len(decoder.getstate()[0])]
    unfinished = text[max(0, len(text) - show.unfinished(before + text)) :]
    return data[: len(data) - len(unfinished.encode("utf-8", "surrogatepass"))]


class Lines(NamedTuple):
    """Some lines of the output."""

    text: str
    first: int  # its number, from 1
    shown: int
    total: int
    dropped: int  # bytes that fell out of the log's cap: the numbers count what is left
    is_open: bool  # the last line there is has not ended


async def lines(process: Process, offset: int, limit: int, most: int) -> Lines:
    """The last `limit` lines, or those from line `offset` on, of about `most` characters.

    It is the output up to now: what is printed meanwhile is for the next time. It is never held as a whole.
    """
    page = _Page(offset, min(limit, most), most)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    at, dropped, total, line = 0, 0, process.info.out, _Line()
    while at < total:
        chunk = await process.read(at)
        if not chunk.data:
            break
        dropped += chunk.start - at
        data = chunk.data[: max(0, total - chunk.start)]
        at = chunk.start + len(chunk.data)
        if skipped := page.skip(data):
            data, line = data[skipped:], _Line()
            decoder.reset()
        *whole, rest = decoder.decode(data, final=at >= total).split("\n")
        for text in whole:
            line.add(text)
            page.add(line.text)
            line = _Line()
        line.add(rest)
    if line.length:
        page.add(line.text)
    return Lines("\n".join(page.kept), page.first, len(page.kept), page.total, dropped, line.length > 0)


class _Line:
    """One line as it comes, of which no more than is shown is held."""

    def __init__(self) -> None:
        self._start = ""
        self.length = 0

    def add(self, text: str) -> None:
        self._start += text[: MOST_LINE - len(self._start)]
        self.length += len(text)

    @property
    def text(self) -> str:
        more = self.length - len(self._start)
        return f"{self._start} [{more:,} more characters]" if more else self._start


class _Page:
    """The lines that were asked for, of all that go by."""

    def __init__(self, offset: int, limit: int, most: int) -> None:
        self.kept: deque[str] = deque()
        self.total = 0
        self._offset, self._limit, self._most = offset, limit, most
        self._size = 0  # characters kept
        self._is_full = False

    @property
    def first(self) -> int:
        """The number of the first line that is kept."""
        return self._offset or self.total - len(self.kept) + 1

    def skip(self, data: bytes) -> int:
        """How many bytes of what comes next are whole lines that are not on the page; they are counted."""
        count = data.count(b"\n")
        lines = min(count, self._passing(count))
        if lines <= 0:
            return 0
        if not self._offset:  # as many as are shown come behind these
            self.kept.clear()
            self._size = 0
        self.total += lines
        return data.rsplit(b"\n", count - lines)[0].rfind(b"\n") + 1

    def _passing(self, count: int) -> int:
        """Of so many lines that come next, how many go by unseen."""
        if not self._offset:
            return count - self._limit
        if self._is_full or self.total >= self._offset + self._limit - 1:
            return count
        return self._offset - 1 - self.total

    def add(self, line: str) -> None:
        self.total += 1
        if self._offset and not self._offset <= self.total < self._offset + self._limit:
            return
        if self._offset and (self._is_full or (self.kept and self._size + len(line) > self._most)):
            self._is_full = True
            return
        self.kept.append(line)
        self._size += len(line) + 1
        while len(self.kept) > 1 and (len(self.kept) > self._limit or self._size > self._most):
            self._size -= len(self.kept.popleft()) + 1
