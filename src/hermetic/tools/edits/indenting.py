"""Re-indents lines that were written for another indentation."""

from collections.abc import Sequence

Pair = tuple[str, str]  # the indentation of a line as it was written, and as it stands in the file


class Indentation:
    """A map of indentations, inferred from lines that are known on both sides."""

    def __init__(self, pairs: Sequence[Pair]) -> None:
        self._known = dict(reversed(pairs))  # the first line with an indentation decides for it
        self._added = _common_prefix_added(pairs)
        self._removed = _common_prefix_added([(there, here) for here, there in pairs])
        self._scale = _scale(list(self._known.items()))

    @property
    def is_shift(self) -> bool:
        """True where all lines are shifted by the same."""
        return self._added is not None or self._removed is not None

    def move(self, line: str) -> str:
        """The line as it is indented in the file."""
        content = line.lstrip(" \t")
        if not content:
            return ""
        return self._moved(line[: len(line) - len(content)]) + content

    def _moved(self, indent: str) -> str:
        if indent in self._known:
            return self._known[indent]
        if self._added is not None:
            return self._added + indent
        if self._removed is not None:
            return indent.removeprefix(self._removed) if indent.startswith(self._removed) else ""
        if self._scale is not None and (scaled := self._scale.apply(indent)) is not None:
            return scaled
        known = max((prefix for prefix in self._known if indent.startswith(prefix)), key=len, default=None)
        return indent if known is None else self._known[known] + indent[len(known) :]


class _Scale:
    """So many characters of the file's for so many as written, on top of a first level."""

    def __init__(self, written: str, there: str, ratio: tuple[int, int], base: tuple[int, int]) -> None:
        self._written, self._there, self._ratio, self._base = written, there, ratio, base

    def apply(self, indent: str) -> str | None:
        """None where it does not come out even."""
        if indent.strip(self._written):
            return None
        times, per = self._ratio
        count, rest = divmod((len(indent) - self._base[0]) * times, per)
        total = self._base[1] + count
        return None if rest or total < 0 else self._there * total


def _common_prefix_added(pairs: Sequence[Pair]) -> str | None:
    """The text that stands before each of the first to make the second; None where there is no such text."""
    added = {there[: len(there) - len(here)] if there.endswith(here) else None for here, there in pairs}
    return added.pop() if len(added) == 1 else None


def _scale(pairs: list[Pair]) -> _Scale | None:
    """Tabs for spaces, or another width: from the shallowest and the deepest line that are known."""
    written = {character for here, _ in pairs for character in here}
    there = {character for _, other in pairs for character in other}
    if len(written) != 1 or len(there) != 1:
        return None
    points = sorted({(len(here), len(other)) for here, other in pairs} | ({(0, 0)} if len(pairs) == 1 else set()))
    (x0, y0), (x1, y1) = points[0], points[-1]
    if x1 == x0 or y1 <= y0 or any((y - y0) * (x1 - x0) != (x - x0) * (y1 - y0) for x, y in points):
        return None
    return _Scale(written.pop(), there.pop(), (y1 - y0, x1 - x0), (x0, y0))
