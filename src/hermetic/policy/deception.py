"""Characters that make a text look other than it runs."""

from __future__ import annotations

import re
import unicodedata

from hermetic.policy.programs.table import rule
from hermetic.policy.tables import regex

DECEPTIVE = rule("deceptive-text")

_CONTROLS = (
    (
        regex("[\x00-\x08\x0b-\x0c\x0e-\x1f\x7f\x80-\x9f]"),
        "holds control characters that change what a terminal shows",
    ),
    (regex("\r(?!\n)"), "holds a carriage return that overwrites what a terminal shows"),
)
_HIDDEN = "[\u200b\u2060-\u2064\ufeff\u00ad\u180e\u115f\u1160\u3164\uffa0\u034f\u17b4\u17b5\U000e0000-\U000e007f]"
# A joiner between letters of other alphabets and between emoji is part of them.
_JOINER = "(?:^|[\x00-\x7f])[\u200c\u200d]|[\u200c\u200d](?:[\x00-\x7f]|$)"
_WHOLE = (
    (
        regex("[\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c]"),
        "turns the direction of the text around",
    ),
    (regex(f"{_HIDDEN}|{_JOINER}"), "holds characters nobody can see"),
    *_CONTROLS,
)
_SPACE = "[\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\u0085]"
# Wide letters, and signs that look like a slash, a bar, a semicolon or a colon.
_LOOKALIKE = "[\uff01-\uff5e\u2044\u2215\u29f8\u2223\u037e\u02d0\ua789\u01c0]"
_MIXED = r"[A-Za-z][\u0370-\u03ff\u0400-\u04ff]|[\u0370-\u03ff\u0400-\u04ff][A-Za-z]"
_MIXES = "mixes alphabets so that one word looks like another"
_BARE = (
    (regex(f"{_SPACE}|{_LOOKALIKE}"), "holds letters or blanks that only look like the usual ones"),
    (regex(_MIXED), _MIXES),
)


# What a file should not hold, as characters or as the bytes of UTF-8: turned text, and what moves the
# cursor of the terminal that shows it. Colours are harmless, hidden text is not.
_TURNED = regex("[\u202a-\u202e\u2066-\u2069]|\xe2\x80[\xaa-\xae]|\xe2\x81[\xa6-\xa9]")
_OVERWRITES = regex(
    "\x1b(\\[[\\d;?]*[A-HJKSTfsu]|\\[(?:[\\d;]*;)?8(?:;[\\d;]*)?m|[]PX^_c78])|[^\r\n]\r+[^\r\n]|[^\b]\b"
)


# Text that a page does not show: letters as tags but for those of a flag, many joiners in a row, and a
# comment for whoever reads the source by program.
_TAGS = regex(
    "(?<!\U0001f3f4)[\U000e0020-\U000e007e]{4,}|(?<!\xf0\x9f\x8f\xb4)(?:\xf3\xa0[\x80\x81].){4,}"
)
_INVISIBLE = regex(
    "[\u200b-\u200d\u2060-\u2064\ufeff]{6,}|(?:\xe2\x80[\x8b-\x8d]|\xe2\x81[\xa0-\xa4]|\xef\xbb\xbf){6,}"
    "|[\x21-\x7e ](?:[\u200b\u2060-\u2064]|\xe2\x80\x8b|\xe2\x81[\xa0-\xa4])[\x21-\x7e ]"
)
_CYRILLIC = "(?:[\u0400-\u04ff]|[\xd0\xd1][\x80-\xbf])"
_MIXED_BYTES = regex(f"[A-Za-z_]{_CYRILLIC}|{_CYRILLIC}[A-Za-z_]")
_SOURCE = regex(
    r"\.(py|[cm]?[jt]sx?|go|rs|c|h|cc|cpp|java|kt|rb|php|sh|bash|cs|swift|scala|exs?|lua|pl|tf|toml|lock)$"
)
# Blanks and brackets around a name, dots alone, an option, and blanks that are no blanks.
_ODD_NAME = regex(
    "^[ \t]|[\\w.][ \t]+$|^\\.{3,}$|^\\[.*\\]$|^-(rf?|fr?|-checkpoint|-rsh|-to-command)"
    "|\u2800|\u3164|\xe2\xa0\x80|\xc2\xa0|\xe3\x85\xa4"
)
_FOR_AGENTS = regex(
    r"(?i)/(claude|agents?|gemini|copilot-instructions|\.(cursor|windsurf|cline)rules|\.cursor/rules/.*)(\.mdc?)?$"
)
_UNTOLD = regex(
    r"(?i)\b(silently|(do not|don't|never) (mention|tell|reveal|inform|disclose)|without (telling|informing|mentioning))\b"
)
_MARKUP = regex(r"<!--|\[//\]: #|<\w+[^>]*(style|hidden)")
_ADDRESSED = regex(
    r"(?is)(<!--|\[//\]: #|<\w+[^>]*(font-size:\s*0|display:\s*none|color:\s*(white|#fff)|opacity:\s*0|\bhidden)[^>]*>)"
    r"(?=[^>]*\b(ai|assistants?|agents?|llms?|copilot|claude|gpt|gemini|cursor|system)\b)"
    r"[^>]*\b((do not|don't|never) (mention|tell|show)|ignore (all|any|previous|prior)"
    r"|without (asking|confirm\w*)|silently|curl|wget)\b"
)


def deception_in_file(text: str) -> str:
    """What makes a written text, or the name of a file, deceptive; empty for nothing."""
    if not text.isascii():
        if _TURNED.search(text):
            return "text that is turned around"
        if _TAGS.search(text) or _INVISIBLE.search(text):
            return "text that nobody can see"
    if _MARKUP.search(text) and _ADDRESSED.search(text):
        return "instructions that a page does not show"
    is_control = "\x1b" in text or "\r" in text or "\b" in text
    if is_control and "\0" not in text and _OVERWRITES.search(text):
        return "control characters that change what a terminal shows"
    return ""


def deception_in_path(full: str, content: str) -> str:
    """What makes a file deceptive by its name, or by what that name makes of its content."""
    base = full.rpartition("/")[2]
    if _ODD_NAME.search(base):
        return "a name that looks or reads like another"
    if _SOURCE.search(base) and not content.isascii() and _MIXED_BYTES.search(content):
        return "a word of two alphabets that looks like another"
    if _FOR_AGENTS.search(full) and _UNTOLD.search(content):
        return "instructions that nobody is to be told of"
    return ""


def deception_in(text: str) -> tuple[str, int] | None:
    """What makes the text deceptive and where, or None."""
    is_ascii = text.isascii()
    text = text.rstrip("\r") if is_ascii else text
    bare = "" if is_ascii else _without_quotes(text)
    for subject, checks in ((text, _CONTROLS if is_ascii else _WHOLE), (bare, _BARE)):
        for pattern, reason in checks:
            if match := pattern.search(subject):
                return reason, match.start()
    words = re.findall(r"(?:^|[;&|]\s*)([^\s;&|]+)", bare)
    return (_MIXES, 0) if any(map(_looks_latin, words)) else None


def _without_quotes(text: str) -> str:
    """The text with quoted parts and comments blanked out, so that places stay the same."""
    return re.sub(r"'[^']*'|\"[^\"]*\"|#[^\n]*", lambda match: " " * len(match[0]), text)


def _looks_latin(word: str) -> bool:
    """True for a word of another alphabet that reads as an ASCII one."""
    if word.isascii():
        return False
    folded = unicodedata.normalize("NFKC", word)
    return folded != word and folded.isascii()
