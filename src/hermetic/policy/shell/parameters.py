"""The operators of parameter expansion: defaults, removal, replacement, slices, case."""

from __future__ import annotations

import re

from hermetic.policy.budget import MAX_TEXT
from hermetic.policy.marks import NUMBER, STAR, UNSET, is_plain, marks_in, unknown_like

from .globs import glob_regex
from .quoting import decode_ansi_c

_MAX_WORK = 300_000


def _work(value: str, pattern: str) -> int:
    """How many steps a match of the pattern may take, tried at every place of the value."""
    return int(len(value) ** (pattern.count(STAR) + 1))


def remove(value: str, operator: str, pattern: str) -> str:
    """`${x#p}`, `${x##p}`, `${x%p}`, `${x%%p}`."""
    regex = glob_regex(pattern)
    if regex is None or _work(value, pattern) > _MAX_WORK:
        return unknown_like(value, pattern)
    size = len(value)
    for cut in range(size + 1) if operator in ("#", "%%") else range(size, -1, -1):
        if operator[0] == "#" and regex.fullmatch(value, 0, cut):
            return value[cut:]
        if operator[0] == "%" and regex.fullmatch(value, cut):
            return value[:cut]
    return value


def replace(value: str, operator: str, pattern: str, replacement: str) -> str:
    """`${x/p/r}`, `${x//p/r}`, `${x/#p/r}`, `${x/%p/r}`."""
    if not pattern and operator in ("/", "//"):
        return value
    regex = glob_regex(pattern)
    if regex is None or _work(value, pattern) > _MAX_WORK:
        return unknown_like(value, pattern, replacement)
    anchors = {"/#": (r"\A(?:", ")"), "/%": ("(?:", r")\Z")}.get(operator, ("", ""))
    source = regex.pattern.join(anchors)
    left = MAX_TEXT - len(value)

    def replaced(match: re.Match[str]) -> str:
        nonlocal left
        if operator == "//" and match.start() and not match[0]:
            return ""  # bash finds nothing behind the last match
        left -= len(replacement)
        if left < 0:
            raise OverflowError
        return replacement

    try:
        return re.sub(source, replaced, value, count=0 if operator == "//" else 1, flags=re.DOTALL)
    except OverflowError:
        return unknown_like(value, pattern, replacement)


def cut(size: int, offset: int, length: int | None) -> slice:
    """The part that `:offset:length` takes from a text, or from a list, of this size."""
    start = offset if offset >= 0 else size + offset
    end = size if length is None else start + length if length >= 0 else size + length
    return slice(start, max(start, end)) if 0 <= start <= size else slice(0)


def slice_text(value: str, offset: int, length: int | None) -> str:
    """`${x:o:l}`"""
    before = value[: max(offset, 0) + (length or len(value))]
    return unknown_like(value) if marks_in(before) else value[cut(len(value), offset, length)]


def change_case(value: str, operator: str, pattern: str) -> str:
    """`${x^}`, `${x^^}`, `${x,}`, `${x,,}`"""
    regex = glob_regex(pattern) if pattern else re.compile(r".", re.DOTALL)
    if regex is None:
        return unknown_like(value)
    swap = str.upper if operator[0] == "^" else str.lower

    def changed(char: str) -> str:
        return swap(char) if char.isascii() and regex.fullmatch(char) else char

    if len(operator) == 2:
        return "".join(changed(char) for char in value)
    return changed(value[:1]) + value[1:] if value else value


def transform(value: str, letter: str) -> str:
    """`${x@U}` and its kin."""
    if letter in ("U", "L", "u"):
        return change_case(value, {"U": "^^", "L": ",,", "u": "^"}[letter], "")
    if letter in ("Q", "K", "k"):
        return "'" + value.replace("'", "'\\''") + "'"
    if letter == "E" and "\\" in value:
        return decode_ansi_c(value.replace("'", "\\'") + "'", 0)[0]
    return UNSET if letter == "A" else value


def length_of(value: str) -> str:
    """`${#x}`"""
    return (
        str(len(value.encode("latin-1").decode("utf-8", "replace"))) if is_plain(value) else NUMBER
    )
