"""The new text for a match that differs from the old text of the edit.

Parts that the edit does not change keep the file's white space, line ends and quotes. Changed parts come from the
edit, indented as the match is.
"""

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from hermetic.tools.edits.indenting import Indentation
from hermetic.tools.edits.lines import bare, ending, fold, gist, indentation, split_lines

_CLUSTER = re.compile(r"\s+|.[\u0300-\u036f]*", re.DOTALL)
LONGEST_LINE = 2000  # characters of a line that is compared with another one by one


def merge(old: str, here: str, new: str, *, line_end: str, whole_lines: bool) -> str:
    """What becomes of `here`, which `old` stands for line by line, when `old` becomes `new`.

    `whole_lines` says that `here` begins where a line does.
    """
    olds, heres, news = _lines(old), split_lines(here), _lines(new)
    ends_file = old.endswith("\n") and (not here.endswith("\n") or len(heres) < len(olds))
    heres += [""] * (len(olds) - len(heres))  # the old text ends in a line that is empty here
    skip = 0 if whole_lines else 1
    indents = Indentation(known_indents(olds[skip:], heres[skip:]))
    result: list[str] = []
    for tag, i, j in steps(olds, news):
        if tag == "keep":
            content, own_end = bare(heres[i]), ending(heres[i])
        else:
            content, own_end = _moved(news[j], indents, olds[0] if j == 0 and not whole_lines else None), ""
            if tag == "change":
                content = _like(olds[i], heres[i], news[j], content) if whole_lines or i else content
                content = _carried(olds[i], heres[i], content)
        result.append(content + ((own_end or line_end) if news[j].endswith("\n") else ""))
    if result and ends_file:  # which has no line end there
        result[-1] = bare(result[-1])
    return "".join(result)


def steps(olds: Sequence[str], news: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    """For each new line whether it is kept, changed or added; with the old line it stands for, and its own number."""
    matcher = SequenceMatcher(
        None, [bare(line).rstrip() for line in olds], [bare(line).rstrip() for line in news], False
    )
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        for j in range(j1, j2):
            if tag == "equal":
                yield "keep", i1 + j - j1, j
            elif i2 - i1 == j2 - j1:
                yield "change", i1 + j - j1, j
            else:
                yield "add", i1, j


def known_indents(olds: Sequence[str], heres: Sequence[str]) -> list[tuple[str, str]]:
    """The indentation of lines that are known in both, blank ones left out."""
    return [(indentation(o), indentation(h)) for o, h in zip(olds, heres, strict=False) if o.strip() and h.strip()]


def _lines(text: str) -> list[str]:
    return split_lines(text.replace("\r\n", "\n"))


def _moved(line: str, indents: Indentation, partial: str | None) -> str:
    if partial is not None:  # it goes on where a line has begun already
        return bare(line).removeprefix(indentation(partial))
    return indents.move(bare(line))


def _like(old: str, here: str, new: str, content: str) -> str:
    """A line that stands for another at the same depth is indented as that is."""
    is_same = indentation(old) == indentation(new) and here.strip() and new.strip()
    return indentation(here) + content.lstrip(" \t") if is_same else content


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
