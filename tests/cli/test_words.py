"""The command line's own words: what was probably meant, what it waits for, and plain characters
where it must.
"""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

import hermetic as library
from hermetic.cli.dispatch import COMMANDS, main
from hermetic.cli.streams import PLAIN
from tests.cli.program import hermetic
from tests.cli.test_attach import terminal


def test_a_program_with_options_needs_no_dashes() -> None:
    done = hermetic("run", "ls", "-la", "/")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b" usr" in done.stdout
    assert hermetic("run", "echo", "--json", "--", "-o").stdout == b"--json -- -o\n"
    assert hermetic("run", "--", "echo", "--json", "--", "-o").stdout == b"--json -- -o\n"


def code_of(words: tuple[str, ...]) -> object:
    """The exit code; the parser of arguments leaves by itself."""
    try:
        return main(words)
    except SystemExit as left:
        return left.code


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("rnu",), "no command 'rnu'; did you mean run? there are run, shell, code, fleet, ps"),
        (
            ("run", "--tmeout", "5", "--", "ls"),
            "unknown: --tmeout; did you mean --timeout? `hermetic run --help`",
        ),
        (
            ("ps", "--jsno"),
            "unknown: --jsno; did you mean --json? `hermetic ps --help` tells the options",
        ),
        (("kill",), "the following arguments are required: ID; `hermetic kill --help` tells more"),
        (("run",), "give the COMMAND to run: hermetic run [OPTION…] -- COMMAND…"),
        (("run", "--"), "give the COMMAND to run"),
        (
            ("run", "--image", "x", "ls"),
            "--image is no option of the kind local; Valid: cwd, env, ",
        ),
        (
            ("run", "-o", "leese=1", "ls"),
            "-o leese=… is no option of the kind local; did you mean 'lease'? Valid: ",
        ),
        (("run", "--env", "ssh", "ls"), "ssh needs --host"),
        (
            ("run", "--env", "dokcer", "ls"),
            "--env: unknown environment kind 'dokcer'; did you mean 'docker'?",
        ),
        (
            ("run", "--timeout", "0", "ls"),
            "--timeout is seconds above zero; leave it out for no limit",
        ),
        (("demo", "--host", "x"), "--host is no option of the kind local; "),
    ],
)
def test_a_mistake_is_one_line_in_the_shells_terms(
    words: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert code_of(words) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"hermetic: {says}")
    assert told.count("\n") == 1


@pytest.mark.parametrize("more", [(), ("--separate",)])
def test_a_timeout_is_told(more: tuple[str, ...]) -> None:
    done = hermetic("run", *more, "--timeout", "0.3", "sleep", "600")
    assert (done.returncode, done.stdout) == (124, b"")
    assert done.stderr == b"hermetic: timed out after 0.3 s; all that it had started was ended\n"
    assert hermetic("run", "--", "exit 124").stderr == b""


def ascii_only(*words: str) -> "subprocess.CompletedProcess[bytes]":
    """The command line with an output that takes ASCII alone."""
    code = "import sys; from hermetic.cli import main; sys.exit(main(sys.argv[1:]))"
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        capture_output=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
        env={"PATH": "/usr/bin:/bin", "PYTHONIOENCODING": "ascii", "HOME": "/nonexistent"},
    )


@pytest.mark.parametrize("command", ["", "run"])
def test_help_is_plain_where_the_output_is(command: str) -> None:
    done = ascii_only(*filter(None, [command]), "--help")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.isascii()
    if command == "run":
        assert done.stdout.startswith(b"usage: hermetic run [OPTION...] [--] COMMAND...\n")


def test_all_help_can_be_spelled_in_plain_characters(capsys: pytest.CaptureFixture[str]) -> None:
    for command in COMMANDS:
        assert code_of((command, "--help")) == 0
        told = capsys.readouterr().out
        assert "".join(PLAIN.get(character, character) for character in told).isascii(), command


def test_other_output_is_plain_too(tmp_path: Path) -> None:
    done = ascii_only("policy", "check", "rm -rf /usr/é😀")
    assert done.returncode == 4
    assert rb"/usr/\xe9\U0001f600" in done.stdout
    done = ascii_only("policy", "check", "--json", "rm -rf /usr/é😀")
    assert rb"/usr/\u00e9\ud83d\ude00" in done.stdout
    done = ascii_only("run")
    assert (done.returncode, done.stderr.isascii()) == (2, True)
    assert b"[OPTION...]" in done.stderr


def test_the_real_home_is_judged(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", "/srv/homes/me")
    assert main(["policy", "check", "rm -rf ~/work"]) == 4
    assert "deletes files outside the workspace: /srv/homes/me/work" in capsys.readouterr().out
    assert main(["policy", "check", "cat ~/.ssh/id_rsa $HOME/.aws/credentials"]) == 4
    assert "/home/dev" not in capsys.readouterr().out
    assert main(["policy", "check", "rm -rf build"]) == 3


@pytest.fixture
def slow_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A client of docker that says nothing for as long as its file is there."""
    (tmp_path / "docker").write_text(
        '#!/bin/sh\nwhile [ -e "$0.wait" ]; do sleep 0.05; done\nexit 1\n'
    )
    (tmp_path / "docker").chmod(0o755)
    (tmp_path / "docker.wait").touch()
    monkeypatch.setenv("HERMETIC_DOCKER_BINARY", str(tmp_path / "docker"))
    return tmp_path / "docker.wait"


@pytest.mark.parametrize(
    "words",
    [("run", "--env", "docker", "--image", "x:1", "ls"), ("code", "--env", "docker", "s.py")],
)
async def test_a_slow_start_is_told_at_a_terminal(
    words: tuple[str, ...], slow_engine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.py").write_text("print(1)")
    with terminal(*words) as shown:
        await shown.until(b"hermetic: starting docker from the image ")
        await asyncio.to_thread(slow_engine.unlink)
        assert await shown.left() == 125


async def test_the_task_or_process_that_was_probably_meant_is_named() -> None:
    async with library.open("local", task="release-notes") as environment:
        try:
            await environment.start("sleep 300", id="server")
            for words, near in (
                (("rm", "relaese-notes"), "release-notes"),
                (("logs", "sevrer"), "server"),
            ):
                done = await asyncio.to_thread(hermetic, *words)
                assert done.returncode == 1
                assert f"is known here; did you mean {near}? `hermetic " in done.stderr.decode()
        finally:
            await environment.close(remove=True)
