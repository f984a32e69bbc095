"""Matches a block whose first and last lines are right while lines between them differ.

Such a block matches only where the edit leaves the differing lines unchanged: nothing is removed
that the edit does not name.
"""

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from hermetic.tools.edits.lines import bare, ending, gist, usual_ending
from hermetic.tools.edits.merging import merge

LEAST_LINES = 3
MOST_LINES = 200
LIKENESS = 0.6  # of the lines between the first and the last, from 0 to 1
AHEAD = 0.2  # the best of several is taken when no other is so near
MOST_TRIED = 200  # stretches that are compared in one text


class Block(NamedTuple):
    """A stretch of lines, and the lines that it becomes."""

    first: int
    last: int  # the line after it
    becomes: list[str]
    likeness: float


def near_blocks(heres: Sequence[str], olds: Sequence[str], news: Sequence[str]) -> list[Block]:
    """The stretch that the edit is about; several where that is not clear; [] where there is none."""
    if not LEAST_LINES <= len(olds) <= MOST_LINES or not olds[0].strip() or not olds[-1].strip():
        return []
    keys, wanted = [gist(line) for line in heres], [gist(line) for line in olds]
    best: dict[int, Block] = {}
    for first, last in _stretches(keys, wanted):
        likeness = _likeness(keys[first:last], wanted)
        if likeness < LIKENESS or (first in best and best[first].likeness >= likeness):
            continue
        lines = heres[first:last]
        places = _places(keys[first:last], wanted)
        becomes = merge(olds, lines, news, places, line_end=usual_ending("".join(lines)))
        if becomes is not None:
            if becomes:
                becomes[-1] = bare(becomes[-1]) + ending(lines[-1])
            best[first] = Block(first, last, becomes, likeness)
    ranked = sorted(best.values(), key=lambda block: -block.likeness)
    if len(ranked) > 1 and ranked[0].likeness - ranked[1].likeness >= AHEAD:
        return ranked[:1]
    return ranked


def _stretches(keys: Sequence[str], wanted: Sequence[str]) -> Iterator[tuple[int, int]]:
    slack = max(2, len(wanted) // 4)
    tried = 0
    for first in (at for at, key in enumerate(keys) if key == wanted[0]):
        for last in range(
            first + max(2, len(wanted) - slack), min(len(keys), first + len(wanted) + slack) + 1
        ):
            if keys[last - 1] == wanted[-1] and tried < MOST_TRIED:
                tried += 1
                yield first, last


def _likeness(keys: Sequence[str], wanted: Sequence[str]) -> float:
    """By lines, and within lines that differ by words."""
    ours, theirs = wanted[1:-1], keys[1:-1]
    same = 0.0
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, ours, theirs, False).get_opcodes():
        if tag == "equal":
            same += 2 * (i2 - i1)
        elif tag == "replace":
            for i, j in zip(range(i1, i2), range(j1, j2), strict=False):
                same += 2 * SequenceMatcher(None, ours[i].split(), theirs[j].split(), False).ratio()
    return same / (len(ours) + len(theirs)) if ours or theirs else 1.0


def _places(keys: Sequence[str], wanted: Sequence[str]) -> list[int | None]:
    """For each wanted line the number of the same line in the file."""
    places: list[int | None] = [None] * len(wanted)
    for i, j, size in SequenceMatcher(None, wanted, keys, False).get_matching_blocks():
        places[i : i + size] = range(j, j + size)
    return places
