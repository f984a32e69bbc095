"""Engines that hang, and containers that are restarted: nothing waits for ever."""

import asyncio
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import hermetic
from hermetic.environments import docker
from hermetic.environments.containers import client as container_client
from hermetic.environments.containers import start
from hermetic.link import archive
from hermetic.registry.records import Records, runtime_root
from tests.cli.program import eventually
from tests.environments.engines import ENGINES, ask, need_engine
from tests.programs import need, need_variable

MOST_SECONDS = 30.0  # for any call of an engine to be reported, as long as nothing makes progress


@pytest.fixture
def hanging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A daemon that accepts and never answers."""
    need("docker")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "engine"))
        listener.listen(64)
        monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/engine")
        yield


@pytest.mark.slow
@pytest.mark.usefixtures("hanging")
async def test_an_engine_that_never_answers_is_reported_in_time() -> None:
    began = time.monotonic()
    with pytest.raises(
        hermetic.EnvironmentUnavailable, match="does not answer; restart it, or set DOCKER_HOST"
    ):
        await hermetic.open("docker", image="whatever")
    assert time.monotonic() - began < MOST_SECONDS
    assert os.listdir(runtime_root()) in ([], ["janitor"])


@pytest.mark.slow
@pytest.mark.usefixtures("hanging")
async def test_every_call_of_an_engine_ends() -> None:
    client = container_client.find_client("docker")
    calls = {
        "run": client.run("ps"),
        "state": client.state("x"),
        "remove": client.remove("x"),
        "lacking_limits": client.lacking_limits(),
    }
    async with asyncio.timeout(MOST_SECONDS):
        outcomes = await asyncio.gather(*calls.values(), return_exceptions=True)
    for name, outcome in zip(calls, outcomes, strict=True):
        assert isinstance(outcome, hermetic.EnvironmentUnavailable), name
        assert "does not answer" in str(outcome), name


@pytest.mark.parametrize("kind", ENGINES)
async def test_the_state_of_a_container_is_what_its_engine_says(kind: str) -> None:
    need_engine(kind)
    async with hermetic.open(kind, task="state", image=need_variable("IMAGE_BASE")) as env:
        record = Records(runtime_root()).of_task("state")
        assert record is not None
        client, name = container_client.client_of(kind, record.place), record.place["container"]
        assert await client.state(name) == "running"
        assert await client.state(name[:-1]) == ""
        await env.close(remove=True)
        assert await client.state(name) == ""
        backend = (
            docker.Docker(record.options) if kind == "docker" else docker.Podman(record.options)
        )
        assert await backend.is_gone(record)


async def test_a_start_that_makes_progress_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    need_engine("docker")
    # the engine is asked all the time, and answers
    monkeypatch.setattr(start, "LOOK_SECONDS", 0.001)
    async with hermetic.open("docker", image=need_variable("IMAGE_BASE")) as env:
        assert (await env.run("echo up")).output == "up\n"


def test_a_container_that_gets_no_configuration_gives_up() -> None:
    """As one that is restarted: its input stays open, and nothing comes."""
    need_engine("docker")
    waits = f"alarm({archive.GIVEN_SECONDS})"
    assert waits in archive.BOOT
    boot, image = archive.BOOT.replace(waits, "alarm(1)"), need_variable("IMAGE_BASE")
    name = ask(
        "docker", ["run", "--detach", "--interactive", image, "python3", "-I", "-S", "-c", boot]
    )
    try:
        assert ask("docker", ["wait", name]) == "1"
    finally:
        ask("docker", ["rm", "--force", name])


async def test_a_restarted_container_leaves_nothing_and_the_task_opens_anew() -> None:
    """Whether the engine restarts it, or finds its directories gone: no container stays that waits."""
    need_engine("docker")
    image = need_variable("IMAGE_BASE")
    for _ in range(3):
        env = await hermetic.open("docker", task="restarted", image=image)
        record = Records(runtime_root()).of_task("restarted")
        assert record is not None
        restart = ["docker", "restart", "--time", "0", record.place["container"]]
        await asyncio.to_thread(
            subprocess.run, restart, capture_output=True, check=False, timeout=60
        )
        async with hermetic.open("docker", task="restarted", image=image) as new:
            assert (await new.run("echo new")).output == "new\n"
            await new.close(remove=True)
        await env.close()
        await asyncio.to_thread(eventually, partial(no_container, env.id), 100)


def no_container(id: str) -> bool:
    """The resident of a restarted container gives up after 30 s at most."""
    return ask("docker", ["ps", "--all", "--quiet", "--filter", f"name={id}"]) == ""
