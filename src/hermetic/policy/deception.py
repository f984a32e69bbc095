"""Characters that make a text look other than it runs."""

from __future__ import annotations

import re
import unicodedata

from hermetic.policy.programs.table import rule
from hermetic.policy.tables import regex

DECEPTIVE = rule("deceptive-text")

_BIDI = regex("[\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c]")
_INVISIBLE = regex(
    "[\u200b\u2060-\u2064\ufeff\u00ad\u180e\u115f\u1160\u3164\uffa0\u034f\u17b4\u17b5\U000e0000-\U000e007f]"
)
_JOINER = regex("(?:^|[\x00-\x7f])[\u200c\u200d]|[\u200c\u200d](?:[\x00-\x7f]|$)")
_CONTROL = regex("[\x00-\x08\x0b-\x0c\x0e-\x1f\x7f\x80-\x9f]")
_RETURN = regex("\r(?!\n)")
_SPACE = regex("[\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\u0085]")
# Signs that look like a slash, a bar, a semicolon or a colon.
_LOOKALIKE = regex("[\u2044\u2215\u29f8\u2223\u037e\u02d0\ua789\u01c0]")
_WIDE_LETTER = regex("[\uff01-\uff5e]")
_MIXED = regex(r"[A-Za-z][\u0370-\u03ff\u0400-\u04ff]|[\u0370-\u03ff\u0400-\u04ff][A-Za-z]")


def deception_in(text: str) -> tuple[str, int] | None:
    """What makes the text deceptive and where, or None."""
    if text.isascii():
        match = _CONTROL.search(text) or _RETURN.search(text.rstrip("\r"))
        return (
            ("holds control characters that change what a terminal shows", match.start())
            if match
            else None
        )
    checks = (
        (_BIDI, "turns the direction of the text around"),
        (_INVISIBLE, "holds characters nobody can see"),
        (_JOINER, "holds characters nobody can see"),
        (_CONTROL, "holds control characters that change what a terminal shows"),
        (_RETURN, "holds a carriage return that overwrites what a terminal shows"),
    )
    for pattern, reason in checks:
        match = pattern.search(text)
        if match:
            return reason, match.start()
    bare = _without_quotes(text)
    match = _SPACE.search(bare) or _WIDE_LETTER.search(bare) or _LOOKALIKE.search(bare)
    if match:
        return "holds letters or blanks that only look like the usual ones", match.start()
    match = _MIXED.search(bare)
    if match or any(_looks_latin(word) for word in re.findall(r"(?:^|[;&|]\s*)([^\s;&|]+)", bare)):
        return "mixes alphabets so that one word looks like another", match.start() if match else 0
    return None


def _without_quotes(text: str) -> str:
    """The text with quoted parts and comments blanked out, so that places stay the same."""
    return re.sub(r"'[^']*'|\"[^\"]*\"|#[^\n]*", lambda match: " " * len(match[0]), text)


def _looks_latin(word: str) -> bool:
    """True for a word of another alphabet that reads as an ASCII one."""
    if word.isascii():
        return False
    folded = unicodedata.normalize("NFKC", word)
    return folded != word and folded.isascii()
