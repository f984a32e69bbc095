"""Checks of what callers give: each says what would be right, before anything is started."""

import math
import re
from collections.abc import Mapping, Sequence

from hermetic.contract.errors import InvalidArgument
from hermetic.contract.limits import COMMAND, ID_LENGTH

_ID = re.compile(rf"[A-Za-z0-9_.-]{{1,{ID_LENGTH.value}}}")


def encode_command(command: str | Sequence[str]) -> tuple[bytes, bool]:
    """The command as bytes, and whether it is an argv, its words joined by NUL."""
    if isinstance(command, str):
        text = encode_text(command, "command")
        if b"\0" in text:
            raise InvalidArgument("the command contains a NUL character; remove it", argument="command")
        return _bounded(text), False
    if isinstance(command, bytes):
        raise InvalidArgument(
            "the command is bytes; give text, or a sequence of strings for an argv", argument="command"
        )
    words = [encode_text(word, "command") for word in command]
    if not words or not words[0]:
        raise InvalidArgument("the argv is empty; its first word is the program to run", argument="command")
    if any(b"\0" in word for word in words):
        raise InvalidArgument("a word of the argv contains a NUL character; remove it", argument="command")
    return _bounded(b"\0".join(words)), True


def encode_text(text: str, argument: str) -> bytes:
    """Text as UTF-8; bytes that Python smuggled into text come out as they were."""
    if not isinstance(text, str):
        raise InvalidArgument(f"{argument} must be text, not {type(text).__name__}", argument=argument)
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"{argument} is not valid Unicode text: {error}", argument=argument) from None


def encode_input(data: str | bytes, argument: str) -> bytes:
    """Input as bytes, text as UTF-8."""
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data)
    return encode_text(data, argument)


def check_positive(value: float, argument: str) -> float:
    """A duration above zero."""
    if not _is_number(value) or not value > 0 or math.isinf(value):
        raise InvalidArgument(
            f"{argument} must be a number of seconds above zero, not {value!r}; None means no limit", argument=argument
        )
    return float(value)


def check_duration(value: float, argument: str) -> float:
    """A duration of zero or more."""
    if not _is_number(value) or not 0 <= value < math.inf:
        raise InvalidArgument(f"{argument} must be a number of seconds, zero or more, not {value!r}", argument=argument)
    return float(value)


def check_count(value: int, argument: str, *, least: int = 0) -> int:
    """A whole number of `least` or more."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InvalidArgument(
            f"{argument} must be a whole number of at least {least}, not {value!r}", argument=argument
        )
    return value


def check_id(value: str, argument: str = "id") -> str:
    """An id of a process, log or session."""
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise InvalidArgument(
            f"{argument} {value!r} does not fit; use 1 to {ID_LENGTH.value} of A-Z a-z 0-9 _ . -", argument=argument
        )
    return value


def check_env(env: Mapping[str, str]) -> dict[str, str]:
    """Variables for one command."""
    for name, value in env.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise InvalidArgument(f"env must map text to text; {name!r} does not", argument="env")
        if not name or "=" in name or "\0" in name or "\0" in value:
            raise InvalidArgument(f"env has a name or value that no process can have: {name!r}", argument="env")
    return dict(env)


def _bounded(text: bytes) -> bytes:
    if len(text) > COMMAND.value:
        raise InvalidArgument(
            f"the command has {len(text)} bytes, the most is {COMMAND.value}; put it into a file and run that",
            argument="command",
        )
    return text


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value
