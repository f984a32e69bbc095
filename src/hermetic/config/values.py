"""One value of a setting: where it was given, its conversion, and the kinds and options there are."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from hermetic.contract.errors import ConfigError
from hermetic.environments import catalog
from hermetic.environments.options import choices

# Used where a kind needs an image and none is given.
DEFAULT_IMAGE = "nikolaik/python-nodejs:python3.11-nodejs20"

_WORDS = {"true": True, "false": False}  # in any case: Python writes True
_YES = {"yes": True, "on": True, "y": True, "no": False, "off": False, "n": False}


class Given(NamedTuple):
    """A value for a setting."""

    setting: str  # section.name, or environments.KIND.option
    value: Any
    place: str  # file and line, or variable
    is_text: bool = False  # from a variable: numbers and lists are text
    # how the value is read; when it is used, not before
    read: Callable[["Given"], Any] | None = None


def typed(given: Given, wanted: Any) -> Any:
    """The value converted to the type. Raises ConfigError with the source of a wrong value."""
    value = given.value
    if given.read is not None:
        value = given.read(given._replace(read=None))
    elif given.is_text:
        for candidate, is_strict in _readings(value):
            try:
                return msgspec.convert(candidate, wanted, strict=is_strict)
            except msgspec.ValidationError:
                continue
    try:
        return msgspec.convert(value, wanted)
    except msgspec.ValidationError as error:
        shown = "the value" if given.setting.endswith("password") else repr(value)
        raise ConfigError(
            f"{given.place}: {given.setting} cannot be {shown}: {error}{_allowed(wanted)}",
            setting=given.setting,
        ) from None


def _allowed(wanted: Any) -> str:
    """What a setting may be, where it is one of a few words."""
    schema = msgspec.json.schema(wanted)
    words = next(
        (kind["enum"] for kind in (schema, *schema.get("anyOf", ())) if "enum" in kind), ()
    )
    named = ", ".join(str(word) for word in words if word is not None)
    return f"; use one of {named}" if named else ""


def _readings(text: str) -> Iterator[tuple[Any, bool]]:
    """The readings of a text, the first that fits wins: JSON, the text itself, a number, yes or no,
    words with commas.

    The second part is False where text may stand for another type.
    """
    try:
        value = msgspec.json.decode(text)
        if value is not None and not isinstance(value, str):
            yield value, True
    except (msgspec.DecodeError, UnicodeEncodeError):
        pass
    if text.lower() in _WORDS:
        yield _WORDS[text.lower()], True
    yield text, True
    yield text, False
    if text.lower() in _YES:
        yield _YES[text.lower()], True
    yield [word.strip() for word in text.split(",") if word.strip()], True


def checked_kind(kind: str, place: str) -> str:
    """The kind's own name. Raises ConfigError with the valid kinds."""
    if kind not in catalog.kinds():
        problem = f"unknown environment kind {kind!r}; {choices(kind, catalog.kinds())}"
        raise ConfigError(f"{place}: {problem}", setting="kind")
    return catalog.ALIASES.get(kind, kind)


def checked_option(kind: str, option: str, place: str) -> None:
    """Raises ConfigError with the valid options. A kind that declares none takes any."""
    fields = option_fields(kind)
    if fields and option not in fields:
        problem = f"{kind!r} has no option {option!r}; {choices(option, fields)}"
        raise ConfigError(f"{place}: {problem}", setting=f"environments.{kind}.{option}")


def option_fields(kind: str) -> dict[str, msgspec.structs.FieldInfo]:
    """Option → its type and default; empty for a kind that declares no options."""
    shape = getattr(catalog.find(kind), "option_shape", None)
    return {} if shape is None else {field.name: field for field in msgspec.structs.fields(shape)}
