"""Lists of names, written the way people read them."""

from __future__ import annotations


def names(text: str) -> tuple[str, ...]:
    """The words of a text."""
    return tuple(text.split())
