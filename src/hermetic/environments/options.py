"""Validation of a backend's options; errors name the valid ones."""

import difflib
import math
import os
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, TypeVar

import msgspec

from hermetic.contract.errors import ConfigError
from hermetic.contract.variables import is_text

T = TypeVar("T", bound=msgspec.Struct)

LEAST_LEASE = 0.1  # seconds; a new resident has to live until its opener has attached

Lease = Annotated[float, msgspec.Meta(ge=LEAST_LEASE)]
Seconds = Annotated[float, msgspec.Meta(ge=0)]


class UnknownOption(ConfigError):
    """A kind has no option of that name."""

    def __init__(self, kind: str, name: str, valid: Iterable[str]) -> None:
        self.kind = kind
        self.valid = tuple(valid)
        super().__init__(
            f"{kind!r} has no option {name!r}; {choices(name, self.valid)}", setting=name
        )


class MissingOption(ConfigError):
    """A kind cannot be opened without that option."""

    def __init__(self, kind: str, name: str, example: str = "") -> None:
        self.kind = kind
        self.example = example
        advice = f"for example {name}={example!r}" if example else "give it"
        super().__init__(f"{kind!r} needs the option {name!r}; {advice}", setting=name)


def read_options(kind: str, shape: type[T], options: Mapping[str, Any]) -> T:
    """The options as `shape`, defaults filled in. Raises ConfigError."""
    valid = shape.__struct_fields__
    for name in options:
        if name not in valid:
            raise UnknownOption(kind, name, valid)
    for name, value in options.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(f"option {name!r} of {kind!r} must be a finite number", setting=name)
    for field in msgspec.structs.fields(shape):
        if field.required and field.name not in options:
            raise MissingOption(kind, field.name)
    try:
        return msgspec.convert({name: _plain(value) for name, value in options.items()}, shape)
    except msgspec.ValidationError as error:
        name = str(error).partition("`$.")[2].partition("`")[0].partition("[")[0]
        raise ConfigError(
            f"option {name!r} of {kind!r} does not fit: {error}", setting=name
        ) from None


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def choices(wrong: str, valid: Iterable[str]) -> str:
    """`did you mean 'cwd'? Valid: cwd, env`."""
    names = sorted(valid)
    near = difflib.get_close_matches(wrong, names, n=1)
    return (f"did you mean {near[0]!r}? " if near else "") + "Valid: " + ", ".join(names)


def check_word(name: str, value: str | None) -> None:
    """Raises ConfigError for a text that no program takes as an argument."""
    if value is None:
        return
    if not value or value.startswith("-") or not value.isprintable() or not is_text(value):
        raise ConfigError(
            f"{name} {value!r} cannot be used; give a text that does not start with -", setting=name
        )
    if name in ("host", "user") and any(letter.isspace() for letter in value):
        raise ConfigError(f"{name} {value!r} has a space in it", setting=name)


def synced_directories(pairs: Mapping[str, str]) -> dict[str, str]:
    """The option `sync`: whole paths here, and there as the home's shell takes them.

    Raises ConfigError.
    """
    found = {}
    for here, there in pairs.items():
        path = os.path.realpath(os.path.expanduser(here))
        if not os.path.isdir(path) or not is_text(path):
            raise ConfigError(f"sync: {here!r} is no directory here", setting="sync")
        if path in ("/", os.path.realpath(os.path.expanduser("~"))):
            raise ConfigError(f"sync: {path} is too much; name a directory in it", setting="sync")
        check_word("sync", there)
        found[path] = there.removeprefix("~/") if there != "~" else "."
    return found
