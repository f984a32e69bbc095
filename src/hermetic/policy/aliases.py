"""Aliases that end in a blank: bash then takes the next word for one, too."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set

MOST_EXPANDED = 50
# A word without quotes, expansions or escapes, up to where it certainly ends.
_WORD = re.compile(r"([ \t]*)([^\s;|&()<>\"'\\$`]+)(?=[\s;|&()<>]|\Z)")


def expand(name: str, rest: str, aliases: Mapping[str, str], active: Set[str]) -> str:
    """What stands for an alias, and for the rest of its command."""
    value = aliases[name]
    return value + (_expand_first(rest, aliases, active) if value[-1:] in (" ", "\t") else rest)


def _expand_first(text: str, aliases: Mapping[str, str], active: Set[str], left: int = MOST_EXPANDED) -> str:
    """The text with its first word replaced where it is an alias, and so on as long as aliases end in a blank.

    `active` are aliases that are being expanded: within themselves, they are words.
    """
    word = _WORD.match(text)
    if word is None or left <= 0 or word[2] not in aliases or word[2] in active:
        return text
    value = _expand_first(aliases[word[2]], aliases, active | {word[2]}, left - 1)
    rest = text[word.end() :]
    if value[-1:] in (" ", "\t"):
        rest = _expand_first(rest, aliases, active, left - 1)
    return f"{word[1]}{value}{rest}"
