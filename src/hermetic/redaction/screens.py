"""Hides secrets on a terminal screen, also those that span rows or are only partly drawn."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from unicodedata import combining, east_asian_width

from hermetic.contract.process import Shown
from hermetic.redaction.patterns import Content
from hermetic.redaction.redactor import Redactor, Secret

FRAME = " |" + "".join(map(chr, range(0x2500, 0x2580)))  # the borders of windows


class Rows:
    """Rows of a screen as one text with a map of offsets."""

    def __init__(self, pieces: Sequence[tuple[int, str]], breaks: Sequence[str]) -> None:
        """`pieces`: the column and text of each row; `breaks`: the separator after it."""
        self.text = "".join(piece + end for (_, piece), end in zip(pieces, breaks, strict=True))
        self._begins = [begin for begin, _ in pieces]
        self._lengths = [len(piece) for _, piece in pieces]
        lengths = (len(piece) + len(end) for (_, piece), end in zip(pieces, breaks, strict=True))
        self._starts = [0, *accumulate(lengths)][:-1]

    def places(self, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        """The row and columns of each part of a range of the text."""
        for row in range(bisect_right(self._starts, start) - 1, len(self._starts)):
            if self._starts[row] >= end:
                return
            first, last = (
                min(max(at - self._starts[row], 0), self._lengths[row]) for at in (start, end)
            )
            if first < last:
                yield row, self._begins[row] + first, self._begins[row] + last


def hide(shown: Shown, redactor: Redactor, content: Content) -> list[str]:
    """The rows of a screen with each secret, or its visible part, replaced by a mark."""
    hidden: list[list[Secret]] = [[] for _ in shown.lines]
    for row, secret in _find(shown, redactor, content):
        hidden[row].append(secret)
    return [redactor.put(line, spans) for line, spans in zip(shown.lines, hidden, strict=True)]


def _find(shown: Shown, redactor: Redactor, content: Content) -> Iterator[tuple[int, Secret]]:
    """Each part of a secret, and its row."""
    lines = shown.lines
    is_full = [_width(line) >= shown.cols for line in lines]
    wrapped = Rows([(0, line) for line in lines], ["" if full else "\n" for full in is_full])
    framed = Rows(
        [(len(line) - len(line.lstrip(FRAME)), line.strip(FRAME)) for line in lines],
        [""] * len(lines),
    )
    for rows, secrets in (
        (wrapped, redactor.find(wrapped.text, content)),
        (wrapped, redactor.find_parts(wrapped.text)),
        (framed, redactor.find_known(framed.text)),
        (framed, redactor.find_parts(framed.text)),
    ):
        for secret in secrets:
            for row, start, end in rows.places(secret.start, secret.end):
                yield row, secret._replace(start=start, end=end)
    for row, line in enumerate(lines):  # cut off at the edge, or still being drawn
        drawn = line if is_full[row] else ""
        if row == shown.cursor[0] and not is_full[row]:
            drawn = line[: _index(line, shown.cursor[1])]
        if size := redactor.unfinished(drawn):
            yield row, Secret(len(drawn) - size, len(drawn), "start of a secret")


def _width(line: str) -> int:
    return sum(
        0 if combining(mark) else 2 if east_asian_width(mark) in "WF" else 1 for mark in line
    )


def _index(line: str, column: int) -> int:
    """How many characters of the line stand before a column."""
    widths = [0, *accumulate(map(_width, line))]
    return next((index for index, width in enumerate(widths) if width >= column), len(line))
