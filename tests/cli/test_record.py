"""`hermetic record` and `hermetic play`."""

import asyncio
import itertools
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import hermetic
from tests.cli.program import COMMAND
from tests.cli.program import hermetic as command_line

SECRET = "correct-horse-battery-staple-4711"


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def read(path: Path) -> tuple[dict[str, Any], list[list[Any]]]:
    """Header and events, as any reader of asciicast version 2 finds them."""
    header, *events = map(json.loads, path.read_text().splitlines())
    assert header["version"] == 2
    assert all(one[0] <= two[0] for one, two in itertools.pairwise(events))
    return header, events


def output(events: list[list[Any]]) -> str:
    return "".join(text for _, kind, text in events if kind == "o")


def test_a_command_is_recorded_and_played(tmp_path: Path) -> None:
    cast = tmp_path / "demo.cast"
    done = command_line(
        "record", "-f", str(cast), "--", "printf 'one\\n'; sleep 0.3; echo two; exit 3"
    )
    assert done.returncode == 3, done.stderr
    assert f"hermetic play {cast}".encode() in done.stderr
    assert (cast.stat().st_mode & 0o777) == 0o600
    header, events = read(cast)
    assert (header["width"], header["height"]) == (80, 24)
    assert "sleep 0.3" in header["command"]
    assert output(events) == "one\r\ntwo\r\n"
    marks = [text for _, kind, text in events if kind == "m"]
    assert marks[0].startswith("$ printf")
    assert "3" in marks[-1]
    one, two = [at for at, kind, _ in events if kind == "o"][:2]
    assert two - one >= 0.2
    played = command_line("play", "--cat", str(cast))
    assert (played.returncode, played.stdout) == (0, b"one\r\ntwo\r\n")
    assert command_line("play", "--speed", "100", str(cast)).stdout == b"one\r\ntwo\r\n"
    assert b"there is a file" in command_line("record", "-f", str(cast), "--", "true").stderr


def test_recordings_are_kept_listed_exported_and_removed(tmp_path: Path) -> None:
    assert command_line("record", "--", "echo kept").returncode == 0
    [listed] = json.loads(command_line("record", "--list", "--json").stdout)
    assert listed["command"] == "echo kept"
    assert listed["size"] > 100
    assert listed["duration"] > 0
    assert command_line("play", "--cat", listed["id"]).stdout == b"kept\r\n"
    copy = tmp_path / "copy.cast"
    assert command_line("record", "--export", listed["id"], "-f", str(copy)).returncode == 0
    assert output(read(copy)[1]) == "kept\r\n"
    assert command_line("record", "--remove", listed["id"]).returncode == 0
    assert json.loads(command_line("record", "--list", "--json").stdout) == []
    assert command_line("play", listed["id"]).returncode == 2


def test_secrets_are_hidden_also_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_TOKEN", SECRET)
    cast = tmp_path / "demo.cast"
    command = f"echo {SECRET[:10]}\\\n{SECRET[10:]}; printf {SECRET[:10]}; sleep 0.3; printf '{SECRET[10:]}\\n'; echo open"
    assert command_line("record", "-f", str(cast), "--", command).returncode == 0
    assert SECRET not in cast.read_text()
    assert "open\r\n" in output(read(cast)[1])


async def test_a_process_is_recorded_from_its_start_to_its_end(tmp_path: Path) -> None:
    cast = tmp_path / "process.cast"
    async with hermetic.open("local", task="record-1", login=False) as env:
        process = await env.start(
            "echo before; read line; echo got $line", pty=True, rows=30, cols=100
        )
        await process.wait_for("before", timeout=60)
        recording = await asyncio.create_subprocess_exec(
            *COMMAND, "record", "-f", str(cast), process.id
        )
        await until_recorded(cast, "before")
        await process.submit("hello")
        assert await asyncio.wait_for(recording.wait(), 60) == 0
        await env.close(remove=True)
    header, events = read(cast)
    assert (header["width"], header["height"]) == (100, 30)
    assert "got hello" in output(events)
    assert "typed by agent" in [text for _, kind, text in events if kind == "m"]


async def test_every_command_of_a_task_is_recorded_with_marks_at_its_borders(
    tmp_path: Path,
) -> None:
    cast = tmp_path / "task.cast"
    async with hermetic.open("local", task="record-2", login=False) as env:
        recording = await asyncio.create_subprocess_exec(
            *COMMAND, "record", "-f", str(cast), "record-2"
        )
        await until_recorded(cast, "commands of record-2")
        async with asyncio.timeout(60):
            while "first" not in cast.read_text():  # it listens in a moment
                await env.run("echo first")
        await env.run("echo second; false")
        await until_recorded(cast, "second\\r")
        recording.send_signal(signal.SIGINT)
        assert await asyncio.wait_for(recording.wait(), 60) == 0
        await env.close(remove=True)
    _, events = read(cast)
    marks = [text for _, kind, text in events if kind == "m"]
    assert "$ echo second; false" in marks
    assert "second\r\n" in output(events)


async def until_recorded(path: Path, text: str) -> None:
    async with asyncio.timeout(60):
        while not path.exists() or not path.stat().st_size or text not in path.read_text():  # noqa: ASYNC110, ASYNC240
            await asyncio.sleep(0.02)


def test_what_is_no_recording_is_refused(tmp_path: Path) -> None:
    for text in (
        "",
        "hello\n",
        "[1]\n",
        '{"version": 1}\n',
        '{"version": 2, "width": 80, "height": 24}\nbroken\n',
    ):
        (tmp_path / "x").write_text(text)
        done = command_line("play", "--cat", str(tmp_path / "x"))
        assert done.returncode == 2, text
        assert done.stderr.count(b"\n") == 1
    for words in (
        ("record",),
        ("record", "a", "b"),
        ("record", "--export", "rec-1"),
        ("play", "no-such"),
    ):
        assert command_line(*words).returncode != 0


def test_a_recording_of_version_3_is_played_and_no_clipboard_is_written(tmp_path: Path) -> None:
    lines = [
        {"version": 3, "term": {"cols": 80, "rows": 24}},
        [0.1, "o", "a\x1b]52;c;aGVsbG8=\x07"],
        [0.1, "m", ""],
        [0.1, "o", "b"],
    ]
    (tmp_path / "x").write_text("# comment\n".join(json.dumps(line) + "\n" for line in lines))
    assert command_line("play", "--cat", str(tmp_path / "x")).stdout == b"ab"


def test_what_cannot_be_read_is_no_recording(tmp_path: Path) -> None:
    done = command_line("play", str(tmp_path))
    assert (done.returncode, done.stdout) == (2, b"")
    assert (
        done.stderr
        == f"hermetic: the recording {tmp_path} cannot be read: Is a directory\n".encode()
    )


def test_asciinema_plays_it(tmp_path: Path) -> None:
    cast = tmp_path / "demo.cast"
    assert command_line("record", "-f", str(cast), "--", "echo hello").returncode == 0
    done = subprocess.run(
        [sys.executable, "-m", "asciinema", "cat", str(cast)], capture_output=True, timeout=60
    )
    assert b"hello" in done.stdout, done
