"""Field parsers: each checks one field of a request and returns its value, or raises Refusal."""

from __future__ import annotations

import math

from ..limits import DURATION, ID_LENGTH, TAG

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Generic, Protocol, TypeVar, overload

    from .frames import Fields

    class Carrier(Protocol):
        """A request, as the fields see it."""

        fields: Fields

    T = TypeVar("T")

    class Field(Generic[T]):
        """A declared field of a request class: parsed and checked when it is read."""

        def __init__(self, parse: Callable[..., T], *arguments: object) -> None: ...
        def __get__(self, request: Carrier, owner: type) -> T: ...

else:

    class Field:
        def __init__(self, parse, *arguments):
            self.parse, self.arguments = parse, arguments

        def __set_name__(self, owner, name):
            self.name = name

        def __get__(self, request, owner):
            return self.parse(request.fields, self.name, *self.arguments)


ID_CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"


class Refusal(Exception):
    """A protocol error: `kind` is a class name of the client's, `fields` are its arguments."""

    def __init__(self, kind: str, message: str, **fields: Any) -> None:
        super().__init__(message)
        self.kind, self.message, self.fields = kind, message, fields


def invalid(argument: str, message: str) -> Refusal:
    return Refusal("InvalidArgument", message, argument=argument)


def text(fields: Fields, name: str, default: str = "") -> str:
    value = fields.get(name, default)
    if type(value) is not str or "\0" in value:
        raise invalid(name, "%s must be text without NUL" % name)
    return value


def job_id(fields: Fields, name: str = "id") -> str:
    value = text(fields, name)
    if not 0 < len(value) <= ID_LENGTH or value.strip(ID_CHARACTERS):
        raise invalid(name, "%s must be 1 to %d characters of A-Z a-z 0-9 _ . -" % (name, ID_LENGTH))
    return value


def tag(fields: Fields, name: str = "tag") -> str:
    value = text(fields, name)
    if len(value.encode("utf-8", "backslashreplace")) > TAG:
        raise invalid(name, "a tag holds at most %d bytes" % TAG)
    return value


def number(fields: Fields, name: str, default: int = 0, least: int = 0, most: int = 1 << 62) -> int:
    value = fields.get(name, default)
    if type(value) is not int or not least <= value <= most:
        raise invalid(name, "%s must be a whole number from %d to %d" % (name, least, most))
    return value


def optional(parse: Callable[..., T], fields: Fields, name: str, *arguments: object) -> T | None:
    """The value of a field, or None for a missing or nil one."""
    return None if fields.get(name) is None else parse(fields, name, *arguments)


def optional_number(fields: Fields, name: str) -> int | None:
    return optional(number, fields, name)


def flag(fields: Fields, name: str, default: bool = False) -> bool:
    value = fields.get(name, default)
    if type(value) is not bool:
        raise invalid(name, "%s must be true or false" % name)
    return value


if TYPE_CHECKING:

    @overload
    def seconds(fields: Fields, name: str, default: float, least: float = 0.0, above: bool = False) -> float: ...
    @overload
    def seconds(
        fields: Fields, name: str, default: None = None, least: float = 0.0, above: bool = False
    ) -> float | None: ...


def seconds(
    fields: Fields, name: str, default: float | None = None, least: float = 0.0, above: bool = False
) -> float | None:
    """A duration in seconds; the default for a missing or nil field. `above`: the least value itself is refused."""
    value = fields.get(name)
    if value is None:
        return default
    if type(value) not in (int, float) or not math.isfinite(value) or value < least or (above and value == least):
        raise invalid(name, "%s must be a number of seconds %s %g" % (name, "above" if above else "of at least", least))
    return min(float(value), DURATION)


def choice(fields: Fields, name: str, default: str, *choices: str) -> str:
    value: str = fields.get(name, default)
    if value not in choices:
        raise invalid(name, "%s must be one of %s" % (name, ", ".join(choices)))
    return value


if TYPE_CHECKING:

    @overload
    def path(fields: Fields, name: str, default: str) -> str: ...
    @overload
    def path(fields: Fields, name: str, default: None = None) -> str | None: ...


def path(fields: Fields, name: str, default: str | None = None) -> str | None:
    """A path, sent as text, or as bytes if it is not UTF-8."""
    value = fields.get(name)
    if value is None:
        value = default
    if value is None:
        return None
    if type(value) is bytes:
        value = value.decode("utf-8", "surrogateescape")
    if type(value) is not str or not value or "\0" in value:
        raise invalid(name, "%s must be a path without NUL" % name)
    return value


def joined(fields: Fields, name: str) -> bytes:
    """Texts in one bytes value, separated by NUL: they are compared and cached as a whole."""
    value = fields.get(name, b"")
    if type(value) is not bytes:
        raise invalid(name, "%s must be texts in UTF-8 with NUL between them" % name)
    return value


def split(joined: bytes) -> list[str]:
    """The texts of such a value."""
    return joined.decode("utf-8", "surrogateescape").split("\0") if joined else []


def environ(fields: Fields, name: str = "env") -> dict[str, str] | None:
    value = fields.get(name)
    if value is None:
        return None
    if type(value) is not dict:
        raise invalid(name, "env must map names to values")
    for key, item in value.items():
        if not (key.isascii() and key.isidentifier()):
            raise invalid(name, "env name %r is not a variable name" % key)
        if type(item) is not str or "\0" in item:
            raise invalid(name, "the value of env %s must be text without NUL" % key)
    return value


def script(fields: Fields) -> Fields | None:
    """Options of a Python script: `keep` names the session's variables that it gets, `title` is shown in lists."""
    value = fields.get("script")
    if value is None:
        return None
    keep = value.get("keep") if type(value) is dict else None
    if type(keep) is not list or not all(type(name) is str for name in keep):
        raise invalid("script", "script must have keep, a list of names")
    return {"keep": keep, "warm": flag(value, "warm"), "title": text(value, "title"), "modules": text(value, "modules")}
