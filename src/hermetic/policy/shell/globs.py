"""Glob patterns, written with marks for their active characters, as regular expressions."""

from __future__ import annotations

import re

from hermetic.policy.marks import BRACKET, QUESTION, STAR, is_known
from hermetic.policy.tables import names

_MAX_STARS = 8
_MAX_PATTERN = 1000
_CLASSES = dict(
    pair.split("=", 1)
    for pair in names(
        r"alpha=A-Za-z digit=0-9 alnum=A-Za-z0-9 upper=A-Z lower=a-z space=\s xdigit=0-9A-Fa-f blank=\x20\t"
        r" punct=!-/:-@\[-`{-~"
    )
)


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
            end = pattern.find("]", pos + 1)
            if end < 0:
                out.append(re.escape("["))
                continue
            out.append(
                _bracket(pattern[pos:end]) if "[:" not in pattern[pos:end] else _named(pattern, pos)
            )
            pos = end + 1 if "[:" not in pattern[pos:end] else _named_end(pattern, pos)
        else:
            out.append(re.escape(char))
    try:
        return re.compile("".join(out), re.DOTALL)
    except re.error:
        return None


def _bracket(body: str) -> str:
    negated = body[:1] in ("!", "^")
    body = body[1:] if negated else body
    safe = body.replace("\\", "\\\\").replace("[", "\\[").replace("^", "\\^").replace("]", "\\]")
    return f"[{'^' if negated else ''}{safe}]"


def _named_end(pattern: str, pos: int) -> int:
    end = pattern.find(":]", pos)
    close = pattern.find("]", end + 2) if end >= 0 else -1
    return len(pattern) if close < 0 else close + 1


def _named(pattern: str, pos: int) -> str:
    body = pattern[pos : _named_end(pattern, pos) - 1]
    negated = body[:1] in ("!", "^")
    names = re.findall(r"\[:(\w+):\]", body)
    rest = re.sub(r"\[:\w+:\]", "", body[1:] if negated else body)
    inner = "".join(_CLASSES.get(name, ".") for name in names) + re.escape(rest)
    return f"[{'^' if negated else ''}{inner}]"


def could_match(pattern: str, name: str) -> bool:
    """True when the folded name, globs and unknown text included, may stand for `name`."""
    loose = "".join(
        STAR if ord(char) >= 0xE000 and char not in (QUESTION, BRACKET) else char
        for char in pattern
    )
    regex = glob_regex(loose, crosses_slash=False)
    return regex is None or regex.fullmatch(name) is not None
