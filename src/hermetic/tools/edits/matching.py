"""Finds a text in a file by nine strategies, from exact to tolerant; the first one with a match decides."""

import re
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import NamedTuple

from hermetic.tools.edits import patterns
from hermetic.tools.edits.blocks import near_blocks
from hermetic.tools.edits.indenting import Indentation
from hermetic.tools.edits.lines import split_lines
from hermetic.tools.edits.merging import known_indents

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "'": "'", "`": "`", "\\": "\\", "/": "/", "$": "$"}
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_INVISIBLE = re.compile("[\u200b\u200c\u200d\u2060\ufeff\u00ad]")


class Match(NamedTuple):
    """A matched range, with the old and the new text as they apply there."""

    start: int
    end: int
    old: str
    new: str


MOST_LOOSE = 10_000  # characters of an old text that tolerant strategies search for

Strategy = Callable[[str, str, str], list[Match]]


def find(text: str, old: str, new: str) -> tuple[str, list[Match]]:
    """The name of the first strategy that matches, and its matches; ("", []) without any."""
    for name, strategy in STRATEGIES.items():
        if name != "exact" and (not old.strip() or len(old) > MOST_LOOSE):
            break
        if found := strategy(text, old, new):
            return name, found
    return "", []


def exact(text: str, old: str, new: str) -> list[Match]:
    """Character by character; overlapping matches count too."""
    return [_with_return(text, Match(at, at + len(old), old, new)) for at in _occurrences(text, old)]


def _with_return(text: str, found: Match) -> Match:
    """One that begins with the second half of a line end takes the first half in."""
    if found.old[0] == "\n" and text[found.start - 1 : found.start] == "\r":
        return found._replace(start=found.start - 1, old="\r" + found.old)
    return found


def line_ends(text: str, old: str, new: str) -> list[Match]:
    """CRLF for LF, and white space at the end of lines."""
    return _all(patterns.same_but_line_ends(old), text, old, new)


def shifted(text: str, old: str, new: str) -> list[Match]:
    """The same lines, all shifted to another indentation; of one line alone that says nothing."""
    if len(old.split("\n")) - old.split("\n").count("") < 2:
        return []
    return [found for found in trimmed_lines(text, old, new) if _is_shift(text, found)]


def trimmed_lines(text: str, old: str, new: str) -> list[Match]:
    """The same lines, each with an indentation of its own."""
    return _all(patterns.same_but_indentation(old), text, old, new)


def whitespace(text: str, old: str, new: str) -> list[Match]:
    """The same words in the same lines, with other white space between them."""
    return _all(patterns.same_but_runs(old), text, old, new)


def typography(text: str, old: str, new: str) -> list[Match]:
    """Other quotes, dashes, spaces, accents, or characters of no width."""
    if text.isascii() and old.isascii():
        return []
    return _all(patterns.same_but_typography(old, invisible=bool(_INVISIBLE.search(text))), text, old, new)


def escapes(text: str, old: str, new: str) -> list[Match]:
    r"""The edit was escaped once too often (\n for a line end), or once too little."""
    kinds = {escape for escape in _ESCAPE.findall(old) if escape in _ESCAPES}
    if kinds and (found := _first(text, _unescaped(old, kinds), _unescaped(new, kinds))):
        return found
    if "\n" in old.rstrip("\n") or "\t" in old.strip("\t"):
        return exact(text, _escaped(old), _escaped(new))
    return []


def boundary(text: str, old: str, new: str) -> list[Match]:
    """White space and blank lines around the whole of the old text are left out."""
    core = old.strip()
    if core == old:
        return []
    lead, tail = old[: len(old) - len(old.lstrip())], old[len(old.rstrip()) :]
    kept = new.removeprefix(lead) if new.startswith(lead) else new.lstrip()
    kept = kept.removesuffix(tail) if kept.endswith(tail) else kept.rstrip()
    return _first(text, core, kept)


def block(text: str, old: str, new: str) -> list[Match]:
    """The first and the last line, and much of what is between; the edit leaves alone what differs."""
    lines = split_lines(text)
    found = near_blocks(lines, split_lines(old.replace("\r\n", "\n")), split_lines(new.replace("\r\n", "\n")))
    starts = [0, *accumulate(map(len, lines))] if found else []
    result = []
    for near in found:
        here, becomes = "".join(lines[near.first : near.last]), "".join(near.becomes)
        if not old.endswith("\n"):
            cut = len(here) - len(here.rstrip("\r\n"))
            here, becomes = here[: len(here) - cut], becomes[: len(becomes) - cut]
        result.append(Match(starts[near.first], starts[near.first] + len(here), here, becomes))
    return result


def _first(text: str, old: str, new: str) -> list[Match]:
    """The matches of the first of the stricter strategies, at word boundaries."""
    if not old.strip():
        return []
    for strategy in (line_ends, shifted, trimmed_lines, whitespace, typography):
        if found := strategy(text, old, new):
            return found
    return []


def _occurrences(text: str, old: str) -> Iterator[int]:
    at = text.find(old)
    while at >= 0:
        yield at
        at = text.find(old, at + 1)


def _all(pattern: re.Pattern[str], text: str, old: str, new: str) -> list[Match]:
    return [Match(*match.span(), old, new) for match in pattern.finditer(text) if match[0]]


def _is_shift(text: str, found: Match) -> bool:
    olds = split_lines(found.old.replace("\r\n", "\n"))
    return Indentation(known_indents(olds, split_lines(text[found.start : found.end]))).is_shift


def _unescaped(text: str, kinds: set[str]) -> str:
    return _ESCAPE.sub(lambda match: _ESCAPES[match[1]] if match[1] in kinds else match[0], text)


def _escaped(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\\n").replace("\t", "\\t")


STRATEGIES: dict[str, Strategy] = {
    "exact": exact,
    "line_ends": line_ends,
    "shifted": shifted,
    "trimmed_lines": trimmed_lines,
    "whitespace": whitespace,
    "typography": typography,
    "escapes": escapes,
    "boundary": boundary,
    "block": block,
}
