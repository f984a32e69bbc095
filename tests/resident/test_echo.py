"""How a resident waits for the echo of a key."""

import os
import select
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import pytest

from hermetic.resident.life.loop import Loop
from hermetic.resident.processes import echo
from hermetic.resident.processes.echo import KEY_BYTES, MOST_SKIPPED, EchoPolling
from hermetic.resident.processes.job import TerminalDrain
from hermetic.resident.processes.output_log import OutputLog
from tests.programs import unavailable

FOREVER = 30.0  # seconds


class Recorder:
    """An epoll that counts its polls."""

    polls = 0

    def __init__(self) -> None:
        self.epoll = select.epoll()
        self.register, self.unregister = self.epoll.register, self.epoll.unregister

    def poll(self, timeout: float | None = None) -> list[tuple[int, int]]:
        self.polls += 1
        return self.epoll.poll(timeout)


class ChildlessLoop(Loop):
    """A loop that leaves the signals of this process alone."""

    def _catch_child_signals(self) -> None:
        pass


class Terminal:
    """A terminal whose kernel echoes what is typed."""

    def __init__(self) -> None:
        def fail() -> None:
            raise AssertionError

        self.loop = ChildlessLoop(fail)
        self.loop.epoll.close()
        self.recorder = Recorder()
        self.loop.epoll = self.recorder  # type: ignore[assignment]
        self.master, self.slave = os.openpty()
        os.set_blocking(self.master, False)
        self.log = OutputLog(None)
        self.drain = TerminalDrain(self.loop, self.master, self.log)
        self.drain.listen()
        self.polling = EchoPolling(self.loop, self.drain)

    def hide(self) -> None:
        """No echo from now on, as for a password."""
        settings = termios.tcgetattr(self.slave)
        settings[3] &= ~termios.ECHO
        termios.tcsetattr(self.slave, termios.TCSANOW, settings)

    def type(self, data: bytes) -> int:
        """Types; the number of polls for its echo."""
        before = self.recorder.polls
        os.write(self.master, data)
        self.polling.expect(data)
        return self.recorder.polls - before


@contextmanager
def opened() -> Iterator[Terminal]:
    if len(os.sched_getaffinity(0)) < 2:
        unavailable("one processor: a resident does not poll there; run the tests on two")
    terminal = Terminal()
    try:
        yield terminal
    finally:
        terminal.drain.close()
        os.close(terminal.slave)
        terminal.recorder.epoll.close()


def test_the_echo_of_a_key_is_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(echo, "ECHO_SECONDS", FOREVER)
    with opened() as terminal:
        for count in range(1, 51):
            assert terminal.type(b"k")
            assert terminal.log.read(0, 100) == (0, b"k" * count)


def test_a_key_without_an_echo_is_waited_for_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(echo, "ECHO_SECONDS", 0.5)  # a poll yields the processor
    with opened() as terminal:
        terminal.hide()
        assert terminal.type(b"k") > 2
        assert terminal.log.total == 0


def test_other_work_ends_the_polling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(echo, "ECHO_SECONDS", FOREVER)
    with opened() as terminal:
        terminal.hide()
        end, start = os.pipe()
        watch = terminal.loop.watch(end, lambda: None)
        os.write(start, b"x")
        assert terminal.type(b"k") == 1
        terminal.loop.unwatch(watch)
        terminal.loop.call_soon(lambda: None)
        assert terminal.type(b"k") == 0
        os.close(end)
        os.close(start)


def test_a_paste_is_not_waited_for() -> None:
    with opened() as terminal:
        assert terminal.type(b"k" * (KEY_BYTES + 1)) == 0


def test_a_paused_terminal_is_not_read() -> None:
    with opened() as terminal:
        assert terminal.drain.watch is not None
        terminal.loop.unwatch(terminal.drain.watch)
        terminal.drain.watch = None
        assert terminal.type(b"k") == 0
        assert terminal.log.total == 0


def test_where_echoes_come_late_few_keys_are_polled_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(echo, "ECHO_SECONDS", 0.0001)
    with opened() as terminal:
        terminal.hide()
        polled = [key for key in range(300) if terminal.type(b"k")]
    between = [later - key - 1 for key, later in pairwise(polled)]
    assert between == [1, 3, 7, 15, 31, *3 * [MOST_SKIPPED]]


def test_after_an_echo_in_time_every_key_is_polled_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with opened() as terminal:
        terminal.hide()
        monkeypatch.setattr(echo, "ECHO_SECONDS", 0.0001)
        for _ in range(200):
            terminal.type(b"k")
        settings = termios.tcgetattr(terminal.slave)
        settings[3] |= termios.ECHO
        termios.tcsetattr(terminal.slave, termios.TCSANOW, settings)
        monkeypatch.setattr(echo, "ECHO_SECONDS", FOREVER)
        assert any(terminal.type(b"k") for _ in range(MOST_SKIPPED + 1))
        assert terminal.log.total
        terminal.hide()
        monkeypatch.setattr(echo, "ECHO_SECONDS", 0.0001)
        assert terminal.type(b"k")
        assert terminal.type(b"k") == 0
        assert terminal.type(b"k")
