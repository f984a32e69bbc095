"""Regular expressions that match a text in spite of different white space or typography."""

import re
from collections.abc import Callable

from hermetic.tools.edits.lines import fold, spellings

_SPACES = " \t\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"
_INVISIBLE = "[\u200b\u200c\u200d\u2060\ufeff\u00ad]"
_LINE_REST = r"(?=[ \t]*\r?(?:\n|\Z))"
_WORD = re.compile(r"\w")


def same_but_line_ends(old: str) -> re.Pattern[str]:
    """Line ends and white space before them may differ."""
    return _assemble([line.rstrip(" \t") for line in _lines(old)], _guard(old), "", _escaped)


def same_but_indentation(old: str) -> re.Pattern[str]:
    """Whole lines, whose white space at both ends may differ."""
    lines = [line.strip(" \t") for line in _lines(old)]
    return _assemble(lines, _LINE_REST if lines[-1] else "", "[ \t]*", _escaped, start="^[ \t]*")


def same_but_runs(old: str) -> re.Pattern[str]:
    """As before, and one white space stands for any number of them; the text may begin and end within a line."""
    lines = [line.strip(" \t") for line in _lines(old)]
    return _assemble(lines, _guard(old), "[ \t]*", _with_runs, start="(?:^[ \t]*)?")


def same_but_typography(old: str, *, invisible: bool) -> re.Pattern[str]:
    """As before, and quotes, dashes, spaces and accents may be spelt in another way.

    `invisible` allows for characters of no width, which costs time.
    """
    lines = [fold(line).strip() for line in _lines(old)]
    between = f"{_INVISIBLE}*" if invisible else ""

    def spelt(line: str) -> str:
        return _spelt(line, between)

    blank = f"[{_SPACES}]*"
    return _assemble(lines, _guard(old), blank, spelt, start=f"(?:^{blank}{between})?", blank=blank)


def _lines(old: str) -> list[str]:
    return old.replace("\r\n", "\n").split("\n")


def _guard(old: str) -> str:
    """White space at the very end of the text means that nothing follows on that line."""
    return _LINE_REST if old[-1:] in (" ", "\t") else ""


def _assemble(
    lines: list[str], end: str, indent: str, spell: Callable[[str], str], *, start: str = "", blank: str = "[ \t]*"
) -> re.Pattern[str]:
    parts = [start]
    if _WORD.match(lines[0][:1]):
        parts.append(r"(?<!\w)")
    for number, line in enumerate(lines):
        if number:
            is_end = number == len(lines) - 1 and not line
            parts.append(blank + (r"(?:\r?\n|\Z)" if is_end else r"\r?\n") + (indent if line else ""))
        parts.append(spell(line))
    if _WORD.match(lines[-1][-1:]):
        parts.append(r"(?!\w)")
    return re.compile("".join([*parts, end]), re.MULTILINE)


def _escaped(line: str) -> str:
    return re.escape(line)


def _with_runs(line: str) -> str:
    return "[ \t]+".join(map(re.escape, re.split("[ \t]+", line)))


def _spelt(line: str, between: str) -> str:
    parts = []
    for piece in re.findall(r"\.\.\.|\s+|.", line):
        if piece == "...":
            parts.append("(?:\\.\\.\\.|\u2026)")
        elif piece.isspace():
            parts.append(f"[{_SPACES}]+")
        else:
            forms = sorted(spellings(piece), key=len, reverse=True)
            parts.append(re.escape(piece) if len(forms) == 1 else f"(?:{'|'.join(map(re.escape, forms))})")
    return between.join(parts)
