"""A text as lines: their ends, indentation, and content without white space and typography."""

import re
import unicodedata

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff\u00ad"
SPACES = "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
QUOTES = "\u2018\u2019\u201a\u201b\u2032\u00b4\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb"
DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"
_TYPOGRAPHY = str.maketrans(
    {
        **dict.fromkeys(QUOTES[:6], "'"),
        **dict.fromkeys(QUOTES[6:], '"'),
        **dict.fromkeys(DASHES, "-"),
        **dict.fromkeys(SPACES, " "),
        **dict.fromkeys(INVISIBLE, ""),
        "\u2026": "...",
    }
)


def split_lines(text: str) -> list[str]:
    """The lines with their ends; joined they are the text."""
    return _LINE.findall(text)


def bare(line: str) -> str:
    """The line without its end."""
    return line.removesuffix("\n").removesuffix("\r")


def ending(line: str) -> str:
    """The line's end: CRLF, LF, or nothing at the end of a text."""
    return line[len(bare(line)) :]


def indentation(line: str) -> str:
    """The white space that the line begins with."""
    return line[: len(line) - len(line.lstrip(" \t"))]


def usual_ending(text: str) -> str:
    """The line end that the text has most of; LF where it has none."""
    crlf = text.count("\r\n")
    return "\r\n" if crlf > text.count("\n") - crlf else "\n"


def fold(text: str) -> str:
    """Plain quotes, dashes and spaces for typographic ones; characters composed."""
    return text if text.isascii() else unicodedata.normalize("NFC", text).translate(_TYPOGRAPHY)


def gist(line: str) -> str:
    """The line without differences of white space and typography."""
    return " ".join(fold(line).split())
