"""What changed, as a unified diff that `patch` and `git apply` take, within a budget."""

from collections import Counter
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Literal

from hermetic.tools.edits.lines import split_lines

CONTEXT = 3  # lines around a change
# Lines on either side that are compared with each other; longer stretches are shown as replaced.
MOST_COMPARED = 4_000
MOST_PAIRS = 500_000  # of equal lines, one on either side
NO_NEWLINE = "\\ No newline at end of file\n"

Tag = Literal["replace", "delete", "insert", "equal"]


def unified_diff(old_path: str | None, new_path: str | None, old: str, new: str) -> str:
    """The diff of one file; a path of None is a file that is not there.

    "" where nothing but a name changed.
    """
    olds, news = split_lines(old), split_lines(new)
    parts: list[str] = []
    for group in _Comparison(olds, news).get_grouped_opcodes(CONTEXT):
        (_, i1, _, j1, _), (_, _, i2, _, j2) = group[0], group[-1]
        parts.append(f"@@ -{_range(i1, i2)} +{_range(j1, j2)} @@\n")
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                parts += (_line(" ", line) for line in olds[i1:i2])
            else:
                parts += (_line("-", line) for line in olds[i1:i2])
                parts += (_line("+", line) for line in news[j1:j2])
    if not parts:
        return ""
    return "".join([f"--- {_named('a', old_path)}\n", f"+++ {_named('b', new_path)}\n", *parts])


def within(diff: str, most: int) -> str:
    """The diff, whole lines of it, in so many characters; a last line says what is left out."""
    if len(diff) <= most:
        return diff
    kept = diff[: diff.rfind("\n", 0, most) + 1]
    left = diff.count("\n", len(kept))
    return f"{kept}… {left:,} more lines of this diff; read the files to see them\n"


def _named(side: str, path: str | None) -> str:
    return "/dev/null" if path is None else f"{side}/{path.lstrip('/')}"


class _Comparison(SequenceMatcher[str]):
    """Two texts by their lines, in bounded time."""

    def __init__(self, olds: list[str], news: list[str]) -> None:
        super().__init__(None, (), (), False)
        self._olds, self._news = olds, news

    def get_opcodes(self) -> list[tuple[Tag, int, int, int, int]]:
        """What is equal, and what replaces what."""
        found: list[tuple[Tag, int, int, int, int]] = []
        old = new = 0
        for i1, i2, j1, j2 in self._changes():
            found += [("equal", old, i1, new, j1)] if i1 > old else []
            found.append(("replace", i1, i2, j1, j2))
            old, new = i2, j2
        end = len(self._olds), len(self._news)
        return [*found, ("equal", old, end[0], new, end[1])] if end[0] > old else found

    def _changes(self) -> Iterator[tuple[int, int, int, int]]:
        """Lines [i1, i2) of the old text that became [j1, j2) of the new."""
        olds, news = self._olds, self._news
        start, most = 0, min(len(olds), len(news))
        while start < most and olds[start] == news[start]:
            start += 1
        end = 0
        while end < most - start and olds[-1 - end] == news[-1 - end]:
            end += 1
        ours, theirs = olds[start : len(olds) - end], news[start : len(news) - end]
        if max(len(ours), len(theirs)) <= MOST_COMPARED and _pairs(ours, theirs) <= MOST_PAIRS:
            for tag, i1, i2, j1, j2 in SequenceMatcher(None, ours, theirs, False).get_opcodes():
                if tag != "equal":
                    yield start + i1, start + i2, start + j1, start + j2
        elif len(ours) == len(theirs):
            for at, (one, other) in enumerate(zip(ours, theirs, strict=True), start):
                if one != other:
                    yield at, at + 1, at, at + 1
        else:
            yield start, start + len(ours), start, start + len(theirs)


def _pairs(ours: list[str], theirs: list[str]) -> int:
    """How many lines of one side are equal to one of the other: what a comparison goes through,
    again and again.
    """
    counts = Counter(theirs)
    return sum(counts[line] for line in ours)


def _range(start: int, end: int) -> str:
    count = end - start
    if count == 1:
        return str(start + 1)
    return f"{start + 1 if count else start},{count}"


def _line(sign: str, line: str) -> str:
    return sign + line if line.endswith("\n") else f"{sign}{line}\n{NO_NEWLINE}"
