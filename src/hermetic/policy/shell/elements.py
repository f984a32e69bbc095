"""Elements of arrays and of positional parameters: which one an index names."""

from __future__ import annotations

from hermetic.policy.marks import NUMBER, is_plain, unknown_like

from .state import Value, texts_of

MAX_INDEX = 4096


class Several(str):
    """A field that may stand for any number of fields: unknown text that was split, or a glob."""


def several_at(values: list[str]) -> int | None:
    """The place of the first field that may be several; None without one."""
    return next((at for at, value in enumerate(values) if isinstance(value, Several)), None)


def element(values: list[str], number: int) -> str:
    """An element, nothing where there is none; unknown where fields before it may be several."""
    several = several_at(values)
    if several is not None and not 0 <= number < several:
        possible = set(values[several : number + 1] if number >= 0 else values)
        return possible.pop() if len(possible) == 1 else unknown_like(*values)
    return values[number] if -len(values) <= number < len(values) else ""


def without_first(values: list[str], count: int) -> list[str]:
    """The fields behind the first ones; a field that may be several stays."""
    several = several_at(values[:count])
    return values[count if several is None else several :]


def of_map(value: dict[str, str], key: str, number: str) -> str:
    """What an associative or a sparse array has under a key or the number that it computes to."""
    if not is_plain(key) or not all(map(is_plain, value)):
        return unknown_like(*value.values())
    if number.startswith("-"):
        number = str(max(map(int, value), default=-1) + 1 + int(number))
    return value[key] if key in value else value.get(number, "")


def numbered(value: Value | None) -> dict[str, str]:
    """An array by its indices; what has none that is known is under an unknown number."""
    if isinstance(value, dict):
        return value
    texts = texts_of(value) if value is not None else []
    several = several_at(texts)
    pairs = {str(at): text for at, text in enumerate(texts[:several])}
    return pairs if several is None else {**pairs, NUMBER: unknown_like(*texts[several:])}


def in_order(value: Value) -> list[str]:
    """The elements of an array, as `"${a[@]}"` gives them."""
    if not isinstance(value, dict) or not is_indexed(value):
        return texts_of(value)
    if not all(map(str.isdigit, value)):
        return [Several(unknown_like(*value.values()))]
    return [value[key] for key in sorted(value, key=lambda key: (len(key), key))]


def is_indexed(value: Value | None) -> bool:
    """Whether the indices of a variable are arithmetic: it is not known as an associative array."""
    return not isinstance(value, dict) or (
        bool(value) and all(key.isdigit() or not is_plain(key) for key in value)
    )


def listed(pairs: dict[str, str]) -> Value:
    """The list of an array whose indices have no gaps; else its pairs."""
    found = [pairs[str(at)] for at in range(len(pairs)) if str(at) in pairs]
    return found if len(found) == len(pairs) else pairs
