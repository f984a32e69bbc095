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
        data = show.finished(data, before)
    text = show.join(before, data.decode("utf-8", "replace"))
    at = chunk.start + begin
    return News(show(text, process.info.command), at + len(data), at - cursor)


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

    It is the output up to now: what is printed meanwhile is for the next time. It is never held as
    a whole.
    """
    page = _Page(offset, min(limit, most), most)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    at, dropped, total = 0, 0, process.info.out
    while at < total:
        chunk = await process.read(at)
        if not chunk.data:
            break
        dropped += chunk.start - at
        data = chunk.data[: max(0, total - chunk.start)]
        at = chunk.start + len(chunk.data)
        if skipped := page.skip(data):
            data = data[skipped:]
            decoder.reset()
        page.feed(decoder.decode(data, final=at >= total))
    if is_open := page.length > 0:
        page.end_line()
    return Lines("\n".join(page.kept), page.first, len(page.kept), page.total, dropped, is_open)


class _Page:
    """The lines of a page, of all that go by; of a long line only its start is held."""

    def __init__(self, offset: int, limit: int, most: int) -> None:
        self.kept: deque[str] = deque()
        self.total = 0
        self.length = 0  # characters of the line that has not ended
        self._line = ""  # how it starts
        self._offset, self._limit, self._most = offset, limit, most
        self._size = 0  # characters kept
        self._is_full = False

    @property
    def first(self) -> int:
        """The number of the first line that is kept."""
        return self._offset or self.total - len(self.kept) + 1

    def skip(self, data: bytes) -> int:
        """How many of the next bytes end lines that are not on the page; these lines are counted."""
        count = data.count(b"\n")
        lines = min(count, self._passing(count))
        if lines <= 0:
            return 0
        if not self._offset:  # as many as are shown come behind these
            self.kept.clear()
            self._size = 0
        self.total += lines
        self._line, self.length = "", 0
        return data.rsplit(b"\n", count - lines)[0].rfind(b"\n") + 1

    def _passing(self, count: int) -> int:
        """How many of so many next lines are not on the page."""
        if not self._offset:
            return count - self._limit
        if self._is_full or self.total >= self._offset + self._limit - 1:
            return count
        return self._offset - 1 - self.total

    def feed(self, text: str) -> None:
        """Takes the next text."""
        for number, part in enumerate(text.split("\n")):
            if number:
                self.end_line()
            self._line += part[: MOST_LINE - len(self._line)]
            self.length += len(part)

    def end_line(self) -> None:
        """Ends the line, and keeps it if it is on the page."""
        more = self.length - len(self._line)
        line = f"{self._line} [{more:,} more characters]" if more else self._line
        self._line, self.length = "", 0
        self.total += 1
        if self._offset:
            if not self._offset <= self.total < self._offset + self._limit or self._is_full:
                return
            self._is_full = bool(self.kept) and self._size + len(line) > self._most
            if self._is_full:
                return
        self.kept.append(line)
        self._size += len(line) + 1
        while len(self.kept) > 1 and (len(self.kept) > self._limit or self._size > self._most):
            self._size -= len(self.kept.popleft()) + 1
