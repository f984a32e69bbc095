"""Engines that are elsewhere, missing, broken or stopped."""

import asyncio
import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import hermetic
from hermetic.environments.containers.client import PROGRAMS
from hermetic.registry.host_process import ended
from hermetic.registry.records import Records, runtime_root
from tests.environments.engines import ENGINES, ask, eventually, need_engine, ours
from tests.programs import need_root, need_variable

SCRIPTS = Path(__file__).parents[2] / "scripts" / "engines"


@asynccontextmanager
async def engine_by_tcp() -> AsyncIterator[str]:
    """The docker engine as it is reached on another machine: by an address instead of a socket's
    path.
    """
    path = need_variable("DOCKER_HOST").removeprefix("unix://")

    async def carry(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(1 << 16):
                target.write(data)
                await target.drain()
            target.write_eof()
        except OSError:
            return

    serving: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        serving.add(task)
        there, back = await asyncio.open_unix_connection(path)
        # a stream's task that is cancelled counts as a failure
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(carry(reader, back), carry(there, writer))
        back.close()
        writer.close()
        serving.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)


async def test_an_engine_elsewhere_is_reached_through_its_exec(
    image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_engine("docker")
    async with engine_by_tcp() as address:
        monkeypatch.setenv("DOCKER_HOST", address)
        env = await hermetic.open("docker", image=image, task="far")
        record = Records(runtime_root()).find("far")
        assert record is not None
        assert record.place["bridge"] == "exec"
        assert (await env.run("cd /opt; seq 100000 | wc -l")).output == "100000\n"
        big = await env.run("head -c 3000000 /dev/zero", limit=4_000_000)
        assert len(big.data) == 3_000_000
        # Whoever attaches later speaks to the engine that has it, whatever is set then.
        monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere")
        async with hermetic.attach("far") as again:
            assert (await again.run("pwd")).output == "/opt\n"
        await env.close(remove=True)
    monkeypatch.undo()
    assert ours("docker") == []


async def test_an_engine_that_is_missing_or_broken_is_told_and_nothing_runs_elsewhere(
    image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    # this machine may have it where a Mac would
    monkeypatch.setitem(PROGRAMS, "docker", ("docker", "podman"))
    for kind in ENGINES:
        with pytest.raises(hermetic.EnvironmentUnavailable, match=f"install {kind}"):
            await hermetic.open(kind, image=image)
    program = tmp_path / "client"
    for setting in ("HERMES_DOCKER_BINARY", "HERMETIC_DOCKER_BINARY"):
        monkeypatch.setenv(setting, str(program))
        with pytest.raises(hermetic.EnvironmentUnavailable, match=f"{setting}.*does not exist"):
            await hermetic.open("docker", image=image)
    program.write_text("#!/bin/sh\necho no good >&2\nexit 1\n")
    with pytest.raises(hermetic.EnvironmentUnavailable, match="chmod"):
        await hermetic.open("docker", image=image)
    program.chmod(0o755)
    with pytest.raises(hermetic.EnvironmentUnavailable, match="no good"):
        await hermetic.open("docker", image=image)
    assert list(runtime_root().glob("[et]-*")) == []


@pytest.fixture
def own_engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """A docker engine of the test's own is the one in use; calling it stops it."""
    need_engine("docker")
    need_root("an engine of its own can only be started by root")
    with tempfile.TemporaryDirectory(prefix="hd-", dir="/tmp") as directory:

        def stop() -> None:
            subprocess.run(
                [SCRIPTS / "stop-docker.sh", "--dir", directory], check=True, capture_output=True
            )

        subprocess.run(
            [SCRIPTS / "start-docker.sh", "--dir", directory], check=True, capture_output=True
        )
        try:
            monkeypatch.setenv("DOCKER_HOST", f"unix://{directory}/docker.sock")
            ask("docker", ["import", need_variable("IMAGE_BASE_TAR"), "own"])
            yield stop
        finally:
            stop()


@pytest.mark.slow
async def test_a_stopped_engine_is_told_with_what_to_do(own_engine: Callable[[], None]) -> None:
    env = await hermetic.open("docker", image="own", network=False, task="stopped")
    up = asyncio.Event()
    running = asyncio.create_task(env.run("echo up; sleep 600", on_output=lambda _: up.set()))
    async with asyncio.timeout(20):
        await up.wait()
    await asyncio.to_thread(own_engine)
    assert isinstance((await running).ending, hermetic.Lost)
    await env.close()
    for task in ("stopped", "another"):
        with pytest.raises(hermetic.EnvironmentUnavailable, match="does not answer; start it"):
            await hermetic.open("docker", image="own", network=False, task=task)
    assert [record.task for record in Records(runtime_root()).all()] in ([], ["stopped"])
    Records(runtime_root()).discard(env.id)
    await eventually(lambda: list(runtime_root().glob("[et]-*")) == [])


@pytest.mark.full
@pytest.mark.usefixtures("own_engine")
async def test_a_task_opens_anew_where_its_engine_was_killed_and_started_again() -> None:
    env = await hermetic.open("docker", image="own", network=False, task="restarted")
    running = asyncio.create_task(env.run("sleep 600"))
    socket = Path(os.environ["DOCKER_HOST"].removeprefix("unix://"))
    daemon = int((socket.parent / "docker.pid").read_text())
    os.kill(daemon, signal.SIGKILL)
    await ended(daemon)
    start = [str(SCRIPTS / "start-docker.sh"), "--dir", str(socket.parent)]
    await asyncio.to_thread(subprocess.run, start, check=True, capture_output=True)
    async with asyncio.timeout(100):
        # The engine ends what it finds of before.
        assert isinstance((await running).ending, hermetic.Lost)
    async with hermetic.open("docker", image="own", network=False, task="restarted") as again:
        assert (await again.run("echo again")).output == "again\n"
        await again.close(remove=True)
    await env.close()


@pytest.mark.full
def test_an_engine_starts_beside_the_damaged_files_of_a_killed_one() -> None:
    need_engine("docker")
    need_root("an engine of its own can only be started by root")
    with tempfile.TemporaryDirectory(prefix="hd-", dir="/tmp") as directory:
        start, stop = (
            [str(SCRIPTS / name), "--dir", directory]
            for name in ("start-docker.sh", "stop-docker.sh")
        )
        subprocess.run(start, check=True, capture_output=True)
        subprocess.run(stop, check=True, capture_output=True)
        damaged = list(Path(directory, "data", "containerd").rglob("meta.db"))
        assert damaged
        for path in damaged:
            path.write_text("not a database")
        try:
            done = subprocess.run(start, check=True, capture_output=True, text=True)
            assert done.stdout == f"DOCKER_HOST=unix://{directory}/docker.sock\n"
        finally:
            subprocess.run(stop, check=True, capture_output=True)
