"""Values a Python text computes with, as far as they can be known."""

from __future__ import annotations

import codecs

from .marks import DECODED, UNSET, marks_in

Value = object  # str, bytes, int, float, bool, None, list, dict, Name, Obj, Bound


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


def element_of(value: Value) -> Value:
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
    if isinstance(value, dict):
        return "".join(marks_of(item) for item in value.values())
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
    if isinstance(value, list):
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
