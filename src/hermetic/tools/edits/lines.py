"""A text as lines: their ends, indentation, and content without white space and typography."""

import re
import unicodedata

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_FOLDED = {
    **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032\u00b4", "'"),
    **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb", '"'),
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
    **dict.fromkeys(
        "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000", " "
    ),
    **dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff\u00ad", ""),
    "\u2026": "...",
}
_TYPOGRAPHY = str.maketrans(_FOLDED)


def split_lines(text: str) -> list[str]:
    """The lines with their ends; joined they are the text."""
    return _LINE.findall(text)


def bare(line: str) -> str:
    """The line without its end."""
    return line.removesuffix("\n").removesuffix("\r")


def ending(line: str) -> str:
    """How the line ends: CRLF, LF, or nothing at the end of a text."""
    return line[len(bare(line)) :]


def indentation(line: str) -> str:
    """The white space that the line begins with."""
    return line[: len(line) - len(line.lstrip(" \t"))]


def usual_ending(text: str) -> str:
    """The line end that the text has most of; LF where it has none."""
    crlf = text.count("\r\n")
    return "\r\n" if crlf > text.count("\n") - crlf else "\n"


def line_at(text: str, offset: int) -> int:
    """The number of the line that the offset is in, from 1."""
    return text.count("\n", 0, offset) + 1


def fold(text: str) -> str:
    """Plain quotes, dashes and spaces for typographic ones; characters composed."""
    return text if text.isascii() else unicodedata.normalize("NFC", text).translate(_TYPOGRAPHY)


def gist(line: str) -> str:
    """The line without differences of white space and typography."""
    return " ".join(fold(line).split())


def spellings(character: str) -> frozenset[str]:
    """Every text that folds to the same as this character."""
    wanted = _FOLDED.get(character, character)
    same = {other for other, plain in _FOLDED.items() if plain and plain == wanted}
    composed = {unicodedata.normalize("NFC", character), unicodedata.normalize("NFD", character)}
    return frozenset({character, wanted, *same, *composed})
