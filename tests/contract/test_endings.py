"""Endings: their exit codes, their words, their form on the wire."""

import msgspec
import pytest

from hermetic.contract.endings import (
    Cancelled,
    Ending,
    Exited,
    Lost,
    OutOfMemory,
    Signalled,
    TimedOut,
    Yielded,
)

EVERY_ENDING: list[tuple[Ending, list[object], int | None, str]] = [
    (Exited(3), ["exited", 3], 3, "exited with code 3"),
    (Signalled(15), ["signalled", 15], 143, "ended by SIGTERM"),
    (Signalled(63), ["signalled", 63], 191, "ended by signal 63"),
    (TimedOut(0.5), ["timed_out", 0.5], 124, "timed out after 0.5 s"),
    (Cancelled(), ["cancelled"], 130, "cancelled"),
    (Yielded("p7"), ["yielded", "p7"], None, "goes on as process p7"),
    (OutOfMemory(), ["oom"], 137, "out of memory"),
    (Lost("gone"), ["lost", "gone"], None, "lost: gone"),
]


@pytest.mark.parametrize(("ending", "wire", "exit_code", "words"), EVERY_ENDING, ids=str)
def test_an_ending_has_a_wire_form_an_exit_code_and_words(
    ending: Ending, wire: list[object], exit_code: int | None, words: str
) -> None:
    packed = msgspec.msgpack.encode(ending)
    assert msgspec.msgpack.decode(packed) == wire
    assert msgspec.msgpack.decode(packed, type=Ending) == ending
    assert ending.exit_code == exit_code
    assert str(ending) == words


def test_every_ending_is_in_the_table() -> None:
    assert {type(row[0]) for row in EVERY_ENDING} == set(Ending.__args__)


def test_an_unknown_ending_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(msgspec.msgpack.encode(["exploded", 1]), type=Ending)


def test_endings_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Exited(0).code = 1  # type: ignore[misc]
