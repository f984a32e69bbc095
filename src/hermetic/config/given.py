"""One setting as it was given, and its conversion to its type."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from hermetic.contract.errors import ConfigError

_YES = {"yes": True, "on": True, "y": True, "no": False, "off": False, "n": False}


class Given(NamedTuple):
    """A value for a setting."""

    setting: str  # section.name, or environments.KIND.option
    value: Any
    place: str  # file and line, or variable
    is_text: bool = False  # from a variable: numbers and lists are text
    read: Callable[["Given"], Any] | None = None  # how the value is read; when it is used, not before


def typed(given: Given, wanted: Any) -> Any:
    """The value converted to the type. Raises ConfigError with the source of a wrong value."""
    if given.read is not None:
        given = given._replace(value=given.read(given._replace(read=None)), read=None, is_text=False)
    if not given.is_text:
        return _convert(given, given.value, wanted)
    for candidate in _readings(given.value):
        try:
            return msgspec.convert(candidate, wanted, strict=not isinstance(candidate, str))
        except msgspec.ValidationError:
            continue
    return _convert(given, given.value, wanted)


def _convert(given: Given, value: Any, wanted: Any) -> Any:
    try:
        return msgspec.convert(value, wanted)
    except msgspec.ValidationError as error:
        shown = "the value" if given.setting.endswith("password") else repr(value)
        raise ConfigError(f"{given.place}: {given.setting} cannot be {shown}: {error}", setting=given.setting) from None


def _readings(text: str) -> Iterator[Any]:
    """The possible readings of a text: JSON, the text itself, yes or no, comma-separated words."""
    try:
        value = msgspec.json.decode(text)
        if value is not None and not isinstance(value, str):
            yield value
    except (msgspec.DecodeError, UnicodeEncodeError):
        pass
    yield text
    if text.lower() in _YES:
        yield _YES[text.lower()]
    yield [word.strip() for word in text.split(",") if word.strip()]
