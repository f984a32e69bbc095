"""Broken connections are mended unseen; a dead resident is seen at once."""

import asyncio
import hashlib
import os
import signal
import socket
import time
from pathlib import Path

import pytest

import hermetic
from hermetic import EnvironmentUnavailable, Exited, Lost
from hermetic.contract.environment import EnvironmentRecord
from hermetic.environments.local import Local
from tests.scenarios.living import begin
from tests.sizes import scale


@pytest.fixture
def streams(monkeypatch: pytest.MonkeyPatch) -> list[socket.socket]:
    """Every stream that was made to a resident, to be cut by the test."""
    made: list[socket.socket] = []
    reach = Local.reach

    async def recording(self: Local, record: EnvironmentRecord) -> socket.socket:
        made.append(await reach(self, record))
        return made[-1]

    monkeypatch.setattr(Local, "reach", recording)
    return made


async def test_a_command_runs_once_however_often_the_connection_breaks(
    streams: list[socket.socket], tmp_path: Path
) -> None:
    async with hermetic.open("local", cwd=tmp_path) as env:
        running = await begin(
            env, "echo x >> ran; echo up; until [ -e over ]; do sleep 0.02; done; echo done"
        )
        for _ in range(5):
            made = len(streams)
            streams[-1].shutdown(socket.SHUT_RDWR)
            await env.info()  # over the next stream
            assert len(streams) == made + 1
        (tmp_path / "over").touch()
        result = await running
        assert (result.ending, result.output) == (Exited(0), "up\ndone\n")
        assert (tmp_path / "ran").read_text() == "x\n"


async def test_live_output_goes_on_at_the_next_byte(streams: list[socket.socket]) -> None:
    async with hermetic.open("local") as env:
        digest = hashlib.sha256()
        cut = asyncio.Event()

        def take(data: bytes) -> None:
            digest.update(data)
            cut.set()

        async def cut_often() -> None:
            for _ in range(5):
                cut.clear()
                await cut.wait()
                streams[-1].shutdown(socket.SHUT_RDWR)

        cutting = asyncio.ensure_future(cut_often())
        result = await env.run("for i in {1..30}; do seq 1 20000; sleep 0.02; done", on_output=take)
        cutting.cancel()
        whole = "".join(f"{number}\n" for number in range(1, 20_001)).encode() * 30
        assert result.total_bytes == len(whole)
        assert digest.digest() == hashlib.sha256(whole).digest()
        assert len(streams) > 2


async def test_a_cancelled_command_ends_though_the_connection_breaks(
    streams: list[socket.socket],
) -> None:
    async with hermetic.open("local") as env:
        running = await begin(env, "trap '' TERM; echo up; while :; do sleep 1; done")
        running.cancel()
        await asyncio.sleep(0.02)
        streams[-1].shutdown(socket.SHUT_RDWR)
        with pytest.raises(asyncio.CancelledError):
            await running
        assert all(process.state == "ended" for process in await env.processes())


async def test_input_is_sent_again_when_the_connection_breaks_under_it(
    streams: list[socket.socket],
) -> None:
    data = os.urandom(20_000_000)
    async with hermetic.open("local") as env:
        running = asyncio.ensure_future(env.run("sha256sum", stdin=data))
        await asyncio.sleep(0.01)
        streams[-1].shutdown(socket.SHUT_RDWR)
        assert (await running).output.split()[0] == hashlib.sha256(data).hexdigest()


async def test_events_say_that_some_were_missed(streams: list[socket.socket]) -> None:
    async with hermetic.open("local") as env, env.events() as events:
        await env.info()
        streams[-1].shutdown(socket.SHUT_RDWR)
        async with asyncio.timeout(10):
            assert (await anext(events)).event == "missed"


@pytest.mark.slow
async def test_a_killed_resident_is_seen_at_once_and_leaves_nothing() -> None:
    for _ in range(scale(20)):
        env = await hermetic.open("local")
        info = await env.info()
        child = await env.start("sleep 600")
        running = [
            await begin(env, "echo begun; sleep 600"),
            await begin(env, "echo begun; sleep 600"),
        ]
        waiting = asyncio.ensure_future(child.wait())
        await env.info()
        began = time.monotonic()
        os.kill(info.pid, signal.SIGKILL)
        results = await asyncio.gather(*running)
        assert time.monotonic() - began < 10
        assert all(
            isinstance(result.ending, Lost) and result.exit_code is None for result in results
        )
        assert isinstance(await waiting, Lost)
        assert isinstance(await child.wait(), Lost)
        with pytest.raises(EnvironmentUnavailable, match="gone"):
            await child.read()
        with pytest.raises(EnvironmentUnavailable, match="gone"):
            await child.wait_for("x", timeout=5)
        with pytest.raises(EnvironmentUnavailable, match="gone"):
            await env.run("true")
        await env.close()
