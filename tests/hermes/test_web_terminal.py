"""Terminals of a web UI: start, write, resize, close, and their events."""

import queue
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hermetic import hermes
from hermetic.contract.tool import Fields

SECONDS = 60.0  # for what takes far less


def wait_for(session: hermes.TerminalSession, text: str) -> str:
    """The output until it contains the text."""
    seen, deadline = "", time.monotonic() + SECONDS
    while text not in seen:
        event, payload = session.output.get(timeout=max(0.01, deadline - time.monotonic()))
        assert event == "output", payload
        seen += payload["text"]
    return seen


@pytest.fixture(autouse=True)
def plain_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/bin/sh")
    monkeypatch.setenv("SECRET_TOKEN", "hidden")


def test_a_shell_runs_in_its_workspace_with_few_variables(tmp_path: Path) -> None:
    session = hermes.start_terminal(" s1 ", tmp_path)
    assert (session.session_id, session.workspace, session.rows, session.cols) == (
        "s1",
        str(tmp_path),
        24,
        80,
    )
    hermes.write_terminal(
        "s1",
        "echo $PWD-$TERM-$COLORTERM-$HERMES_WEBUI_TERMINAL-$SECRET_TOKEN-$COLUMNS; stty size\n",
    )
    assert f"{tmp_path}-xterm-256color-truecolor-1--80" in wait_for(session, "24 80")
    assert hermes.get_terminal("s1") is session
    assert session.is_alive()


def test_the_same_workspace_gets_the_living_terminal(tmp_path: Path) -> None:
    first = hermes.start_terminal("s", str(tmp_path))
    assert hermes.start_terminal("s", str(tmp_path), rows=30, cols=100) is first
    assert (first.rows, first.cols) == (30, 100)
    (tmp_path / "other").mkdir()
    second = hermes.start_terminal("s", tmp_path / "other")
    assert second is not first
    assert not first.is_alive()
    third = hermes.start_terminal("s", tmp_path / "other", restart=True)
    assert third is not second


def test_sizes_have_bounds(tmp_path: Path) -> None:
    session = hermes.start_terminal("s", tmp_path, rows=1, cols=1000)
    assert (session.rows, session.cols) == (8, 240)
    hermes.resize_terminal("s", 1000, 1)
    assert (session.rows, session.cols) == (80, 20)
    hermes.resize_terminal("s", 0, 0)
    assert (session.rows, session.cols) == (80, 20)
    hermes.write_terminal("s", "stty size\n")
    wait_for(session, "80 20")


def test_bad_arguments_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="session_id"):
        hermes.start_terminal("  ", tmp_path)
    with pytest.raises(ValueError, match="directory"):
        hermes.start_terminal("s", tmp_path / "missing")
    with pytest.raises(KeyError):
        hermes.write_terminal("none", "x")
    with pytest.raises(KeyError):
        hermes.resize_terminal("none", 24, 80)
    assert hermes.get_terminal("none") is None
    assert hermes.close_terminal("none") is False


def test_the_last_event_says_how_the_shell_ended(tmp_path: Path) -> None:
    session = hermes.start_terminal("s", tmp_path)
    hermes.write_terminal("s", "echo last words; exit 7\n")
    events: list[tuple[str, Fields]] = []
    while not events or events[-1][0] != "terminal_closed":
        events.append(session.output.get(timeout=SECONDS))
    assert events[-1] == ("terminal_closed", {"exit_code": 7})
    assert "last words" in "".join(payload["text"] for event, payload in events[:-1])
    assert not session.is_alive()
    assert hermes.get_terminal("s") is session
    with pytest.raises(KeyError):
        hermes.write_terminal("s", "x")
    assert hermes.close_terminal("s") is True


def test_a_long_paste_arrives_whole(tmp_path: Path) -> None:
    session = hermes.start_terminal("s", tmp_path)
    hermes.write_terminal("s", "stty -icanon -echo; echo rea''dy; head -c 100000 > f; wc -c < f\n")
    wait_for(session, "ready")
    hermes.write_terminal("s", "x" * 100_000)
    wait_for(session, "100000")


def test_closing_ends_all_that_the_shell_has_started(tmp_path: Path) -> None:
    session = hermes.start_terminal("s", tmp_path)
    hermes.write_terminal("s", "trap '' HUP; sleep 600 & sleep 600 & echo star''ted\n")
    wait_for(session, "started")
    assert hermes.close_terminal("s") is True
    assert hermes.get_terminal("s") is None
    assert session.closed.is_set()
    hermes.start_terminal("a", tmp_path)
    hermes.start_terminal("b", tmp_path)
    assert hermes.close_all_terminals() == 2
    assert hermes.close_all_terminals() == 0


@pytest.mark.parametrize("end", ["sys.exit()", "os.kill(os.getpid(), 9)"])
def test_no_shell_outlives_its_server(tmp_path: Path, end: str) -> None:
    code = (
        "import os, sys\n"
        "from hermetic.hermes import start_terminal, web_terminal\n"
        "web_terminal.UNATTENDED = 0.5\n"
        f"session = start_terminal('s', {str(tmp_path)!r})\n"
        "session.write('echo $$ > pid; echo star\\'\\'ted\\n')\n"
        "while 'started' not in session.output.get(timeout=60)[1]['text']:\n    pass\n"
        f"{end}\n"
    )
    subprocess.run([sys.executable, "-c", code], timeout=SECONDS, check=False)
    shell, deadline = int((tmp_path / "pid").read_text()), time.monotonic() + SECONDS
    while Path(f"/proc/{shell}").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not Path(f"/proc/{shell}").exists()


def test_a_reader_that_is_slow_loses_nothing_and_holds_up_nothing(tmp_path: Path) -> None:
    session = hermes.start_terminal("s", tmp_path)
    assert isinstance(session.output, queue.Queue)
    assert session.output.maxsize == 2000
    hermes.write_terminal("s", "seq 100000; touch done\n")
    deadline = time.monotonic() + SECONDS
    while not (tmp_path / "done").exists() and time.monotonic() < deadline:
        time.sleep(0.02)  # nothing reads the output meanwhile
    assert (tmp_path / "done").exists()
    assert "\r\n50000\r\n" in wait_for(session, "\r\n100000\r\n")
