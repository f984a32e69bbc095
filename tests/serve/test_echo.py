"""When the server polls instead of sleeping."""

import asyncio
import os
import selectors
from collections.abc import Awaitable, Callable
from itertools import pairwise

import pytest

from hermetic.serve import echo
from hermetic.serve.echo import MOST_SKIPPED, EchoPolling
from tests.programs import unavailable

FOREVER = 30.0  # seconds


class Recorder(selectors.DefaultSelector):
    """A selector that counts its polls."""

    polls = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.polls += timeout == 0
        return super().select(timeout)


def polls(act: Callable[[EchoPolling], Awaitable[object]]) -> int:
    """How often a loop polls during this."""
    if len(os.sched_getaffinity(0)) < 2:
        unavailable("one processor: the server does not poll there; run the tests on two")
    selector = Recorder()

    async def main() -> int:
        polling = EchoPolling()
        await asyncio.sleep(0.001)
        before = selector.polls
        await act(polling)
        return selector.polls - before

    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        return runner.run(main())


async def unanswered(polling: EchoPolling) -> None:
    """A key without an echo, until its time is over."""
    polling.expect(b"k")
    await asyncio.sleep(2 * echo.ECHO_SECONDS)


async def echoed(polling: EchoPolling) -> None:
    """A key with an echo."""
    polling.expect(b"k")
    await asyncio.sleep(0)
    polling.came()
    await asyncio.sleep(0.001)


def test_a_key_keeps_the_loop_awake_for_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(echo, "ECHO_SECONDS", 0.02)
    assert polls(unanswered) > 2


def test_the_loop_sleeps_again_once_the_echo_came(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(echo, "ECHO_SECONDS", FOREVER)
    assert polls(echoed) <= 4


def test_a_paste_keeps_nothing_awake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(echo, "ECHO_SECONDS", FOREVER)

    async def paste(polling: EchoPolling) -> None:
        polling.expect(b"k" * 100)
        await asyncio.sleep(0.001)

    assert polls(paste) <= 2


def test_where_echoes_come_late_few_keys_are_polled_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(echo, "ECHO_SECONDS", 0.001)
    awake: list[int] = []

    async def type(polling: EchoPolling) -> None:
        for key in range(300):
            polling.expect(b"k")
            if repr(polling) == "<EchoPolling: awake>":
                awake.append(key)
                await asyncio.sleep(0.005)

    polls(type)
    between = [later - key - 1 for key, later in pairwise(awake)]
    assert between == [1, 3, 7, 15, 31, *3 * [MOST_SKIPPED]]


def test_after_an_echo_in_time_every_key_is_polled_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(echo, "ECHO_SECONDS", 0.001)

    async def type(polling: EchoPolling) -> None:
        await unanswered(polling)
        polling.expect(b"k")  # without polling
        monkeypatch.setattr(echo, "ECHO_SECONDS", FOREVER)
        await echoed(polling)
        monkeypatch.setattr(echo, "ECHO_SECONDS", 0.02)
        polling.expect(b"k")
        assert repr(polling) == "<EchoPolling: awake>"
        await asyncio.sleep(0.04)

    assert polls(type) > 4
