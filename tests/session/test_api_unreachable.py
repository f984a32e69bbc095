"""An environment that cannot be reached for a moment is neither ended nor replaced, and its caller
learns why.
"""

import asyncio
import contextlib
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from tempfile import TemporaryDirectory
from typing import Any

import pytest

import hermetic
from hermetic import EnvironmentUnavailable, Unreachable
from hermetic.contract.limits import CLIENTS
from hermetic.registry.host_process import ended
from hermetic.registry.records import Records, runtime_root
from tests.cli.program import hermetic as program
from tests.environments.engines import ask, need_engine
from tests.programs import need_variable
from tests.sizes import at_full_size

KINDS = ("local", "docker")
# what the opener runs out of is its own
ON_THIS_SIDE = ("local", *at_full_size("docker"))


def options_of(kind: str) -> dict[str, Any]:
    if kind == "local":
        return {}
    need_engine(kind)
    return {"image": need_variable("IMAGE_BASE")}


@asynccontextmanager
async def task(kind: str) -> AsyncIterator[hermetic.Environment]:
    """A task with a variable in its shell, by which it is known again; ended at the end."""
    environment = await hermetic.open(kind, task="kept", **options_of(kind))
    try:
        await environment.run("X=kept")
        yield environment
    finally:
        await environment.close(remove=True)


async def is_the_same(kind: str) -> bool:
    async with hermetic.open(kind, task="kept", **options_of(kind)) as again:
        return (await again.run("echo $X")).output == "kept\n"


@contextlib.contextmanager
def held(kind: str) -> Iterator[None]:
    """The resident does not run: a container is paused, a process stopped."""
    record = Records(runtime_root()).of_task("kept")
    assert record is not None
    if kind == "docker":
        ask(kind, ["pause", record.place["container"]])
    else:
        os.kill(record.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        if kind == "docker":
            ask(kind, ["unpause", record.place["container"]])
        else:
            os.kill(record.pid, signal.SIGCONT)


@pytest.fixture(autouse=True)
def less_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    wait_for_room(monkeypatch, 1.0)
    monkeypatch.setattr("hermetic.link.connection.GREETING", 2.0)


def wait_for_room(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    monkeypatch.setattr("hermetic.fleet.reaching.REACH", seconds)


@pytest.mark.parametrize("kind", KINDS)
async def test_one_client_too_many_is_refused_as_full(kind: str) -> None:
    async with task(kind) as environment:
        others = [await hermetic.attach("kept") for _ in range(CLIENTS - 1)]
        for attempt in (
            hermetic.attach("kept"),
            hermetic.open(kind, task="kept", **options_of(kind)),
        ):
            with pytest.raises(Unreachable, match="64 clients") as caught:
                await attempt
            assert caught.value.state == "full"
            assert caught.value.environment == environment.id
        done = await asyncio.to_thread(program, "ps")
        assert b"64 clients" in done.stderr
        done = await asyncio.to_thread(program, "attach", "proc_1")
        assert b"64 clients" in done.stderr
        assert (await environment.run("echo $X")).output == "kept\n"
        await others.pop().close()
        assert await is_the_same(kind)
        for other in others:
            await other.close()


async def test_who_waits_for_room_gets_in_when_there_is_some(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wait_for_room(monkeypatch, 60.0)
    async with task("local"):
        others = [await hermetic.attach("kept") for _ in range(CLIENTS - 1)]
        waiting = asyncio.ensure_future(is_the_same("local"))
        await asyncio.wait([waiting], timeout=0.3)
        assert not waiting.done()
        await others.pop().close()
        assert await waiting
        for other in others:
            await other.close()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_resident_that_is_held_is_told_as_stalled_and_goes_on(kind: str) -> None:
    async with task(kind) as environment:
        with held(kind):
            for attempt in (
                hermetic.attach("kept"),
                hermetic.open(kind, task="kept", **options_of(kind)),
            ):
                with pytest.raises(Unreachable, match="hermetic rm kept") as caught:
                    await attempt
                assert caught.value.state == "stalled"
            assert Records(runtime_root()).stalled_since(environment.id) is not None
        assert await is_the_same(kind)
        assert Records(runtime_root()).stalled_since(environment.id) is None


@pytest.mark.parametrize("kind", ON_THIS_SIDE)
async def test_an_opener_without_descriptors_ends_nothing(kind: str) -> None:
    async with task(kind):
        told: list[Unreachable] = []
        for free in range(6):
            try:
                with few_descriptors(free):
                    await (await hermetic.open(kind, task="kept", **options_of(kind))).close()
            except Unreachable as error:
                told.append(error)
        assert len(told) >= 2
        assert {error.state for error in told} == {"busy"}
        assert await is_the_same(kind)


@pytest.mark.parametrize("kind", ON_THIS_SIDE)
async def test_an_opener_that_runs_out_of_descriptors_is_told_so_and_leaves_nothing(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with TemporaryDirectory(prefix="hm-spool-", dir="/var/tmp") as spools:  # on a disk
        monkeypatch.setenv("HERMETIC_SPOOL_DIR", spools)
        told: list[str] = []
        for free in range(0, 60, 1 if kind == "local" else 4):
            try:
                with few_descriptors(free):
                    environment = await hermetic.open(kind, **options_of(kind))
            except EnvironmentUnavailable as error:
                told.append(str(error))
            else:
                await environment.close()
                break
        assert len(told) >= 1
        assert [text for text in told if "ulimit -n" not in text] == []
        await eventually(lambda: os.listdir(runtime_root()) == os.listdir(spools) == [])


OPENER = """
import asyncio, resource
from hermetic import EnvironmentUnavailable, open

async def main():
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
    try:
        await open("docker", image="some")
    except EnvironmentUnavailable as error:
        print(error)

asyncio.run(main())
"""


def test_an_opener_that_has_no_descriptor_for_an_import_is_told_so() -> None:
    """In a fresh program nothing of the kind is imported yet."""
    done = subprocess.run(
        [sys.executable, "-c", OPENER], capture_output=True, text=True, check=False
    )
    assert "ulimit -n" in done.stdout, done.stderr


async def eventually(check: Callable[[], bool]) -> None:
    """Returns once it is true; the janitor removes what it has to by itself."""
    async with asyncio.timeout(60):
        while not check():  # noqa: ASYNC110
            await asyncio.sleep(0.05)


@contextlib.contextmanager
def few_descriptors(free: int) -> Iterator[None]:
    """So many descriptors may be opened, and no more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    gaps = []
    lowest = os.open(os.devnull, os.O_RDONLY)
    highest = max(map(int, os.listdir("/proc/self/fd"))) + 1
    # no number below the limit is free but those that are given back
    while (gap := os.dup(lowest)) < highest:
        gaps.append(gap)
    gaps.append(gap)
    resource.setrlimit(resource.RLIMIT_NOFILE, (gap + 1 + free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for fd in (lowest, *gaps):
            os.close(fd)


async def test_one_whose_process_has_ended_is_gone_though_its_socket_is_held() -> None:
    """A child that a killed resident had just forked may keep the listening socket; nothing answers
    there.
    """
    environment = await hermetic.open("local", task="kept", login=False)
    record = Records(runtime_root()).of_task("kept")
    assert record is not None
    assert record.guardian is not None
    for pid in (record.guardian, record.pid):  # the guardian would remove the directory
        os.kill(pid, signal.SIGKILL)
        await ended(pid)
    await environment.close()
    os.unlink(record.socket)
    with socket.socket(socket.AF_UNIX) as holder:
        holder.bind(record.socket)
        holder.listen(64)
        async with asyncio.timeout(60), hermetic.open("local", task="kept", login=False) as new:
            assert (await new.run('echo "[$X]"')).output == "[]\n"
            await new.close(remove=True)
