"""Checks of arguments: each error says what would be right, before anything is started."""

import asyncio
import inspect
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence

from hermetic.contract.errors import InvalidArgument
from hermetic.contract.limits import COMMAND, ID_LENGTH
from hermetic.contract.variables import fault_of, is_text

_ID = re.compile(rf"[A-Za-z0-9_.-]{{1,{ID_LENGTH}}}")


def encode_command(command: str | Sequence[str]) -> tuple[bytes, bool]:
    """The command as bytes, and whether it is an argv, its words joined by NUL."""
    if isinstance(command, str):
        text = encode_text(command, "command")
        if b"\0" in text:
            raise _wrong("command", "the command contains a NUL character; remove it")
        return _bounded(text), False
    if isinstance(command, bytes | bytearray) or not isinstance(command, Sequence):
        kind = type(command).__name__
        raise _wrong(
            "command", f"the command is {kind}; give text, or a sequence of strings for an argv"
        )
    words = [encode_text(word, "command") for word in command]
    if not words or not words[0]:
        raise _wrong("command", "the argv is empty; its first word is the program to run")
    if any(b"\0" in word for word in words):
        raise _wrong("command", "a word of the argv contains a NUL character; remove it")
    return _bounded(b"\0".join(words)), True


def encode_text(text: str, argument: str) -> bytes:
    """Text as UTF-8; bytes that Python smuggled into text come out as they were."""
    if not isinstance(text, str):
        raise _wrong(argument, f"{argument} must be text, not {type(text).__name__}")
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise _wrong(
            argument, f"{argument} is not valid Unicode text: {error}; remove that"
        ) from None


def encode_input(data: str | bytes, argument: str) -> bytes:
    """Input as bytes, text as UTF-8."""
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data)
    if not isinstance(data, str):
        raise _wrong(argument, f"{argument} must be text or bytes, not {type(data).__name__}")
    return encode_text(data, argument)


def encode_path(path: str | bytes | os.PathLike[str], argument: str) -> str | bytes:
    """A path as text, or as bytes where it is no UTF-8."""
    try:
        plain = os.fspath(path)
        encoded = plain if isinstance(plain, bytes) else plain.encode("utf-8", "surrogateescape")
    except (TypeError, UnicodeEncodeError) as error:
        raise _wrong(argument, f"{argument} must be a path: {error}") from None
    if not encoded or b"\0" in encoded:
        raise _wrong(argument, f"{argument} is empty or contains a NUL character; give a path")
    return plain if isinstance(plain, str) and (plain.isascii() or is_text(plain)) else encoded


def path_text(path: str | bytes | os.PathLike[str], argument: str) -> str:
    """A path as text; bytes that are no UTF-8 are smuggled into it, as Python does."""
    encoded = encode_path(path, argument)
    return encoded if isinstance(encoded, str) else encoded.decode("utf-8", "surrogateescape")


def check_callback(
    function: Callable[[bytes], object], argument: str = "on_output"
) -> Callable[[bytes], object]:
    """A plain function: the result of an async one would not be awaited."""
    if not callable(function):
        kind = type(function).__name__
        raise _wrong(argument, f"{argument} must be a function that takes bytes, not {kind}")
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        type(function).__call__
    ):
        advice = "let it put the bytes into an asyncio.Queue"
        raise _wrong(argument, f"{argument} must be a plain function, not an async one; {advice}")
    return function


def check_event(event: asyncio.Event) -> asyncio.Event:
    """An event of asyncio: waiting for another one would block the event loop."""
    if not isinstance(event, asyncio.Event):
        kind = f"{type(event).__module__}.{type(event).__qualname__}"
        advice = "where a thread sets it, use loop.call_soon_threadsafe(event.set)"
        raise _wrong("cancel", f"cancel must be an asyncio.Event, not {kind}; {advice}")
    return event


def check_positive(value: float, argument: str) -> float:
    """A duration above zero."""
    if not _is_number(value) or not value > 0:
        wanted = f"a number of seconds above zero, not {_shown(value)}; None means no limit"
        raise _wrong(argument, f"{argument} must be {wanted}")
    return float(value)


def check_duration(value: float, argument: str) -> float:
    """A duration of zero or more."""
    if not _is_number(value) or not value >= 0:
        wanted = f"a number of seconds, zero or more, not {_shown(value)}"
        raise _wrong(argument, f"{argument} must be {wanted}")
    return float(value)


def check_count(value: int, argument: str, *, least: int = 0) -> int:
    """A whole number of `least` or more."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        wanted = f"a whole number of at least {least}, not {_shown(value)}"
        raise _wrong(argument, f"{argument} must be {wanted}")
    return value


def check_id(value: str, argument: str = "id") -> str:
    """An id of a process, log or session."""
    if not isinstance(value, str) or not _ID.fullmatch(value):
        allowed = f"1 to {ID_LENGTH} of A-Z a-z 0-9 _ . -"
        raise _wrong(argument, f"{argument} {value!r} does not fit; use {allowed}")
    return value


def check_env(env: Mapping[str, str]) -> dict[str, str]:
    """Variables for one command."""
    if fault := fault_of(env):
        raise _wrong("env", fault)
    return dict(env)


def _bounded(text: bytes) -> bytes:
    if len(text) > COMMAND:
        problem = f"the command has {len(text)} bytes, the most is {COMMAND}"
        raise _wrong("command", f"{problem}; put it into a file and run that")
    return text


def _wrong(argument: str, problem: str) -> InvalidArgument:
    return InvalidArgument(problem, argument=argument)


def _shown(value: object) -> str:
    """The value, unless it is too long to print."""
    return (
        "a number that large" if isinstance(value, int) and value.bit_length() > 64 else repr(value)
    )


def _is_number(value: object) -> bool:
    """True for a finite number."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return -sys.float_info.max <= value <= sys.float_info.max
