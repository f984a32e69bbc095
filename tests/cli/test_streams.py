"""Standard streams that are closed or full: nothing hangs or goes to a wrong place, one line says what is wrong."""

import shlex
import subprocess
from pathlib import Path

import pytest

from tests.cli.program import COMMAND


def shell(text: str, cwd: Path | None = None) -> "subprocess.CompletedProcess[bytes]":
    """Runs shell text in which `hermetic` is the command line."""
    program = f'hermetic() {{ {shlex.join(COMMAND)} "$@"; }}\n'
    return subprocess.run(
        ["bash", "-c", program + text], stdin=subprocess.DEVNULL, capture_output=True, timeout=60, cwd=cwd
    )


def test_a_closed_input_is_empty() -> None:
    done = shell("hermetic run -- 'cat; echo end' <&-")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"end\n", b"")


@pytest.mark.parametrize("words", ["run -- 'echo out; exit 3'", "run --json -- 'exit 3'", "run --separate -- 'exit 3'"])
@pytest.mark.parametrize("closed", [">&-", "<&- >&-", "<&- >&- 2>&-"])
def test_closed_streams_take_what_is_printed(words: str, closed: str) -> None:
    done = shell(f"hermetic {words} {closed}")
    assert (done.returncode, done.stdout, done.stderr) == (3, b"", b"")


@pytest.mark.parametrize("words", ["version", "envs", "envs --json", "ps", "nonsense"])
def test_every_command_lives_without_streams(words: str) -> None:
    done = shell(f"hermetic {words} <&- >&- 2>&-")
    assert (done.returncode, done.stdout, done.stderr) == (2 if words == "nonsense" else 0, b"", b"")
