"""Progress of what takes long: one line that is drawn again at a terminal, single lines elsewhere."""

import asyncio
import fcntl
import io
import logging
import os
import struct
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hermetic.cli import progress
from hermetic.cli.copying import readable
from hermetic.cli.progress import ERASE, Progress, ProgressLog, log_progress
from tests.cli.program import hermetic
from tests.cli.test_attach import terminal
from tests.cli.test_words import slow_engine

__all__ = ["slow_engine"]
DOCKER = ("run", "--env", "docker", "--image", "x:1", "ls")


class Screen:
    """What stderr, a terminal of 60 columns, was given."""

    def __init__(self, master: int) -> None:
        self._master = master
        self.text = ""

    async def until(self, text: str) -> None:
        async with asyncio.timeout(30):
            while text not in self.text:
                await readable(self._master)
                self.text += os.read(self._master, 4096).decode()


@contextmanager
def terminal_as_stderr(monkeypatch: pytest.MonkeyPatch) -> Iterator[Screen]:
    """Inside a test: pytest has a stderr of its own for each of its phases."""
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress, "SLOW_SECONDS", 0.01)
    monkeypatch.setattr(progress, "REDRAW_SECONDS", 0.01)
    try:
        with open(slave, "w") as stream:
            monkeypatch.setattr(sys, "stderr", stream)
            yield Screen(master)
    finally:
        os.close(master)


@pytest.fixture
def logged() -> Iterator[logging.Logger]:
    """Our log, with the handler that shows progress."""
    log = logging.getLogger("hermetic")
    earlier, level = log.handlers[:], log.level
    log.handlers = []
    log_progress()
    yield log
    log.handlers, log.level = earlier, level


async def test_a_terminal_shows_one_line_with_the_seconds_which_goes_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with terminal_as_stderr(monkeypatch) as screen:
        with Progress("copying data"):
            await screen.until("hermetic: copying data, 0 s")
            await screen.until(f"{ERASE}hermetic: copying data, 1 s")
        await screen.until(f"1 s{ERASE}")
    assert "\n" not in screen.text


async def test_a_message_replaces_the_line_and_a_warning_stays(
    monkeypatch: pytest.MonkeyPatch, logged: logging.Logger
) -> None:
    with terminal_as_stderr(monkeypatch) as screen:
        with Progress("starting"):
            await screen.until("hermetic: starting, ")
            logged.info("pulling \x1b[2J layer %s", "x" * 90)
            await screen.until("hermetic: pulling")
            logged.warning("no space")
            await screen.until(f"{ERASE}hermetic: no space\r\n")
        logged.info("after it")
        await screen.until("hermetic: after it\r\n")
    assert "\x1b[2J" not in screen.text
    assert all(len(line) < 60 for line in screen.text.replace("\r\n", ERASE).split(ERASE))


async def test_other_output_ends_the_line_first(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal_as_stderr(monkeypatch) as screen, Progress("starting") as shown:
        await screen.until("hermetic: starting, ")
        shown.finish()
        sys.stderr.write("output\n")
        sys.stderr.flush()
        await screen.until(f"{ERASE}output\r\n")
        shown.say("more")
        await asyncio.sleep(0.05)  # nothing more is drawn in the time of five lines
        sys.stderr.write("end\n")
        sys.stderr.flush()
        await screen.until("output\r\nend\r\n")


async def test_a_pipe_gets_single_lines(
    monkeypatch: pytest.MonkeyPatch, logged: logging.Logger
) -> None:
    is_written = asyncio.Event()

    class Pipe(io.StringIO):
        def write(self, text: str) -> int:
            is_written.set()
            return super().write(text)

    monkeypatch.setattr(progress, "SILENT_SECONDS", 0.01)
    monkeypatch.setattr(sys, "stderr", stream := Pipe())
    with Progress("starting docker"):
        async with asyncio.timeout(30):
            await is_written.wait()
        logged.info("uploading")
        await asyncio.sleep(0.05)  # nothing is drawn again
    assert stream.getvalue() == "hermetic: starting docker\nhermetic: uploading\n"


async def test_short_work_is_not_mentioned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", stream := io.StringIO())
    with Progress("starting"):
        await asyncio.sleep(0)
    assert stream.getvalue() == ""


async def test_a_slow_start_is_drawn_by_the_program(
    slow_engine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    with terminal(*DOCKER) as shown:
        await shown.until(b"hermetic: starting docker from the image x:1")
        await shown.until(b" s\r\x1b[Khermetic: starting docker")
        await asyncio.to_thread(slow_engine.unlink)
        assert await shown.left() == 125
        assert "\r\x1b[K" in shown.rest()


def test_a_program_without_a_terminal_stays_silent_at_first(slow_engine: Path) -> None:
    slow_engine.unlink()
    done = hermetic(*DOCKER)
    assert done.returncode == 125
    assert b"starting" not in done.stderr
    assert b"\x1b" not in done.stderr


def test_the_handler_survives_a_closed_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError("closed")

    monkeypatch.setattr(sys, "stderr", Closed())
    ProgressLog().handle(logging.makeLogRecord({"msg": "text", "levelno": logging.INFO}))
