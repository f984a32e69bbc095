"""Pages of a file by line numbers, with exact totals, for files of any size.

A scan counts the lines of each block once, and the counts of the last files are cached. After that a page needs only
the block in which it begins. A forked child scans large files.
"""

from __future__ import annotations

import os
import struct

from ..limits import FILE_SAMPLE, FILE_SCAN, PAGE, SCAN_BLOCK, SCAN_BLOCKS, SCANS
from ..wire import fields as take
from ..wire import frames
from ..wire.fields import Refusal
from . import changes
from .requests import refusing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..life.server import Request
    from ..wire.frames import Fields
    from .requests import FileRequests
    from .safe_path import SafePath

_WIDE = {b"\xff\xfe": ("utf-16-le", b"\n\0"), b"\xfe\xff": ("utf-16-be", b"\0\n")}


class LineIndex:
    """Line index of an open file."""

    def __init__(self, fd: int, size: int) -> None:
        self.fd = fd
        sample = self.sample = os.pread(fd, FILE_SAMPLE, 0)
        self.size = size or _measured(fd, sample)
        self.encoding, self.newline, self.start = "utf-8", b"\n", 0
        if sample[:2] in _WIDE and sample[:4] != b"\xff\xfe\0\0":
            self.encoding, self.newline = _WIDE[sample[:2]]
            self.start = 2
        elif sample[:3] == b"\xef\xbb\xbf":
            self.start = 3
        self.bom = sample[: self.start]
        self.head = sample[:64]
        self.is_binary = b"\0" in sample and len(self.newline) == 1
        blocks = -(-self.size // SCAN_BLOCKS)
        self.block = max(SCAN_BLOCK, -(-blocks // SCAN_BLOCK) * SCAN_BLOCK)
        self.counts = b""  # newlines before each block, and in total at the end: 8 bytes each
        self.total = 0  # lines

    def scan(self) -> None:
        """Counts the lines of each block."""
        counts, count, at, last = [], 0, self.start, b""
        while at < self.size:
            counts.append(count)
            data = self._read(self.block, at)
            if not data:  # the file was truncated meanwhile
                break
            count += self._count(data)
            at += len(data)
            last = data[-len(self.newline) :]
            if len(data) < self.block:
                break
        counts.append(count)
        self.counts = struct.pack("<%dQ" % len(counts), *counts)
        self.total = count + (at > self.start and last != self.newline)

    def _read(self, size: int, at: int) -> bytes:
        """Bytes of the file; from the sample if that holds the whole file."""
        if self.size <= len(self.sample):
            return self.sample[at : min(at + size, self.size)]
        return os.pread(self.fd, size, at)

    def _count(self, data: bytes) -> int:
        if len(self.newline) == 1:
            return data.count(self.newline)
        return sum(1 for _ in _aligned(data, self.newline))

    def _before(self, block: int) -> int:
        return int(struct.unpack_from("<Q", self.counts, 8 * block)[0])

    def offset(self, line: int) -> int:
        """Offset of a line, counted from 0; the end of the file for lines beyond it."""
        if line <= 0:
            return self.start
        low, high = 0, len(self.counts) // 8 - 1  # blocks; the newline before the line is in one of [low, high)
        if line > self._before(high):
            return self.size
        while high - low > 1:
            middle = (low + high) // 2
            if self._before(middle) < line:
                low = middle
            else:
                high = middle
        at = self.start + low * self.block
        return at + self._after(self._read(self.block, at), line - self._before(low))

    def _after(self, data: bytes, number: int) -> int:
        """Offset after the newline with this number."""
        if len(self.newline) == 1:
            return len(data) - len(data.split(self.newline, number)[-1])
        for count, at in enumerate(_aligned(data, self.newline), 1):
            if count == number:
                return at + 2
        return len(data)

    def page(self, first: int, most: int, width: int, budget: int) -> tuple[list[bytes], list[list[int]]]:
        """Lines from `first` on, each cut to `width` bytes; and `[line, full length]` of the cut ones."""
        lines: list[bytes] = []
        cut: list[list[int]] = []
        most = max(0, min(most, self.total - first))
        if self.size <= min(len(self.sample), width, budget):  # nothing is cut
            return self._split(self.sample[self.start : self.size])[first : first + most], cut
        start, stop = self.offset(first), self.offset(first + most)
        whole = self._read(stop - start, start) if stop - start <= PAGE else None
        if whole is not None:
            split = self._split(whole)
        for number in range(most):
            if whole is not None:
                if number >= len(split):
                    break
                text, length = split[number], len(split[number])
            else:
                text, length = self._line(first + number, width)
            if length > width:
                cut.append([number, length])
                text = text[:width]
            budget -= len(text) + 1
            if budget < 0 and lines:
                break
            lines.append(text)
        return lines, cut

    def _line(self, line: int, width: int) -> tuple[bytes, int]:
        start, stop = self.offset(line), self.offset(line + 1)
        if line + 1 < self.total or os.pread(self.fd, len(self.newline), stop - len(self.newline)) == self.newline:
            stop -= len(self.newline)
        return os.pread(self.fd, min(width, stop - start), start), stop - start

    def _split(self, data: bytes) -> list[bytes]:
        if len(self.newline) == 1:
            lines = data.split(self.newline)
        else:
            borders = [*_aligned(data, self.newline), len(data)]
            lines, at = [], 0
            for border in borders:
                lines.append(data[at:border])
                at = border + 2
        return lines[:-1] if not lines[-1] else lines


def _measured(fd: int, sample: bytes) -> int:
    """Size of a file that reports size 0: kernel files are generated when they are read."""
    size = len(sample)
    while size < FILE_SCAN and (data := os.pread(fd, FILE_SCAN - size, size) if size else b""):
        size += len(data)
    return size


def _aligned(data: bytes, newline: bytes) -> Iterator[int]:
    """Offsets of two-byte newlines."""
    at = data.find(newline)
    while at >= 0:
        if at % 2 == 0:
            yield at
        at = data.find(newline, at + 1)


class Pages:
    """Serves `read_lines`, and caches the scans of the last files."""

    def __init__(self, files: FileRequests) -> None:
        self.files = files
        self.kept: dict[tuple[int, int, str], tuple[str, bytes, int]] = {}  # file: signature, counts, lines

    def read_lines(self, request: Request) -> None:
        page = (
            take.number(request.fields, "first", 1, 1) - 1,
            take.number(request.fields, "lines", 500, 0, frames.FRAME_ITEMS),
            take.number(request.fields, "width", 8000, 2) // 2 * 2,
            take.number(request.fields, "budget", frames.FRAME_BODY, 1, frames.FRAME_BODY),
        )
        location = self.files.location(request)
        try:
            with refusing(location.path):
                fd = location.open()
                status = changes.describe(location, os.fstat(fd))
        except Refusal:
            location.close()
            raise
        if status["kind"] != "file":
            self._drop(fd, location)
            request.reply(status)
            return
        try:
            with refusing(location.path):
                index = LineIndex(fd, status["size"])
        except Refusal:
            self._drop(fd, location)
            raise
        known = self.kept.get(location.key)
        if known is not None and known[0] == status["signature"]:
            _, index.counts, index.total = known
        small = index.size <= FILE_SCAN
        if index.is_binary or small or (index.counts and index.block == SCAN_BLOCK and self._is_near(index, page)):
            try:
                with refusing(location.path):
                    fields, body = _answer(index, status, page)
            finally:
                self._drop(fd, location)
            request.reply(fields, body)
            return
        self._by_worker(request, location, index, status, page)

    def _is_near(self, index: LineIndex, page: tuple[int, int, int, int]) -> bool:
        return index.offset(page[0] + page[1]) - index.offset(page[0]) <= FILE_SCAN

    def _by_worker(
        self, request: Request, location: SafePath, index: LineIndex, status: Fields, page: tuple[int, int, int, int]
    ) -> None:
        is_known = bool(index.counts)

        def work() -> bytes:
            with refusing(location.path):
                fields, body = _answer(index, status, page)
            counts = b"" if is_known else index.counts
            return frames.pack([fields, body, counts])

        def done(data: bytes) -> None:
            fields, body, counts = frames.unpack(data)
            if not is_known:
                self._keep(location.key, status["signature"], counts, fields["total"])
            self._drop(index.fd, location)
            request.reply(fields, body)

        def failed(refusal: Refusal) -> None:
            self._drop(index.fd, location)
            request.refuse(refusal)

        item = self.files.workers.submit(work, done, failed)

        def leave() -> None:
            if not item.over:
                item.stop()
                self._drop(index.fd, location)

        request.abandoned = leave

    def _keep(self, key: tuple[int, int, str], signature: str, counts: bytes, total: int) -> None:
        self.kept.pop(key, None)
        self.kept[key] = signature, counts, total
        while len(self.kept) > SCANS:
            del self.kept[next(iter(self.kept))]

    @staticmethod
    def _drop(fd: int, location: SafePath) -> None:
        os.close(fd)
        location.close()


def _answer(index: LineIndex, status: Fields, page: tuple[int, int, int, int]) -> tuple[Fields, bytes]:
    if index.is_binary:
        return dict(status, binary=True), index.head
    if not index.counts:
        index.scan()
    lines, cut = index.page(*page)
    status = dict(status, total=index.total, first=page[0] + 1, lines=len(lines))
    if cut:
        status["cut"] = cut
    if index.bom:
        status.update(encoding=index.encoding, mark=index.bom)
    return status, index.newline.join(lines)
