"""The lines of a match that differs from the old text of an edit, after the edit.

Lines that the edit does not change keep the file's white space, line ends and quotes. Changed lines
come from the edit, indented as the match is.
"""

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

from hermetic.tools.edits.lines import bare, ending, fold, gist, indentation

LONGEST_LINE = 2000  # characters of a line that is compared with another one by one
_CLUSTER = re.compile(r"\s+|.[\u0300-\u036f]*", re.DOTALL)

Pair = tuple[str, str]  # the indentation of a line as it was written, and as it stands in the file


class Indentation:
    """A map of indentations, inferred from lines that are known on both sides."""

    def __init__(self, olds: Sequence[str], heres: Sequence[str]) -> None:
        lines = zip(olds, heres, strict=False)
        pairs = [(indentation(o), indentation(h)) for o, h in lines if o.strip() and h.strip()]
        self._known = dict(reversed(pairs))  # the first line with an indentation decides for it
        self._added = _common_prefix_added(pairs)
        self._removed = _common_prefix_added([(there, here) for here, there in pairs])

    @property
    def is_shift(self) -> bool:
        """True where all lines are shifted by the same."""
        return self._added is not None or self._removed is not None

    def move(self, line: str) -> str:
        """The line as it is indented in the file."""
        content = line.lstrip(" \t")
        return self._moved(line[: len(line) - len(content)]) + content if content else ""

    def _moved(self, indent: str) -> str:
        if indent in self._known:
            return self._known[indent]
        if self._added is not None:
            return self._added + indent
        if self._removed is not None:
            return indent.removeprefix(self._removed) if indent.startswith(self._removed) else ""
        if (scaled := self._scaled(indent)) is not None:
            return scaled
        known = max(
            (prefix for prefix in self._known if indent.startswith(prefix)), key=len, default=None
        )
        return indent if known is None else self._known[known] + indent[len(known) :]

    def _scaled(self, indent: str) -> str | None:
        """Tabs for spaces, or another width, by the shallowest and the deepest known line; None
        without such a rule.
        """
        written = {character for here in self._known for character in here}
        there = {character for other in self._known.values() for character in other}
        if len(written) != 1 or len(there) != 1 or set(indent) - written:
            return None
        points = {(len(here), len(other)) for here, other in self._known.items()}
        (x0, y0), *_, (x1, y1) = sorted(points | {(0, 0)} if len(points) == 1 else points)
        if (
            x1 == x0
            or y1 <= y0
            or any((y - y0) * (x1 - x0) != (x - x0) * (y1 - y0) for x, y in points)
        ):
            return None
        steps, rest = divmod((len(indent) - x0) * (y1 - y0), x1 - x0)
        return None if rest or y0 + steps < 0 else there.pop() * (y0 + steps)


def _common_prefix_added(pairs: Sequence[Pair]) -> str | None:
    """The text that stands before each of the first to make the second; None where there is no such
    text.
    """
    added = {
        there[: len(there) - len(here)] if there.endswith(here) else None for here, there in pairs
    }
    return added.pop() if len(added) == 1 else None


def merge(
    olds: Sequence[str],
    heres: Sequence[str],
    news: Sequence[str],
    places: Sequence[int | None],
    *,
    line_end: str,
    starts_line: bool = True,
) -> list[str] | None:
    """The file's lines `heres` after the edit; None where the edit changes a line that is not
    there.

    `places` has for each old line the number of the same line in `heres`. All lines of the result
    end with a line end. `starts_line=False`: the first line is a part of one.
    """
    known = [at for at, place in enumerate(places) if place is not None and (at or starts_line)]
    indents = Indentation([olds[at] for at in known], [heres[places[at] or 0] for at in known])
    plain = [bare(line).rstrip() for line in olds]
    plain_new = [bare(line).rstrip() for line in news]
    result: list[str] = []
    position = 0
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, plain, plain_new, False).get_opcodes():
        if tag == "equal":
            continue
        stretch = _stretch(places, i1, i2)
        if stretch is None:
            return None
        result += heres[position : stretch[0]]
        position = stretch[1]
        for j in range(j1, j2):
            if j == 0 and not starts_line:  # it continues a line
                content = bare(news[0]).removeprefix(indentation(olds[0]))
            else:
                content = indents.move(bare(news[j]))
            if i2 - i1 == j2 - j1:
                old, here = olds[i1 + j - j1], heres[stretch[0] + j - j1]
                is_same_depth = (
                    indentation(old) == indentation(news[j]) and here.strip() and news[j].strip()
                )
                if is_same_depth and (starts_line or i1 + j > j1):
                    content = indentation(here) + content.lstrip(" \t")
                content = _carried(old, here, content)
            result.append(content)
    return [line if ending(line) else line + line_end for line in [*result, *heres[position:]]]


def _stretch(places: Sequence[int | None], i1: int, i2: int) -> tuple[int, int] | None:
    """The file's lines for old lines that the edit changes, or between which it adds."""
    if i1 == i2:
        before = places[i1 - 1] if i1 else None
        after = places[i1] if i1 < len(places) else None
        if before is not None and after is not None and after != before + 1:
            return None
        at = after if before is None else before + 1
        return None if at is None else (at, at)
    known = [place for place in places[i1:i2] if place is not None]
    if len(known) != i2 - i1 or known[-1] - known[0] != i2 - i1 - 1:
        return None
    return known[0], known[-1] + 1


def _carried(old: str, here: str, new: str) -> str:
    """The new line with the typography of the file, where the edit does not change that."""
    old, here, lead = bare(old).strip(), bare(here).strip(), indentation(new)
    is_spelt_alike = fold(here) == here and fold(old) == old
    if is_spelt_alike or gist(old) != gist(here) or len(here) > LONGEST_LINE:
        return new
    ours, theirs = _CLUSTER.findall(old), _CLUSTER.findall(here)
    if len(ours) != len(theirs):
        return new
    wanted = _CLUSTER.findall(new[len(lead) :])
    result: list[str] = []
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, ours, wanted, False).get_opcodes():
        result += theirs[i1:i2] if tag == "equal" else wanted[j1:j2]
    return lead + "".join(result)
