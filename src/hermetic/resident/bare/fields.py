"""Checks one field of a request each, for what a bash serves."""

from __future__ import annotations

import math

from ..limits import DURATION
from ..wire.fields import invalid, split

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import overload

    from ..wire.frames import Fields

__all__ = ["flag", "joined", "number", "path", "seconds", "split", "text"]


def text(fields: Fields, name: str, default: str = "") -> str:
    value = fields.get(name, default)
    if type(value) is not str or "\0" in value:
        raise invalid(name, "%s must be text without NUL" % name)
    return value


def number(fields: Fields, name: str, default: int = 0, least: int = 0, most: int = 1 << 62) -> int:
    value = fields.get(name, default)
    if type(value) is not int or not least <= value <= most:
        raise invalid(name, "%s must be a whole number from %d to %d" % (name, least, most))
    return value


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
