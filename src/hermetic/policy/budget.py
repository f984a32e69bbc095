"""Bounds of one assessment: steps of work, shared by all that evaluates a text, and the size of a
computed text.
"""

from __future__ import annotations

from collections.abc import Iterable

from .marks import marks_in, unknown_like

MAX_STEPS = 30_000  # a step takes some microseconds
MAX_TEXT = 65_536  # characters of one computed text; a longer one counts as unknown
CHARACTERS = 64  # that are copied or compared in a step
READ_CHARACTERS = 8  # that are parsed or computed one by one in a step


class Overflow(Exception):
    """The text asks for more work than a check may take."""


class Budget:
    """Counts the work of one assessment."""

    def __init__(self, most: int = MAX_STEPS) -> None:
        self.most = most
        self.steps = 0

    def spend(self, steps: int) -> None:
        """Count work; too much of it ends the evaluation. Raises Overflow."""
        self.steps += steps
        if self.steps > self.most:
            raise Overflow


def copying(*texts: str) -> int:
    """The steps that it takes to copy or search texts."""
    return sum(map(len, texts)) // CHARACTERS


def reading(text: str) -> int:
    """The steps that it takes to go through a text character by character."""
    return len(text) // READ_CHARACTERS


def joined(texts: Iterable[str], between: str = "") -> str:
    """The texts as one; unknown text of the same origins where that would be too long."""
    parts = list(texts)
    if sum(map(len, parts)) + len(between) * len(parts) <= MAX_TEXT:
        return between.join(parts)
    return unknown_like(*{mark for part in parts for mark in marks_in(part)})
