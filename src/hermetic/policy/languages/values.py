"""Values that a script computes with, as far as they can be known."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from hermetic.policy.budget import MAX_TEXT
from hermetic.policy.marks import UNSET, marks_in

# str, bytes, int, float, bool, None, list, dict, a function of (args, keywords), or a class below.
Value = object
Function = Callable[[list[Value], dict[str, Value]], Value]

MAX_ITEMS = 2_000  # of a list or dict, nested ones included
MAX_CHOICES = 8


class Name(str):
    """A dotted name that the text refers to, such as os.system."""

    __slots__ = ()


class Unpacked(bytes):
    """Bytes that only a decoder shows."""

    __slots__ = ()


class Decoded(str):
    """Text that came out of a decoder."""

    __slots__ = ()


class Obj(msgspec.Struct, eq=False):
    """A value known by the call that made it; `path` and `text` are what it names and holds."""

    call: str
    path: str | None = None
    text: str = ""


class Bound(msgspec.Struct, eq=False):
    """A method of a constant."""

    base: Value
    attr: str


class OneOf(msgspec.Struct, eq=False):
    """One of several values, depending on the branch taken."""

    values: list[Value]


class Class(msgspec.Struct, eq=False):
    """A class that the text defines."""

    name: str
    members: dict[str, Value]
    bases: list[Value]

    def find(self, attr: str, depth: int = 0) -> Value:
        """The attribute; None where the text does not define it."""
        if attr in self.members or depth > MAX_CHOICES:
            return self.members.get(attr)
        found = (base.find(attr, depth + 1) for base in self.bases if isinstance(base, Class))
        return next((value for value in found if value is not None), None)


class Instance(msgspec.Struct, eq=False):
    """An object of such a class."""

    kind: Class


UNKNOWN = Obj("?")
CALLABLE = (Name, OneOf, Class, Instance)


def is_function(value: Value) -> bool:
    """True for what a callee may call."""
    return isinstance(value, CALLABLE) or callable(value)


def is_text(value: Value) -> bool:
    """True for a string constant."""
    return isinstance(value, str) and not isinstance(value, Name)


def is_endless(value: Value) -> bool:
    """True for an iterator without end."""
    return isinstance(value, Obj) and value.call in (
        "iter",
        "itertools.count",
        "itertools.repeat",
        "itertools.cycle",
    )


def one_of(values: Iterable[Value]) -> Value:
    """A choice between the values; the value itself if they are all equal.

    More than MAX_CHOICES give an unknown value with the marks of all.
    """
    found: list[Value] = []
    for value in values:
        for one in choices(value):
            if not any(one is other or _equal(one, other) for other in found):
                found.append(one)
    if len(found) > MAX_CHOICES:
        return Obj("?", text=marks_of(found))
    return found[0] if len(found) == 1 else OneOf(found) if found else UNKNOWN


def _equal(one: Value, other: Value) -> bool:
    return type(one) is type(other) and isinstance(one, str | bytes | int) and one == other


def choices(value: Value) -> list[Value]:
    """Each value it may be."""
    return value.values if isinstance(value, OneOf) else [value]


def items_of(value: Value) -> Iterable[Value]:
    """The values that a list, dict or choice holds."""
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else value.values if isinstance(value, OneOf) else ()


def count_items(value: Value) -> int:
    """How many values a list or dict holds, nested ones included; counting stops above MAX_ITEMS."""
    count, todo = 0, [value]
    while todo and count <= MAX_ITEMS:
        inner = list(items_of(todo.pop()))
        count += len(inner)
        todo += [item for item in inner if isinstance(item, list | dict | OneOf)]
    return count


def is_too_long(value: Value) -> bool:
    """True for a text beyond the size that is computed."""
    return isinstance(value, str | bytes) and len(value) > MAX_TEXT


def element_of(value: Value) -> Value:
    """An item of a value that is not a known list."""
    if isinstance(value, OneOf):
        return one_of(element_of(one) for one in value.values)
    if not isinstance(value, Obj):
        return UNKNOWN
    return Obj(value.call if value.call in ("cloud", "containers") else "?", value.path, value.text)


def bounded(values: list[Value], most: int) -> list[Value]:
    """The first values; the rest become one unknown value."""
    return values if len(values) <= most else [*values[:most], UNKNOWN]


def marks_of(value: Value) -> str:
    """The origins of the unknown text in a value."""
    if isinstance(value, Obj):
        return marks_in(value.text)
    if isinstance(value, str):
        return marks_in(value) if not isinstance(value, Name) else ""
    return "".join(marks_of(item) for item in items_of(value))


def text_of(value: Value) -> str:
    """The value as the shell would see it; marks where it is unknown."""
    if isinstance(value, Name):
        return UNSET
    if isinstance(value, str):
        return value if value.isascii() else "".join(map(_as_bytes, value))
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, bool | int | float):
        return str(value)
    if isinstance(value, Obj) and value.path is not None:
        return value.path
    return marks_of(value) or UNSET


def _as_bytes(char: str) -> str:
    return char if ord(char) >= 0xE000 else char.encode("utf-8", "replace").decode("latin-1")
