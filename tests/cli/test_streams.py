"""Standard streams that are closed or full: nothing hangs or goes to a wrong place, one line says
what is wrong.
"""

import json
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.cli.program import COMMAND


def shell(text: str, cwd: Path | None = None) -> "subprocess.CompletedProcess[bytes]":
    """Runs shell text in which `hermetic` is the command line."""
    program = f'hermetic() {{ {shlex.join(COMMAND)} "$@"; }}\n'
    return subprocess.run(
        ["bash", "-c", program + text],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        cwd=cwd,
    )


def test_a_closed_input_is_empty() -> None:
    done = shell("hermetic run -- 'cat; echo end' <&-")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"end\n", b"")


@pytest.mark.parametrize(
    "words", ["run -- 'echo out; exit 3'", "run --json -- 'exit 3'", "run --separate -- 'exit 3'"]
)
@pytest.mark.parametrize("closed", [">&-", "<&- >&-", "<&- >&- 2>&-"])
def test_closed_streams_take_what_is_printed(words: str, closed: str) -> None:
    done = shell(f"hermetic {words} {closed}")
    assert (done.returncode, done.stdout, done.stderr) == (3, b"", b"")


@pytest.mark.parametrize("words", ["version", "envs", "envs --json", "ps", "nonsense"])
def test_every_command_lives_without_streams(words: str) -> None:
    done = shell(f"hermetic {words} <&- >&- 2>&-")
    assert (done.returncode, done.stdout, done.stderr) == (
        2 if words == "nonsense" else 0,
        b"",
        b"",
    )


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("run -- 'echo out; sleep 600'", 125),
        ("run --separate -- 'echo out; sleep 600'", 125),
        ("run --json -- true", 125),
        ("version", 1),
        ("envs", 1),
        ("--help", 1),
        ("run --help", 1),
    ],
)
def test_a_full_output_is_told_in_one_line(words: str, code: int) -> None:
    done = shell(f"unset PYTHONUNBUFFERED; hermetic {words} >/dev/full")
    assert (done.returncode, done.stderr.count(b"\n")) == (code, 1), done.stderr
    assert done.stderr.startswith(b"hermetic: No space left on device; ")


def test_a_file_that_fails_is_told_by_its_name() -> None:
    done = shell("hermetic record -f /nonexistent/x -- true")
    assert done.stderr == b"hermetic: /nonexistent/x: No such file or directory\n"


@pytest.mark.parametrize(("words", "code"), [("nonsense", 2), ("logs nonsense", 1), ("run", 2)])
def test_a_message_that_cannot_be_written_changes_no_exit_code(words: str, code: int) -> None:
    done = shell(f"hermetic {words} 2>/dev/full")
    assert (done.returncode, done.stdout) == (code, b"")


def test_a_directory_that_is_gone_is_told(tmp_path: Path) -> None:
    done = shell(
        "mkdir gone; cd gone; rmdir ../gone; hermetic run -- pwd; hermetic run -o cwd=/ -- pwd",
        tmp_path,
    )
    assert done.stdout == b"/\n"
    assert done.stderr == (
        b"hermetic: the current directory is gone; change to one that exists, or give the option cwd as a whole path\n"
    )


def test_settings_and_the_doctor_need_no_current_directory(tmp_path: Path) -> None:
    done = shell("mkdir gone; cd gone; rmdir ../gone; hermetic config", tmp_path)
    assert (done.stdout.startswith(b"SETTING"), done.stderr) == (True, b"")
    done = shell("mkdir gone; cd gone; rmdir ../gone; hermetic doctor --json", tmp_path)
    (local,) = [check for check in json.loads(done.stdout) if check["name"] == "local"]
    assert local["found"].startswith("the current directory is gone")
