"""Finds a text in a file by nine strategies, from exact to tolerant; the first one with a match
decides.

Five of them are normalisers: what remains of the old text is searched for in what remains of the
file.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import partial
from itertools import accumulate
from typing import NamedTuple

from hermetic.tools.edits.blocks import near_blocks
from hermetic.tools.edits.lines import DASHES, INVISIBLE, QUOTES, SPACES, fold, split_lines
from hermetic.tools.edits.merging import Indentation

MOST_LOOSE = 10_000  # characters of an old text that tolerant strategies search for
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", **{char: char for char in "\"'`\\/$"}}
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_WORD = re.compile(r"\w")
_LINE_REST = re.compile(r"[ \t]*\r?(?:\n|\Z)")


class Match(NamedTuple):
    """A matched range, with the old and the new text as they apply there."""

    start: int
    end: int
    old: str
    new: str


class Normaliser(NamedTuple):
    """Rewrites texts so that those which differ in one respect become equal."""

    pattern: re.Pattern[str]  # the parts that are rewritten
    becomes: Callable[[re.Match[str]], str]
    blanks: str = ""  # characters of an indentation that is part of a match
    whole_lines: bool = False  # only whole lines match

    def find(self, text: str, old: str, *, lines: bool = False) -> Iterator[tuple[int, int]]:
        """The ranges of the text that equal `old`; with `lines=True` those of whole lines,
        overlapping ones too.

        A range does not begin or end within a word.
        """
        ended = text if text.endswith("\n") else f"{text}\n"
        key, wanted = self.pattern.sub(self.becomes, ended), self.pattern.sub(self.becomes, old)
        at = key.find(wanted) if wanted else -1
        origin = _Origin(self, ended) if at >= 0 else None
        while origin is not None and at >= 0:
            start, end = origin.range(at, at + len(wanted))
            found = self._fitted(
                text, start, min(end, len(text)), old, wanted, lines or self.whole_lines
            )
            if found is not None:
                yield found
            at = key.find(wanted, at + (1 if lines or found is None else len(wanted)))

    def _fitted(
        self, text: str, start: int, end: int, old: str, wanted: str, whole_lines: bool
    ) -> tuple[int, int] | None:
        """The range with the indentation before it; None where it cuts a word or a line."""
        if start and _WORD.match(wanted) and _WORD.match(text, start - 1):
            return None
        if _WORD.match(wanted[-1]) and _WORD.match(text, end):
            return None
        ends_line = old[-1] in " \t" or (whole_lines and not wanted.endswith("\n"))
        if ends_line and not _LINE_REST.match(text, end):
            return None
        begin = start
        while begin and text[begin - 1] in self.blanks:
            begin -= 1
        if begin == 0 or text[begin - 1] == "\n":
            return begin, end
        return None if whole_lines else (start, end)


class _Origin:
    """Maps offsets of a normalised text to those of the text."""

    def __init__(self, normaliser: Normaliser, text: str) -> None:
        self._parts = [(0, 0, 0, 0)]  # start and end when normalised, start and end in the text
        shift = 0
        for match in normaliser.pattern.finditer(text):
            begin = match.start() + shift
            end = begin + len(normaliser.becomes(match))
            shift = end - match.end()
            self._parts.append((begin, end, *match.span()))
        self._starts = [part[0] for part in self._parts]

    def range(self, begin: int, end: int) -> tuple[int, int]:
        _, part_end, raw, raw_end = self._parts[bisect_right(self._starts, begin) - 1]
        start = raw if begin < part_end else raw_end + begin - part_end
        _, part_end, _, raw_end = self._parts[bisect_right(self._starts, end - 1) - 1]
        return start, raw_end + max(0, end - part_end)


def _line_end(match: re.Match[str]) -> str:
    return "\n" if "\n" in match[0] else ""


def _run(match: re.Match[str]) -> str:
    return " " if match.lastgroup == "run" else _line_end(match)


def _folded(match: re.Match[str]) -> str:
    return fold(match[0]) if match.lastgroup == "character" else _run(match)


_LINE_END = r"(?<![ \t])[ \t]*+(?:\r?\n|\Z)"
_INDENT = r"(?<![^\n])[ \t]++"
_BLANKS = f" \t{SPACES}{INVISIBLE}"
NORMALISERS = {
    "exact": Normaliser(re.compile(r"\r\n"), _line_end),
    "line_ends": Normaliser(re.compile(_LINE_END), _line_end),
    "trimmed_lines": Normaliser(
        re.compile(f"{_LINE_END}|{_INDENT}"), _line_end, " \t", whole_lines=True
    ),
    "whitespace": Normaliser(re.compile(rf"{_LINE_END}|{_INDENT}|(?P<run>[ \t]++)"), _run, " \t"),
    "typography": Normaliser(
        re.compile(
            rf"(?<![{_BLANKS}])[{_BLANKS}]*+(?:\r?\n|\Z)|(?<![^\n])[{_BLANKS}]++"
            rf"|(?P<run>[{INVISIBLE}]*[ \t{SPACES}][{_BLANKS}]*+)|[{INVISIBLE}]++"
            rf"|(?P<character>[{QUOTES}{DASHES}\u2026]|.[\u0300-\u036f]++)"
        ),
        _folded,
        _BLANKS,
    ),
}


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
    found = []
    at = text.find(old)
    while at >= 0:
        match = Match(at, at + len(old), old, new)
        # The first half of the line end belongs to it.
        if old[0] == "\n" and text[at - 1 : at] == "\r":
            match = match._replace(start=at - 1, old="\r" + old)
        found.append(match)
        at = text.find(old, at + 1)
    return found


def _loose(name: str, text: str, old: str, new: str) -> list[Match]:
    if name == "typography" and text.isascii() and old.isascii():
        return []
    return [Match(*span, old, new) for span in NORMALISERS[name].find(text, old)]


def shifted(text: str, old: str, new: str) -> list[Match]:
    """The same lines, all shifted to another indentation; of one line alone that says nothing."""
    olds = split_lines(old.replace("\r\n", "\n"))
    if sum(line != "\n" for line in olds) < 2:
        return []
    matches = _loose("trimmed_lines", text, old, new)
    return [
        found
        for found in matches
        if Indentation(olds, split_lines(text[found.start : found.end])).is_shift
    ]


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
    found = near_blocks(
        lines, split_lines(old.replace("\r\n", "\n")), split_lines(new.replace("\r\n", "\n"))
    )
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
    for name in ("line_ends", "shifted", "trimmed_lines", "whitespace", "typography"):
        if found := STRATEGIES[name](text, old, new):
            return found
    return []


def _unescaped(text: str, kinds: set[str]) -> str:
    return _ESCAPE.sub(lambda match: _ESCAPES[match[1]] if match[1] in kinds else match[0], text)


def _escaped(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\\n").replace("\t", "\\t")


STRATEGIES: dict[str, Callable[[str, str, str], list[Match]]] = {
    "exact": exact,
    "line_ends": partial(_loose, "line_ends"),
    "shifted": shifted,
    "trimmed_lines": partial(_loose, "trimmed_lines"),
    "whitespace": partial(_loose, "whitespace"),
    "typography": partial(_loose, "typography"),
    "escapes": escapes,
    "boundary": boundary,
    "block": block,
}
