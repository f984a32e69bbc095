"""What a script printed, as its answer shows it: start and end, counted in bytes, cut between characters."""

from collections.abc import Callable
from typing import NamedTuple

from hermetic.session.output import HEAD_PART, cut_to_characters

Clean = Callable[[str], str]

# Bytes beyond a cut that are looked at: a secret that begins before it is known only by what comes behind.
SLACK = 4096


class Printed(NamedTuple):
    """A stream of an ended script: what came of it, and the range [start, end) that did not."""

    data: bytes
    omitted: tuple[int, int] | None
    total: int


def shown(printed: Printed, budget: int, clean: Clean, more: str = "") -> str:
    """At most `budget` bytes of it, cleaned; where it was cut a line says how much is missing, and `more`."""
    if printed.omitted is None and len(printed.data) <= budget:
        return clean(_text(printed.data))
    at = len(printed.data) if printed.omitted is None else printed.omitted[0]
    before, after = printed.data[:at], printed.data if printed.omitted is None else printed.data[at:]
    head = before[: int(budget * HEAD_PART)]
    room = budget - len(head)
    cut = cut_to_characters(head, after[-room:] if room else b"", printed.total)
    if cut.omitted is None:
        return clean(_text(printed.data))
    start, end = cut.omitted
    first = _start(clean, cut.data[:start], before[: start + SLACK])
    last = _end(clean, cut.data[start:], after[-(printed.total - end + SLACK) :])
    gap = "" if not first or first.endswith("\n") else "\n"
    return f"{first}{gap}[{end - start:,} of {printed.total:,} bytes are left out here.{more}]\n{last}"


def _start(clean: Clean, wanted: bytes, longer: bytes) -> str:
    """The wanted text, cleaned; up to where it reads otherwise once more of it is known."""
    return _common(clean(_text(wanted)), clean(_text(longer)))


def _end(clean: Clean, wanted: bytes, longer: bytes) -> str:
    """The same from the end."""
    return _common(clean(_text(wanted))[::-1], clean(_text(longer))[::-1])[::-1]


def _common(one: str, other: str) -> str:
    """The start that both have."""
    if other.startswith(one):
        return one
    same = next((at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), None)
    return one[:same] if same is not None else min(one, other, key=len)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
