"""Pages of a file by line numbers, with exact totals, for files of any size.

A scan counts the lines of each block once. After that a page needs only the block in which it
begins.
"""

from __future__ import annotations

import os
import struct

from ..limits import FILE_SAMPLE, FILE_SCAN, PAGE, SCAN_BLOCK, SCAN_BLOCKS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..wire.frames import Fields

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
            count += (
                data.count(self.newline) if len(self.newline) == 1 else len(self._cut(data)) - 1
            )
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

    def _before(self, block: int) -> int:
        return int(struct.unpack_from("<Q", self.counts, 8 * block)[0])

    def offset(self, line: int) -> int:
        """Offset of a line, counted from 0; the end of the file for lines beyond it."""
        if line <= 0:
            return self.start
        # blocks; the newline before the line is in one of [low, high)
        low, high = 0, len(self.counts) // 8 - 1
        if line > self._before(high):
            return self.size
        while high - low > 1:
            middle = (low + high) // 2
            if self._before(middle) < line:
                low = middle
            else:
                high = middle
        at = self.start + low * self.block
        block = self._read(self.block, at)
        return at + len(block) - len(self._cut(block, line - self._before(low))[-1])

    def size_of(self, first: int, lines: int) -> int:
        """Size of a page, without cuts."""
        return self.offset(first + lines) - self.offset(first)

    def _cut(self, data: bytes, most: int = -1) -> list[bytes]:
        """The data, split at its newlines, at most at so many of them.

        A newline of two bytes is at an even offset.
        """
        if len(self.newline) == 1:
            return data.split(self.newline, most)
        parts: list[bytes] = []
        start, at = 0, data.find(self.newline)
        while at >= 0 and len(parts) != most:
            if at % 2 == 0:
                parts.append(data[start:at])
                start = at + 2
            at = data.find(self.newline, at + 1)
        return [*parts, data[start:]]

    def _lines(self, data: bytes) -> list[bytes]:
        lines = self._cut(data)
        return lines if lines[-1] else lines[:-1]

    def page(
        self, first: int, most: int, width: int, budget: int
    ) -> tuple[list[bytes], list[list[int]]]:
        """Lines from `first` on, each cut to `width` bytes; and `[line, full length]` of the cut
        ones.
        """
        lines: list[bytes] = []
        cut: list[list[int]] = []
        most = max(0, min(most, self.total - first))
        if self.size <= min(len(self.sample), width, budget):  # nothing is cut
            return self._lines(self.sample[self.start : self.size])[first : first + most], cut
        start, stop = self.offset(first), self.offset(first + most)
        whole = self._lines(self._read(stop - start, start)) if stop - start <= PAGE else None
        for number in range(most if whole is None else min(most, len(whole))):
            if whole is None:
                text, length = self._line(first + number, width)
            else:
                text, length = whole[number], len(whole[number])
            budget -= min(length, width) + 1
            if budget < 0 and lines:
                break
            if length > width:
                cut.append([number, length])
            lines.append(text[:width])
        return lines, cut

    def _line(self, line: int, width: int) -> tuple[bytes, int]:
        start, stop = self.offset(line), self.offset(line + 1)
        if (
            line + 1 < self.total
            or os.pread(self.fd, len(self.newline), stop - len(self.newline)) == self.newline
        ):
            stop -= len(self.newline)
        return os.pread(self.fd, min(width, stop - start), start), stop - start

    def answer(self, status: Fields, page: tuple[int, int, int, int]) -> tuple[Fields, bytes]:
        """The answer to `read_lines`: fields and body."""
        if self.is_binary:
            return dict(status, binary=True), self.head
        if not self.counts:
            self.scan()
        lines, cut = self.page(*page)
        status = dict(status, total=self.total, first=page[0] + 1, lines=len(lines))
        if cut:
            status["cut"] = cut
        if self.bom:
            status.update(encoding=self.encoding, mark=self.bom)
        return status, self.newline.join(lines)


def _measured(fd: int, sample: bytes) -> int:
    """Size of a file that reports size 0: kernel files are generated when they are read."""
    size = len(sample)
    while size < FILE_SCAN and (data := os.pread(fd, FILE_SCAN - size, size) if size else b""):
        size += len(data)
    return size
