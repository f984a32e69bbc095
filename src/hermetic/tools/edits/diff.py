"""What changed, as a unified diff that `patch` and `git apply` take, within a budget."""

from collections import Counter
from collections.abc import Iterator
from difflib import SequenceMatcher

from hermetic.tools.edits.lines import split_lines

CONTEXT = 3  # lines around a change
# Lines on either side that are compared with each other; longer stretches are shown as replaced.
MOST_COMPARED = 4_000
MOST_PAIRS = 500_000  # of equal lines, one on either side
NO_NEWLINE = "\\ No newline at end of file\n"

Change = tuple[int, int, int, int]  # lines [i1, i2) of the old text became [j1, j2) of the new


def unified_diff(old_path: str | None, new_path: str | None, old: str, new: str) -> str:
    """The diff of one file; a path of None is a file that is not there.

    "" where nothing but a name changed.
    """
    olds, news = split_lines(old), split_lines(new)
    groups = list(_groups(_changes(olds, news), len(olds), len(news)))
    if not groups:
        return ""
    parts = [f"--- {_named('a', old_path)}\n", f"+++ {_named('b', new_path)}\n"]
    for group in groups:
        parts.append(_header(group))
        parts += _body(group, olds, news)
    return "".join(parts)


def within(diff: str, most: int) -> str:
    """The diff, whole lines of it, in so many characters; a last line says what is left out."""
    if len(diff) <= most:
        return diff
    kept = diff[: diff.rfind("\n", 0, most) + 1]
    left = diff.count("\n", len(kept))
    return f"{kept}… {left:,} more lines of this diff; read the files to see them\n"


def _named(side: str, path: str | None) -> str:
    return "/dev/null" if path is None else f"{side}/{path.lstrip('/')}"


def _changes(olds: list[str], news: list[str]) -> Iterator[Change]:
    start, most = 0, min(len(olds), len(news))
    while start < most and olds[start] == news[start]:
        start += 1
    end = 0
    while end < most - start and olds[-1 - end] == news[-1 - end]:
        end += 1
    ours, theirs = olds[start : len(olds) - end], news[start : len(news) - end]
    if not ours and not theirs:
        return
    if max(len(ours), len(theirs)) > MOST_COMPARED or _pairs(ours, theirs) > MOST_PAIRS:
        if len(ours) == len(theirs):
            yield from _line_by_line(ours, theirs, start)
        else:
            yield start, start + len(ours), start, start + len(theirs)
        return
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, ours, theirs, False).get_opcodes():
        if tag != "equal":
            yield start + i1, start + i2, start + j1, start + j2


def _pairs(ours: list[str], theirs: list[str]) -> int:
    """How many lines of one side are equal to one of the other: what a comparison goes through,
    again and again.
    """
    counts = Counter(theirs)
    return sum(counts[line] for line in ours)


def _line_by_line(ours: list[str], theirs: list[str], start: int) -> Iterator[Change]:
    for at, (one, other) in enumerate(zip(ours, theirs, strict=True), start):
        if one != other:
            yield at, at + 1, at, at + 1


def _groups(changes: Iterator[Change], olds: int, news: int) -> Iterator[list[Change]]:
    """Changes that are near each other, each group with the lines around it as its first and last."""
    group: list[Change] = []
    for change in changes:
        if group and change[0] - group[-1][1] > 2 * CONTEXT:
            yield _framed(group, olds, news)
            group = []
        group.append(change)
    if group:
        yield _framed(group, olds, news)


def _framed(group: list[Change], olds: int, news: int) -> list[Change]:
    before = min(CONTEXT, group[0][0], group[0][2])
    after = min(CONTEXT, olds - group[-1][1], news - group[-1][3])
    first = (group[0][0] - before, group[0][0] - before, group[0][2] - before, group[0][2] - before)
    last = (group[-1][1] + after, group[-1][1] + after, group[-1][3] + after, group[-1][3] + after)
    return [first, *group, last]


def _header(group: list[Change]) -> str:
    i1, j1, i2, j2 = group[0][0], group[0][2], group[-1][1], group[-1][3]
    return f"@@ -{_range(i1, i2)} +{_range(j1, j2)} @@\n"


def _range(start: int, end: int) -> str:
    count = end - start
    if count == 1:
        return str(start + 1)
    return f"{start + 1 if count else start},{count}"


def _body(group: list[Change], olds: list[str], news: list[str]) -> Iterator[str]:
    position = group[0][0]
    for i1, i2, j1, j2 in group:
        for line in olds[position:i1]:
            yield from _line(" ", line)
        for line in olds[i1:i2]:
            yield from _line("-", line)
        for line in news[j1:j2]:
            yield from _line("+", line)
        position = i2


def _line(sign: str, line: str) -> Iterator[str]:
    yield sign + line if line.endswith("\n") else f"{sign}{line}\n"
    if not line.endswith("\n"):
        yield NO_NEWLINE
