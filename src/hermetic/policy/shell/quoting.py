"""Escapes: bash's $'…' and the backslashes of echo and printf."""

from __future__ import annotations

import re

from hermetic.policy.tables import regex

_SIMPLE = dict(zip("abeEfnrtv\\'\"?", "\a\b\x1b\x1b\f\n\r\t\v\\'\"?", strict=True))


def _pattern(octal: str, control: str, hexadecimal: str = "[0-9A-Fa-f]{1,2}") -> re.Pattern[str]:
    return regex(
        rf"(?s)\\(?:x(?P<hex>{hexadecimal})|u(?P<u>[0-9A-Fa-f]{{1,4}})|U(?P<long>[0-9A-Fa-f]{{1,8}})"
        rf"|(?P<octal>{octal})|{control}|(?P<char>.))"
    )


_QUOTED = regex(r"(?s)((?:[^'\\]|\\.)*)'")
_ANSI_C = _pattern("[0-7]{1,3}", r"c(?P<control>\\\\|.)", r"\{[0-9A-Fa-f]*\}?|[0-9A-Fa-f]{1,2}")
_PRINTF = _pattern("[0-7]{1,3}", "(?P<control>c)")
_ECHO = _pattern("0[0-7]{0,3}", "(?P<control>c)")


def _decoded(match: re.Match[str]) -> str:
    """What an escape stands for; one that means nothing stands for itself."""
    if match["hex"]:
        return chr(int(match["hex"].strip("{}") or "0", 16) & 0xFF)
    if digits := match["u"] or match["long"]:
        number = int(digits, 16)
        text = chr(number) if number <= 0x10FFFF else ""
        return text.encode("utf-8", "surrogatepass").decode("latin-1")
    if match["octal"]:
        return chr(int(match["octal"], 8) & 0xFF)
    if control := match["control"]:
        return "\x7f" if control == "?" else chr(ord(control[0].upper()) & 0x1F)
    return _SIMPLE.get(match["char"], match[0])


def _echoed(match: re.Match[str]) -> str:
    return match[0] if match["char"] in ("'", '"', "?") else _decoded(match)


def decode_ansi_c(text: str, pos: int) -> tuple[str, int]:
    """The value of a $'…' whose content starts at `pos`, and the place after it; -1 when it does
    not end.
    """
    quoted = _QUOTED.match(text, pos)
    if quoted is None:
        return "", -1
    return _ANSI_C.sub(_decoded, quoted[1]).split("\0", 1)[0], quoted.end()


def decode_backslashes(text: str, octal_needs_zero: bool) -> tuple[str, bool]:
    """Text with the escapes of `echo -e` or `printf` resolved, and whether `\\c` cut it short."""
    if "\\" not in text:
        return text, False
    pattern = _ECHO if octal_needs_zero else _PRINTF
    end = next((one.start() for one in pattern.finditer(text) if one["control"]), None)
    decoded = _echoed if octal_needs_zero else _decoded
    return pattern.sub(decoded, text[:end]), end is not None
