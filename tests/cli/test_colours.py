"""Colours: where they are wanted, and nowhere else."""

import io
import subprocess

import pytest

from hermetic.cli.colours import has_colours, state
from tests.cli.program import COMMAND
from tests.cli.test_attach import terminal

VARIABLES = ("NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "TERM")


class Stream(io.StringIO):
    """A stream that says whether it is a terminal."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")


@pytest.mark.parametrize(
    ("variables", "at_terminal", "elsewhere"),
    [
        ({}, True, False),
        ({"NO_COLOR": "1"}, False, False),
        ({"NO_COLOR": ""}, True, False),
        ({"FORCE_COLOR": "1"}, True, True),
        ({"FORCE_COLOR": "0"}, True, False),
        ({"CLICOLOR_FORCE": "1"}, True, True),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, False, False),
        ({"CLICOLOR": "0"}, False, False),
        ({"TERM": "dumb"}, False, False),
        ({"TERM": ""}, False, False),
        ({"TERM": "dumb", "FORCE_COLOR": "1"}, True, True),
    ],
)
def test_the_usual_variables_are_obeyed(
    variables: dict[str, str], at_terminal: bool, elsewhere: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert has_colours(Stream(is_terminal=True)) == at_terminal
    assert has_colours(Stream(is_terminal=False)) == elsewhere


def test_only_what_matters_has_a_colour() -> None:
    assert state("alive   ") == "\x1b[32malive\x1b[0m   "
    assert state("exited with code 3") == "\x1b[31mexited with code 3\x1b[0m"
    for plain_text in ("exited with code 0", "web", "", "cancelled"):
        assert state(plain_text) == plain_text


def output(*words: str) -> bytes:
    done = subprocess.run(
        [*COMMAND, *words], capture_output=True, stdin=subprocess.DEVNULL, timeout=60
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize("words", [("policy", "check", "rm -rf /usr"), ("rnu",), ("ps",)])
def test_a_pipe_gets_none(words: tuple[str, ...]) -> None:
    assert b"\x1b" not in output(*words)


def test_verdicts_and_errors_get_them_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert output("policy", "check", "rm -rf /usr").startswith(b"\x1b[31mdangerous\x1b[0m: ")
    assert output("rnu").startswith(b"\x1b[31mhermetic:\x1b[0m no command")
    assert b"\x1b" not in output("policy", "check", "--json", "rm -rf /usr")


async def test_a_terminal_gets_them() -> None:
    with terminal("policy", "check", "rm -rf /usr") as shown:
        await shown.until(b"\x1b[31mdangerous\x1b[0m: ")
        assert await shown.left() == 4
