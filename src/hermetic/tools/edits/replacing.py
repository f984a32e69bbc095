"""Replaces one text by another, at a unique match or at all matches."""

import re
from collections.abc import Iterator

import msgspec

from hermetic.contract.errors import EditRefused
from hermetic.tools.edits.lines import bare, split_lines, usual_ending
from hermetic.tools.edits.matching import Match, find
from hermetic.tools.edits.merging import merge
from hermetic.tools.edits.near_miss import explain

_REST = re.compile(r"[ \t]+(?=\r?(?:\n|\Z))")
MOST_NAMED = 8  # places that a refusal names


class Replaced(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a replacement."""

    text: str
    strategy: str  # how the place was found
    lines: tuple[int, ...]  # where the replaced stretches began, from 1


def replace(text: str, old: str, new: str, *, replace_all: bool = False) -> Replaced:
    """The text with `new` for `old`.

    Raises EditRefused, which says where `old` may be or what differs.
    """
    if not old:
        raise EditRefused(
            "old_string is empty; give the text to replace, or write the file as a whole",
            reason="malformed",
        )
    if old == new:
        raise EditRefused(
            "old_string and new_string are the same; nothing would change", reason="unchanged"
        )
    strategy, found = find(text, old, new)
    if not found:
        raise EditRefused(explain(text, old, new), reason="missing")
    if len(found) > 1 and (not replace_all or strategy == "block"):
        raise EditRefused(_ambiguous(text, found, strategy), reason="ambiguous")
    places = list(
        _apart(found if strategy == "exact" else [_to_line_end(text, place) for place in found])
    )
    result = _put(text, places)
    if result == text:
        raise EditRefused(
            "the file would stay as it is: what differs is white space or line ends that an edit keeps as they are; "
            "give old_string exactly as the file has it to change those",
            reason="unchanged",
        )
    return Replaced(text=result, strategy=strategy, lines=tuple(_line_numbers(text, places)))


def _apart(found: list[Match]) -> Iterator[Match]:
    """Those that do not overlap with an earlier one."""
    end = 0
    for place in sorted(found):
        if place.start >= end:
            end = place.end
            yield place


def _to_line_end(text: str, place: Match) -> Match:
    """With the white space that ends its last line, so that a line which stays keeps it."""
    rest = _REST.match(text, place.end)
    if rest is None or text[place.start : place.end] == place.old:
        return place
    return place._replace(end=rest.end())


def _line_numbers(text: str, places: list[Match]) -> Iterator[int]:
    number, position = 1, 0
    for place in places:
        number += text.count("\n", position, place.start)
        position = place.start
        yield number


def _put(text: str, places: list[Match]) -> str:
    parts, position, usual = [], 0, usual_ending(text) if "\n" in text else None
    for place in places:
        parts += [text[position : place.start], _becomes(text, place, usual)]
        position = place.end
    return "".join([*parts, text[position:]])


def _becomes(text: str, place: Match, usual: str | None) -> str:
    """The new text for one place.

    `usual` is how lines of the file end; None where it has but one.
    """
    here = text[place.start : place.end]
    line_end = usual_ending(here) if "\n" in here else usual or "\n"
    if here == place.old:
        plain = place.new.replace("\r\n", "\n")
        # No line end to follow, or a change of them.
        if usual is None or plain == place.old.replace("\r\n", "\n"):
            return place.new
        return plain.replace("\n", line_end)
    starts_line = place.start == 0 or text[place.start - 1] == "\n"
    olds, heres, news = _lines(place.old), split_lines(here), _lines(place.new)
    ends_file = place.old.endswith("\n") and (not here.endswith("\n") or len(heres) < len(olds))
    heres += [""] * (len(olds) - len(heres))  # the old text ends in a line that is empty here
    merged = (
        merge(olds, heres, news, range(len(olds)), line_end=line_end, starts_line=starts_line) or []
    )
    if merged and (ends_file or not place.new.endswith("\n")):
        merged[-1] = bare(merged[-1])
    return "".join(merged)


def _lines(text: str) -> list[str]:
    return split_lines(text.replace("\r\n", "\n"))


def _ambiguous(text: str, found: list[Match], strategy: str) -> str:
    lines = split_lines(text)
    numbers = _line_numbers(text, found[:MOST_NAMED])
    named = [f"{number}: {bare(lines[number - 1]).strip()[:80]}" for number in numbers]
    more = f"\n… and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    how = "" if strategy == "exact" else f" (found by {strategy}, not exactly)"
    return (
        f"old_string stands in {len(found)} places{how}; add lines around it until it is the only one, "
        "or pass replace_all=true to change all. It begins in these lines:\n"
        + "\n".join(named)
        + more
    )
