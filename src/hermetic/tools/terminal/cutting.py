"""Output cut to what a model may get: 40 % from its start, 60 % from its end, and a line that says
how to read on.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from hermetic.session.output import HEAD_PART
from hermetic.tools.base.show import settle

_SMUGGLED = re.compile("[\udc80-\udcff]")  # bytes that are no UTF-8

Clean = Callable[[str], str]  # must keep the number of lines


class Cut(msgspec.Struct, frozen=True, kw_only=True):
    """What a model sees of an output, and what it does not see."""

    head: str  # all of it when nothing is left out
    tail: str = ""
    total_bytes: int
    # [start, end) of the output's bytes; what is shown of a line may reach in.
    omitted: tuple[int, int] | None = None
    first_line: int | None = None  # the first line with something left out, counted from 1
    last_line: int | None = None  # None: the lines between were not counted

    def text(self, how: str) -> str:
        """Head and tail as one text; between them a line with the counts and with `how` to read the
        rest.
        """
        if self.omitted is None:
            return self.head
        start, end = self.omitted
        lines = f"line {self.first_line:,} on"
        if self.last_line:
            lines = f"lines {self.first_line:,} to {self.last_line:,}"
        missing = f"{end - start:,} of {self.total_bytes:,} bytes are left out here, from byte {start:,}, {lines}."
        gap = "" if not self.head or self.head.endswith("\n") else "\n"
        return f"{self.head}{gap}[{missing} {how}]\n{self.tail}"


class _Side(NamedTuple):
    """What is shown of one side, and how many of the raw bytes it stands for."""

    text: str
    raw_bytes: int


def cut_output(
    data: bytes,
    *,
    budget: int,
    omitted: tuple[int, int] | None = None,
    total_bytes: int | None = None,
    clean: Clean = settle,
) -> Cut:
    """At most `budget` characters of the output, cleaned first, cut between lines where lines are
    not too long.

    `omitted` is the range that is already missing in `data`, as `Result.omitted` tells it, then
    with `total_bytes`.
    """
    total = len(data) if total_bytes is None else total_bytes
    raw = _decode(data if omitted is None else data[: omitted[0]])
    cleaned = clean(raw)
    if omitted is None and len(cleaned) <= budget:
        return Cut(head=_shown(cleaned), total_bytes=total)
    head = _start(raw, cleaned, int(budget * HEAD_PART))
    after, cleaned_after = raw, cleaned
    if omitted is not None:
        after = _decode(data[omitted[0] :])
        cleaned_after = clean(after)
    tail = _end(after, cleaned_after, budget - len(head.text))
    return Cut(
        head=_shown(head.text),
        tail=_shown(tail.text),
        total_bytes=total,
        omitted=(head.raw_bytes, total - tail.raw_bytes),
        first_line=head.text.count("\n") + 1,
        last_line=_last_line(cleaned, tail.text) if omitted is None else None,
    )


def _start(raw: str, cleaned: str, room: int) -> _Side:
    """As much of the start as has room: whole lines, and a part of one only where it fills what
    would stay empty.
    """
    if len(cleaned) <= room:
        return _Side(cleaned, _size(raw))
    at = cleaned.rfind("\n", 0, room) + 1
    lines = cleaned.count("\n", 0, at)
    whole = _after_lines(raw, lines)
    if at * 2 >= room:
        return _Side(cleaned[:at], _size(raw[:whole]))
    part = cleaned[at:room]
    # Where the line was changed by cleaning, its bytes cannot be attributed: all of them count as
    # left out.
    known = len(part) if raw.startswith(part, whole) else 0
    return _Side(cleaned[:room], _size(raw[: whole + known]))


def _end(raw: str, cleaned: str, room: int) -> _Side:
    """The same of the end."""
    if len(cleaned) <= room:
        return _Side(cleaned, _size(raw))
    start = len(cleaned) - room
    at = cleaned.find("\n", start - 1) + 1 if start else 0
    if at == 0 or at > len(cleaned):
        at = len(cleaned)
    lines = cleaned.count("\n", 0, at)
    whole = len(raw) if at == len(cleaned) else _after_lines(raw, lines)
    if (len(cleaned) - at) * 2 >= room:
        return _Side(cleaned[at:], _size(raw[whole:]))
    part = cleaned[start:at]
    known = len(part) if raw.endswith(part, 0, whole) else 0
    return _Side(cleaned[start:], _size(raw[whole - known :]))


def _after_lines(raw: str, lines: int) -> int:
    """Where the line after so many lines starts."""
    at = 0
    for _ in range(lines):
        at = raw.index("\n", at) + 1
    return at


def _last_line(cleaned: str, tail: str) -> int:
    """The number of the last line of which something is left out."""
    end = len(cleaned) - len(tail)
    return cleaned.count("\n", 0, end - 1) + 1


def _decode(data: bytes) -> str:
    """Text that knows its bytes: what is no UTF-8 is smuggled through."""
    return data.decode("utf-8", "surrogateescape")


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape"))


def _shown(text: str) -> str:
    return text if text.isascii() else _SMUGGLED.sub("\ufffd", text)
