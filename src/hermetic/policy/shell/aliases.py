"""Aliases that end in a blank: bash then takes the next word for one, too."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set

from hermetic.policy.budget import MAX_TEXT, Budget, Overflow, copying

MOST_EXPANDED = 50
# A word without quotes, expansions or escapes, up to where it certainly ends.
_WORD = re.compile(r"([ \t]*)([^\s;|&()<>\"'\\$`]+)(?=[\s;|&()<>]|\Z)")


def expand(
    text: str,
    aliases: Mapping[str, str],
    active: Set[str],
    budget: Budget,
    left: int = MOST_EXPANDED,
) -> str:
    """The text with its first word replaced where it is an alias, and so on as long as aliases end
    in a blank. Raises Overflow.

    `active` are aliases that are being expanded: within themselves, they are words.
    """
    budget.spend(1)
    word = _WORD.match(text)
    if word is None or left <= 0 or word[2] not in aliases or word[2] in active:
        return text
    value = expand(aliases[word[2]], aliases, active | {word[2]}, budget, left - 1)
    rest = text[word.end() :]
    if value[-1:] in (" ", "\t"):
        rest = expand(rest, aliases, active, budget, left - 1)
    if len(value) + len(rest) > MAX_TEXT:
        raise Overflow
    budget.spend(copying(text, value, rest))
    return f"{word[1]}{value}{rest}"
