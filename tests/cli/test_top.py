"""`hermetic top`: what uses CPU and memory, once or live."""

import asyncio
import os
import signal
import termios

import msgspec
import pytest

import hermetic
from hermetic.cli.top import EnvironmentUsage, Monitor
from tests.cli.program import as_json
from tests.cli.program import hermetic as program
from tests.cli.test_attach import terminal
from tests.cli.test_looking import opened

BUSY = "while :; do :; done"


@pytest.fixture(autouse=True)
def real_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")


async def test_a_snapshot_measures_processes_and_environments() -> None:
    async with opened("measured") as environment, opened("idle"):
        busy = await environment.start(BUSY, id="busy")
        await environment.start("sleep 300 & sleep 300", id="lazy")
        ended = await environment.start("true", id="over")
        await ended.wait(20)
        answer = await asyncio.to_thread(as_json, "top")
        usages = {one.task: one for one in msgspec.convert(answer, list[EnvironmentUsage])}
        assert usages.keys() >= {"measured", "idle"}
        assert usages["idle"].processes == ()
        processes = {one.id: one for one in usages["measured"].processes}
        assert processes.keys() == {"busy", "lazy"}
        assert processes["busy"].pid == busy.pid
        assert (processes["busy"].cpu_percent or 0) > 1
        assert (processes["lazy"].cpu_percent or 0) < (processes["busy"].cpu_percent or 0)
        assert processes["lazy"].members >= 2
        assert processes["busy"].memory_bytes > 100_000
        assert (usages["measured"].memory_bytes or 0) >= processes["busy"].memory_bytes
        assert (usages["measured"].cpu_percent or 0) > 1


async def test_without_a_terminal_it_is_a_table_that_is_printed_once() -> None:
    async with opened("tabled") as environment:
        await environment.start("sleep 300", id="shown")
        done = await asyncio.to_thread(program, "top", "--in", "tabled")
        assert (done.returncode, done.stderr) == (0, b"")
        heading, of_environment, of_process = done.stdout.decode().splitlines()
        assert heading.split() == ["NAME", "STATE", "CPU", "MEMORY", "AGE", "COMMAND"]
        assert of_environment.split()[:2] == ["tabled", "alive"]
        assert of_process.startswith("  shown ")
        assert of_process.endswith("sleep 300")


@pytest.mark.parametrize("leave", [b"q", b"\x03"])
async def test_live_it_shows_a_start_at_once_and_restores_the_terminal(leave: bytes) -> None:
    async with opened("live") as environment:
        with terminal("top", "--interval", "3000") as shown:
            await shown.until(b"\x1b[?1049h\x1b[?25l")
            await shown.until(b" %")  # the second frame, and the last one by itself
            await environment.start("sleep 301", id="late")
            await shown.until(b"sleep 301")
            shown.type(leave)
            assert await shown.left() == 0
            cooked = termios.ICANON | termios.ECHO | termios.ISIG
            assert termios.tcgetattr(shown.master)[3] & cooked == cooked
            assert shown.rest().endswith("\x1b[?25h\x1b[?1049l")


async def test_once_is_obeyed_at_a_terminal_and_a_dumb_one_gets_no_screen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with opened("plain"):
        for words, term in ((("top", "--once"), "xterm"), (("top",), "dumb")):
            monkeypatch.setenv("TERM", term)
            with terminal(*words) as shown:
                await shown.until(b"plain")
                assert await shown.left() == 0
                assert b"\x1b[?1049h" not in shown.before


async def test_it_follows_environments_that_come_and_go() -> None:
    monitor = Monitor()
    try:
        async with opened("first"):
            assert "first" in {usage.task for usage in await monitor.sample()}
            async with opened("second"):
                assert {"first", "second"} <= {usage.task for usage in await monitor.sample()}
        async with asyncio.timeout(30):
            while {"first", "second"} & {
                usage.task for usage in await monitor.sample() if usage.state == "alive"
            }:
                await monitor.changed.wait()
                monitor.changed.clear()
    finally:
        await monitor.close()


async def test_it_prolongs_no_lease() -> None:
    environment = await hermetic.open("local", task="left alone", lease=0.5, unattended=0.5)
    monitor = Monitor("left alone")
    try:
        assert [usage.state for usage in await monitor.sample()] == ["alive"]
        await environment.close()
        async with asyncio.timeout(60):
            await monitor.changed.wait()
        await monitor.close()
    finally:
        await asyncio.to_thread(program, "rm", "left alone")


async def test_an_environment_that_does_not_answer_holds_up_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hermetic.cli.top.ANSWER_SECONDS", 0.5)
    async with opened("stuck") as stuck, opened("well"):
        monitor = Monitor()
        try:
            await monitor.sample()
            pid = (await stuck.info()).pid
            os.kill(pid, signal.SIGSTOP)
            try:
                states = {usage.task: usage.state for usage in await monitor.sample()}
            finally:
                os.kill(pid, signal.SIGCONT)
            assert (states["stuck"], states["well"]) == ("stalled", "alive")
        finally:
            await monitor.close()
