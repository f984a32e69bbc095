"""Values a Python text computes with, as far as they can be known."""

from __future__ import annotations

import codecs
from collections.abc import Iterable

from .budget import MAX_TEXT
from .marks import DECODED, UNSET, marks_in

Value = (
    object  # str, bytes, int, float, bool, None, list, dict, Name, Obj, Bound, OneOf, Class, Instance, Method, Getter
)

MAX_ITEMS = 2_000  # of a list or dict, with all that is in its items
MAX_CHOICES = 8


class Name(str):
    """A dotted name the text refers to, such as os.system."""


class Obj:
    """A value of which only its making is known: what was called, and the arguments that matter."""

    __slots__ = ("call", "path", "text")

    def __init__(self, call: str, path: str | None = None, text: str = "") -> None:
        self.call, self.path, self.text = call, path, text


class Bound:
    """A method of a constant."""

    __slots__ = ("attr", "base")

    def __init__(self, base: str | bytes | list[Value] | dict[str, Value], attr: str) -> None:
        self.base, self.attr = base, attr


class OneOf:
    """One of several values, by which way the text takes."""

    __slots__ = ("values",)

    def __init__(self, values: list[Value]) -> None:
        self.values = values


class Class:
    """A class that the text defines: what stands in its body, and the classes before it."""

    __slots__ = ("bases", "members", "name")

    def __init__(self, name: str, members: dict[str, Value], bases: list[Value]) -> None:
        self.name, self.members, self.bases = name, members, bases

    def find(self, attr: str, depth: int = 0) -> Value | None:
        """What the attribute is; None where it is not defined in the text."""
        if attr in self.members or depth > MAX_CHOICES:
            return self.members.get(attr)
        found = [base.find(attr, depth + 1) for base in self.bases if isinstance(base, Class)]
        return next((value for value in found if value is not None), None)


class Instance:
    """An object of such a class."""

    __slots__ = ("kind",)

    def __init__(self, kind: Class) -> None:
        self.kind = kind


class Method:
    """A function that the text defines, with the object it is called on."""

    __slots__ = ("function", "owner")

    def __init__(self, function: Name, owner: Value) -> None:
        self.function, self.owner = function, owner


class Getter:
    """A function that takes an attribute of an object by a dotted name, and calls it where there are arguments."""

    __slots__ = ("args", "attr", "keywords")

    def __init__(self, attr: str, args: list[Value] | None = None, keywords: dict[str, Value] | None = None) -> None:
        self.attr, self.args, self.keywords = attr, args, keywords or {}


def one_of(values: Iterable[Value]) -> Value:
    """The value, where all are the same; else a choice between them. Too many are unknown, with all their marks."""
    found: list[Value] = []
    for value in values:
        for one in value.values if isinstance(value, OneOf) else [value]:
            if not any(one is other or _equal(one, other) for other in found):
                found.append(one)
    if len(found) > MAX_CHOICES:
        return Obj("?", text="".join(marks_of(one) for one in found))
    return found[0] if len(found) == 1 else OneOf(found) if found else UNKNOWN


def _equal(one: Value, other: Value) -> bool:
    return type(one) is type(other) and isinstance(one, str | bytes | int) and one == other


def choices(value: Value) -> list[Value]:
    """Each value it may be."""
    return value.values if isinstance(value, OneOf) else [value]


def items_in(value: Value) -> int:
    """How many values a list or dict holds, those of its items included; MAX_ITEMS + 1 for more."""
    count, todo = 0, [value]
    while todo and count <= MAX_ITEMS:
        one = todo.pop()
        if isinstance(one, list | dict | OneOf):
            inner = one if isinstance(one, list) else one.values() if isinstance(one, dict) else one.values
            count += len(inner)
            todo += [item for item in inner if isinstance(item, list | dict | OneOf)]
    return count


def is_too_long(value: Value) -> bool:
    """True for a text that nobody needs whole."""
    return isinstance(value, str | bytes) and len(value) > MAX_TEXT


def element_of(value: Value) -> Value:
    if isinstance(value, OneOf):
        return one_of(element_of(one) for one in value.values)
    return Obj("?", value.path, value.text) if isinstance(value, Obj) else UNKNOWN


def bounded(values: list[Value], most: int) -> list[Value]:
    """The first values; the rest are one that is unknown."""
    return values if len(values) <= most else [*values[:most], UNKNOWN]


def marks_of(value: Value) -> str:
    if isinstance(value, Obj):
        return marks_in(value.text)
    if isinstance(value, str) and not isinstance(value, Name):
        return marks_in(value)
    if isinstance(value, list):
        return "".join(marks_of(item) for item in value)
    if isinstance(value, dict | OneOf):
        return "".join(marks_of(item) for item in (value.values() if isinstance(value, dict) else value.values))
    return ""


def text_of(value: Value) -> str:
    """The value as text of the shell; marks where it is not known."""
    if isinstance(value, Name):
        return UNSET
    if isinstance(value, str):
        return (
            value
            if value.isascii()
            else "".join(
                char if ord(char) >= 0xE000 else char.encode("utf-8", "replace").decode("latin-1") for char in value
            )
        )
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, bool | int | float):
        return str(value)
    if isinstance(value, Obj):
        if value.path is not None:
            return value.path
        return marks_in(value.text) or UNSET
    if isinstance(value, list | OneOf):
        return marks_of(value) or UNSET
    return UNSET


def path_of(value: Value) -> str:
    return text_of(value)


def decode_text(data: str | bytes, name: str) -> Value:
    """`codecs.decode` for the text transforms people hide behind."""
    return (
        codecs.decode(data, name)
        if isinstance(data, bytes)
        else codecs.decode(data, "rot13")
        if name.replace("_", "") == "rot13"
        else Obj("?", text=DECODED)
    )


UNKNOWN = Obj("?")
