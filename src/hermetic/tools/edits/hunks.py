"""Applies the hunks of a patch: each is located by its lines, by the @@ hints above, and by the
order.
"""

from collections.abc import Sequence
from typing import NamedTuple

from hermetic.contract.errors import EditRefused
from hermetic.tools.edits.blocks import near_blocks
from hermetic.tools.edits.lines import bare, ending, gist, indentation, split_lines, usual_ending
from hermetic.tools.edits.matching import NORMALISERS
from hermetic.tools.edits.merging import Indentation
from hermetic.tools.edits.near_miss import explain
from hermetic.tools.edits.v4a import Hunk

# What closes a section belongs to it.
_SAME_SECTION = ("{", ")", "]", "}", "end", "fi", "done", "esac", "</")


class Splice(NamedTuple):
    """The lines from `first` to before `last` become others."""

    first: int
    last: int
    becomes: list[str]


def apply_hunks(text: str, hunks: Sequence[Hunk]) -> str:
    """The text after all hunks. Raises EditRefused that names the hunk."""
    lines = split_lines(text)
    splices: list[Splice] = []
    cursor = 0
    for hunk in hunks:
        splice = _splice(lines, hunk, cursor, splices)
        splices.append(splice)
        cursor = splice.last
    return _joined(lines, sorted(splices, key=lambda splice: splice[:2]), text)


def _joined(lines: list[str], splices: list[Splice], text: str) -> str:
    result: list[str] = []
    position = 0
    for splice in splices:
        result += [*lines[position : splice.first], *splice.becomes]
        position = splice.last
    result += lines[position:]
    line_end = usual_ending(text)
    whole = [line if line.endswith("\n") else line + line_end for line in result]
    if whole and text and not text.endswith("\n"):  # a text without a last line end stays one
        whole[-1] = bare(whole[-1])
    return "".join(whole)


def _splice(lines: list[str], hunk: Hunk, cursor: int, taken: list[Splice]) -> Splice:
    if not hunk.old:
        at = _place_to_add(lines, hunk)
        return Splice(at, at, _written(hunk.new, Indentation([], []), usual_ending("".join(lines))))
    found = _found(lines, hunk)
    free = [splice for splice in found if not any(_overlap(splice, other) for other in taken)]
    if found and not free:
        raise _refused(
            hunk,
            "its lines are changed by another hunk of this patch; make one of them",
            "conflict",
        )
    return _chosen(lines, hunk, free, cursor)


def _overlap(one: Splice, other: Splice) -> bool:
    return one.first < other.last and other.first < one.last


def _found(lines: list[str], hunk: Hunk) -> list[Splice]:
    """Every match of its lines, by the strictest normaliser that matches."""
    text, old, size = "".join(lines), "".join(f"{line}\n" for line in hunk.old), len(hunk.old)
    for normaliser in NORMALISERS.values():
        starts, number, position = [], 0, 0
        for start, _ in normaliser.find(text, old, lines=True):
            number, position = number + text.count("\n", position, start), start
            starts.append(number)
        if starts:
            return [Splice(at, at + size, _becomes(lines[at : at + size], hunk)) for at in starts]
    return [
        Splice(block.first, block.last, block.becomes)
        for block in near_blocks(lines, hunk.old, hunk.new)
    ]


def _becomes(heres: list[str], hunk: Hunk) -> list[str]:
    """The file's own lines where they stay, the patch's where they come."""
    indents = Indentation(hunk.old, heres)
    line_end = next((ending(line) for line in heres if ending(line)), "")
    result, at = [], 0
    for sign, text in hunk.lines:
        if sign == "+":
            result += _written([text], indents, line_end)
            continue
        if sign == " ":
            result.append(heres[at])
        at += 1
    return result


def _written(texts: list[str], indents: Indentation, line_end: str) -> list[str]:
    return [(indents.move(text) if text.strip() else text) + line_end for text in texts]


def _chosen(lines: list[str], hunk: Hunk, found: list[Splice], cursor: int) -> Splice:
    if not found:
        old = "\n".join(hunk.old)
        raise _refused(
            hunk, explain("".join(lines), old, "\n".join(hunk.new), "the hunk's text"), "missing"
        )
    if hunk.at_end:
        last = len("".join(lines).rstrip().split("\n")) if "".join(lines).strip() else 0
        ends = [splice for splice in found if splice.last >= last]
        if not ends:
            where = _numbers(found)
            raise _refused(
                hunk,
                f"it says that the file ends there, but its lines stand at line {where}, before the end",
                "missing",
            )
        found = ends
    if hunk.hints:
        found = _below_hints(lines, hunk, found)
    elif len(found) > 1:
        found = [splice for splice in found if splice.first >= cursor] or found
    if len(found) > 1:
        why = f"its lines stand in {len(found)} places, at lines {_numbers(found)}; "
        raise _refused(
            hunk,
            why + "add lines around them, or an @@ line with the function or heading above",
            "ambiguous",
        )
    return found[0]


def _below_hints(lines: list[str], hunk: Hunk, found: list[Splice]) -> list[Splice]:
    """Those in the section that the hints name; where there are none, those after it.

    Raises EditRefused.
    """
    try:
        tops = _tops(lines, hunk)
    except EditRefused:
        if len(found) == 1:  # the place is clear without the hint
            return found
        raise
    within = [s for s in found if any(top <= s.first < _section_end(lines, top) for top in tops)]
    below = within or [s for s in found if any(s.last > top for top in tops)]
    if not below:
        hint = hunk.hints[-1]
        raise _refused(
            hunk,
            f"its lines stand at line {_numbers(found)}, which is not below {hint!r}",
            "missing",
        )
    return below


def _tops(lines: list[str], hunk: Hunk) -> list[int]:
    """The lines that the hints lead to; each hint is looked for below the one before it.

    Raises EditRefused.
    """
    tops, ends = [-1], [len(lines)]
    for hint in hunk.hints:
        below = [
            number
            for top, end in zip(tops, ends, strict=True)
            for number in _hinted(lines[top + 1 : end], hint, top + 1)
        ]
        tops = sorted(set(below))
        ends = [_section_end(lines, top) for top in tops]
        if not tops:
            raise _refused(
                hunk,
                f"no line is {hint!r}; give after @@ a line of the file as it stands",
                "missing",
            )
    return tops


def _hinted(lines: Sequence[str], hint: str, offset: int) -> list[int]:
    """Where the hint stands: as a whole line, else as its beginning, else within one."""
    wanted, keys = gist(hint), [gist(line) for line in lines]
    for matches in (str.__eq__, str.startswith, str.__contains__):
        if found := [offset + number for number, key in enumerate(keys) if matches(key, wanted)]:
            return found
    return []


def _section_end(lines: Sequence[str], top: int) -> int:
    """The first line after what is indented below the top."""
    depth = len(indentation(lines[top]).expandtabs(4))
    for number in range(top + 1, len(lines)):
        content = lines[number].strip()
        if (
            content
            and len(indentation(lines[number]).expandtabs(4)) <= depth
            and not content.startswith(_SAME_SECTION)
        ):
            return number
    return len(lines)


def _place_to_add(lines: list[str], hunk: Hunk) -> int:
    """Lines that come without any around them: below their hint, else at the end."""
    if not hunk.hints or hunk.at_end:
        return len(lines)
    tops = _tops(lines, hunk)
    if len(tops) > 1:
        named = ", ".join(str(top + 1) for top in tops[:8])
        raise _refused(
            hunk,
            f"its @@ line stands in {len(tops)} places, at lines {named}; add lines that stay around what comes",
            "ambiguous",
        )
    return tops[0] + 1


def _numbers(found: list[Splice]) -> str:
    return ", ".join(str(splice.first + 1) for splice in found[:8]) + (
        " …" if len(found) > 8 else ""
    )


def _refused(hunk: Hunk, why: str, reason: str) -> EditRefused:
    return EditRefused(
        f"the hunk at line {hunk.number} of the patch: {why}", reason=reason, argument="patch"
    )
