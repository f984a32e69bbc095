"""Field parsers: each checks one field of a request and returns its value, or raises Refusal.

`parse` reads all fields of a request. A missing field and nil are the same: the handler's default
applies.
"""

from __future__ import annotations

import errno
import math

from ..limits import DURATION, ID_LENGTH, TAG

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .frames import Fields

    Parser = Callable[[str, Any], Any]  # gets the name and the value

ID_CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"


class Refusal(Exception):
    """A protocol error: `kind` is a class name of the client's, `fields` are its arguments."""

    def __init__(self, kind: str, message: str, **fields: Any) -> None:
        super().__init__(message)
        self.kind, self.message, self.fields = kind, message, fields


def invalid(argument: str, message: str) -> Refusal:
    return Refusal("InvalidArgument", message, argument=argument)


_ADVICE = {
    errno.EMFILE: "end background processes and close sessions of this environment, or open a new one",
    errno.ENFILE: "the whole machine has too many files open; end what holds them and run the command again",
    errno.EAGAIN: "end processes that are not needed, or raise the limit of processes, and run the command again",
    errno.ENOMEM: "end what takes the memory and run the command again",
    errno.ENOSPC: "free space on the disk and run the command again",
}


def advised(error: OSError) -> str:
    """The system's error message, with advice."""
    advice = _ADVICE.get(error.errno or 0)
    return "%s; %s" % (error.strerror, advice) if advice else str(error)


def parse(given: Fields, parsers: dict[str, Parser], *required: str) -> Fields:
    """The values of the fields that are given; other fields are ignored. Raises Refusal."""
    values = {}
    for name, value in given.items():
        parser = parsers.get(name)
        if parser is not None and value is not None:
            values[name] = parser(name, value)
    for name in required:
        if name not in values:
            values[name] = parsers[name](name, "")
    return values


def anything(name: str, value: Any) -> Any:
    return value


def text(name: str, value: Any) -> str:
    if type(value) is not str or "\0" in value:
        raise invalid(name, "%s must be text without NUL" % name)
    return value


def job_id(name: str, value: Any) -> str:
    if not 0 < len(text(name, value)) <= ID_LENGTH or value.strip(ID_CHARACTERS):
        raise invalid(
            name, "%s must be 1 to %d characters of A-Z a-z 0-9 _ . -" % (name, ID_LENGTH)
        )
    return str(value)


def tag(name: str, value: Any) -> str:
    if len(text(name, value).encode("utf-8", "backslashreplace")) > TAG:
        raise invalid(name, "a tag holds at most %d bytes" % TAG)
    return str(value)


def number(least: int = 0, most: int = 1 << 62) -> Callable[[str, Any], int]:
    """A parser of whole numbers in this range."""

    def parser(name: str, value: Any) -> int:
        if type(value) is not int or not least <= value <= most:
            raise invalid(name, "%s must be a whole number from %d to %d" % (name, least, most))
        return value

    return parser


def flag(name: str, value: Any) -> bool:
    if type(value) is not bool:
        raise invalid(name, "%s must be true or false" % name)
    return value


def seconds(name: str, value: Any) -> float:
    if type(value) not in (int, float) or not math.isfinite(value) or value < 0:
        raise invalid(name, "%s must be a number of seconds of at least 0" % name)
    return min(float(value), DURATION)


def positive_seconds(name: str, value: Any) -> float:
    found = seconds(name, value)
    if not found:
        raise invalid(name, "%s must be a number of seconds above 0" % name)
    return found


def choice(*choices: str) -> Callable[[str, Any], str]:
    """A parser of texts that are one of these."""

    def parser(name: str, value: Any) -> str:
        if value not in choices:
            raise invalid(name, "%s must be one of %s" % (name, ", ".join(choices)))
        return str(value)

    return parser


def path(name: str, value: Any) -> str:
    """A path, sent as text, or as bytes if it is not UTF-8."""
    if type(value) is bytes:
        value = value.decode("utf-8", "surrogateescape")
    if type(value) is not str or not value or "\0" in value:
        raise invalid(name, "%s must be a path without NUL" % name)
    return value


def joined(name: str, value: Any) -> bytes:
    """Texts in one bytes value, separated by NUL: they are compared and cached as a whole."""
    if type(value) is not bytes:
        raise invalid(name, "%s must be texts in UTF-8 with NUL between them" % name)
    return value


def split(joined: bytes) -> list[str]:
    """The texts of such a value."""
    return joined.decode("utf-8", "surrogateescape").split("\0") if joined else []


def environ(name: str, value: Any) -> dict[str, str]:
    if type(value) is not dict:
        raise invalid(name, "env must map names to values")
    for key, item in value.items():
        if not (key.isascii() and key.isidentifier()):
            raise invalid(name, "env name %r is not a variable name" % key)
        if type(item) is not str or "\0" in item:
            raise invalid(name, "the value of env %s must be text without NUL" % key)
    return value


def script(name: str, value: Any) -> Fields:
    """Options of a Python script:

    `keep` names the session's variables that it gets, `title` is shown in lists.
    """
    keep = value.get("keep") if type(value) is dict else None
    if type(keep) is not list or not all(type(variable) is str for variable in keep):
        raise invalid(name, "script must have keep, a list of names")
    given = parse(value, {"warm": flag, "title": text, "modules": text})
    return {"keep": keep, "warm": False, "title": "", "modules": "", **given}
