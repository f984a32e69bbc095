"""Glob patterns, written with marks for their active characters, as regular expressions."""

from __future__ import annotations

import re

from hermetic.policy.marks import BRACKET, QUESTION, STAR, is_known, literal_globs
from hermetic.policy.programs.table import TABLE

_MAX_STARS = 8
_MAX_PATTERN = 1000
_CLASSES = dict(pair.split("=", 1) for pair in TABLE.words("character-classes"))


_BRACKET = re.compile(r"([!^]?)(\]?(?:\[:\w+:\]|[^\]])*)\]", re.DOTALL)
_NAMED = re.compile(r"\[:(\w+):\]")


def glob_regex(pattern: str, crosses_slash: bool = True) -> re.Pattern[str] | None:
    """A regular expression that matches what the glob matches, or None when it cannot be known."""
    if not is_known(pattern) or pattern.count(STAR) > _MAX_STARS or len(pattern) > _MAX_PATTERN:
        return None
    any_char = "." if crosses_slash else "[^/]"
    out: list[str] = []
    pos, size = 0, len(pattern)
    while pos < size:
        char = pattern[pos]
        pos += 1
        if char == STAR:
            if not (out and out[-1] == any_char + "*"):
                out.append(any_char + "*")
        elif char == QUESTION:
            out.append(any_char)
        elif char == BRACKET:
            bracket = _BRACKET.match(literal_globs(pattern[pos:]))
            if bracket is None:
                out.append(re.escape("["))
                continue
            if bracket[2].startswith("]"):
                return None  # bash reads it in several ways, by where it stands
            out.append(_set(bracket[1], bracket[2]))
            pos += bracket.end()
        else:
            out.append(re.escape(char))
    try:
        return re.compile("".join(out), re.DOTALL)
    except re.error:
        return None


def _set(negation: str, body: str) -> str:
    inner = _NAMED.sub("", body)
    for char in "\\[]^":
        inner = inner.replace(char, "\\" + char)
    # a class that has no name here makes the pattern one that cannot be known
    inner += "".join(_CLASSES.get(name, "z-a") for name in _NAMED.findall(body))
    return f"[{'^' if negation else ''}{inner}]"


def could_match(pattern: str, name: str) -> bool:
    """True when the folded name, globs and unknown text included, may stand for `name`."""
    loose = "".join(
        STAR if ord(char) >= 0xE000 and char not in (QUESTION, BRACKET) else char
        for char in pattern
    )
    regex = glob_regex(loose, crosses_slash=False)
    return regex is None or regex.fullmatch(name) is not None
