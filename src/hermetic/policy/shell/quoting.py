"""Escapes: bash's $'…' and the backslashes of echo and printf."""

from __future__ import annotations

import re

_SIMPLE = {
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "E": "\x1b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    "'": "'",
    '"': '"',
    "?": "?",
}
_HEX = re.compile(r"[0-9A-Fa-f]{1,2}")
_BRACED_HEX = re.compile(r"\{[0-9A-Fa-f]*\}?|[0-9A-Fa-f]{1,2}")
_OCTAL = re.compile(r"[0-7]{1,3}")
_ZERO_OCTAL = re.compile(r"0[0-7]{0,3}")
_UNICODE = {"u": re.compile(r"[0-9A-Fa-f]{1,4}"), "U": re.compile(r"[0-9A-Fa-f]{1,8}")}


def _escape(
    text: str, pos: int, octal: re.Pattern[str], simple: str, hexadecimal: re.Pattern[str]
) -> tuple[str, int]:
    """What the escape after a backslash stands for, and where the text goes on."""
    char = text[pos : pos + 1]
    if char == "x":
        match = hexadecimal.match(text, pos + 1)
        if match:
            digits = match[0].strip("{}") or "0"
            return chr(int(digits, 16) & 0xFF), match.end()
    elif char in _UNICODE and char:
        match = _UNICODE[char].match(text, pos + 1)
        if match:
            number = int(match[0], 16)
            if number > 0x10FFFF:
                return "", match.end()
            return chr(number).encode("utf-8", "surrogatepass").decode("latin-1"), match.end()
    elif char in simple and char:
        return _SIMPLE[char], pos + 1
    match = octal.match(text, pos)
    if match:
        return chr(int(match[0], 8) & 0xFF), match.end()
    return "\\" + char, pos + len(char)


def decode_ansi_c(text: str, pos: int) -> tuple[str, int]:
    """The value of a $'…' whose content starts at `pos`, and the place after it; -1 when it does
    not end.
    """
    out: list[str] = []
    size = len(text)
    while pos < size:
        char = text[pos]
        if char == "'":
            value = "".join(out)
            return value.split("\0", 1)[0], pos + 1
        if char != "\\":
            out.append(char)
            pos += 1
            continue
        if text[pos + 1 : pos + 2] == "c" and pos + 2 < size:
            control = text[pos + 2]
            out.append("\x7f" if control == "?" else chr(ord(control.upper()) & 0x1F))
            pos += 4 if text.startswith("\\\\", pos + 2) else 3
            continue
        piece, pos = _escape(text, pos + 1, _OCTAL, "abeEfnrtv\\'\"?", _BRACED_HEX)
        out.append(piece)
    return "", -1


def decode_backslashes(text: str, octal_needs_zero: bool) -> tuple[str, bool]:
    """Text with the escapes of `echo -e` or `printf` resolved, and whether `\\c` cut it short."""
    if "\\" not in text:
        return text, False
    out: list[str] = []
    pos, size = 0, len(text)
    octal = _ZERO_OCTAL if octal_needs_zero else _OCTAL
    simple = "abeEfnrtv\\" if octal_needs_zero else "abeEfnrtv\\\"'?"
    while pos < size:
        char = text[pos]
        if char != "\\" or pos + 1 >= size:
            out.append(char)
            pos += 1
            continue
        if text[pos + 1] == "c":
            return "".join(out), True
        piece, pos = _escape(text, pos + 1, octal, simple, _HEX)
        out.append(piece)
    return "".join(out), False
