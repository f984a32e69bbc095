"""Keys of stored answers: an "always" answer of an earlier version still covers the same act."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hermetic.policy import assess

# A command and the key under which an answer to it was stored. A changed key asks the user again.
STORED: dict[str, str] = json.loads((Path(__file__).parent / "keys.json").read_text("utf-8"))


@pytest.mark.parametrize("command", STORED)
def test_the_key_of_a_stored_answer_stays(command: str) -> None:
    assert STORED[command] in [part.exact for part in assess(command).parts]


def test_a_verb_of_git_is_named_as_it_is_written() -> None:
    assert assess("git push -f origin main").parts[0].argv == (
        "git",
        "push",
        "-f",
        "origin",
        "main",
    )
    assert assess("git -C sub push -f").parts[0].argv == ("git", "push", "-f")
