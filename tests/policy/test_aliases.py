"""Aliases are followed as bash follows them, also where one makes the next word an alias."""

import itertools
import subprocess

import pytest

from hermetic.contract.verdict import ShellState
from hermetic.policy.assess import Surroundings, assess, examine_command
from hermetic.policy.marks import shown

ALIASES = {
    "zap": "sudo ",
    "deep": "zap",
    "rr": "rm -rf",
    "both": "rr /srv/x ",
    "loop": "loop ",
    "mine": "nice\t",
}


@pytest.mark.parametrize(
    "text",
    [
        "zap rr /srv/x",
        "zap  zap rr /srv/x",
        "deep rr /srv/x",
        "mine rr /srv/x",
        "X=1 zap rr /srv/x",
        "zap both",
        "rr /srv/x",
    ],
)
def test_an_alias_that_ends_in_a_blank_makes_the_next_word_one(text: str) -> None:
    verdict = assess(text, state=ShellState(aliases=ALIASES))
    assert (verdict.label, "recursive-delete" in {part.category for part in verdict.parts}) == (
        "dangerous",
        True,
    )


@pytest.mark.parametrize(
    "text", ["zap 'rr' /srv/x", "zap r\\r /srv/x", "loop loop", "nice rr /srv/x"]
)
def test_a_quoted_word_and_one_behind_no_alias_is_none(text: str) -> None:
    verdict = assess(text, state=ShellState(aliases=ALIASES))
    assert "recursive-delete" not in {part.category for part in verdict.parts}


# Names whose meaning depends on what stands before them: `p` prints its words, the others are words
# or begin more.
PRINTING = {"p": "printf '<%s>' ", "q": "p one ", "a": "x ", "b": "y", "c": "b ", "d": "d z "}


def test_they_mean_what_they_mean_to_bash() -> None:
    texts = [" ".join(words) for words in itertools.product("pq", "abcd", "abcdp", "ab")]
    defined = "\n".join(f'alias {name}="{value}"' for name, value in PRINTING.items())
    script = "\n".join([defined, *(f"{text}\necho" for text in texts)])
    said = subprocess.run(
        ["bash", "-O", "expand_aliases", "-s"],
        input=script,
        capture_output=True,
        text=True,
        timeout=20,
    )
    for text, expected in zip(texts, said.stdout.splitlines(), strict=True):
        acts = examine_command(text, Surroundings(state=ShellState(aliases=PRINTING))).acts
        printed = [act.words[2:] for act in acts if act.words[:1] == ("printf",)]
        assert expected in ["".join(f"<{shown(word)}>" for word in words) for words in printed], (
            text
        )
