"""A fleet of containers: many at once, started ahead, and none left, whatever happens to their
callers.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import hermetic
from hermetic import Fleet
from hermetic.fleet.garbage import collect
from hermetic.registry.records import Records, new_id, runtime_root
from tests.cli.program import eventually
from tests.environments.engines import PODMAN, ask, need_engine, ours
from tests.programs import need_variable
from tests.sizes import is_full, scale

STARTED_AHEAD_AND_KILLED = """
import asyncio, os, signal, sys, hermetic
async def main():
    fleet = hermetic.Fleet(sys.argv[1], image=sys.argv[2], lease=0.3, unattended=0.3, warm=2)
    await asyncio.gather(*(fleet.get(f"task {number}") for number in range(3)))
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""


@pytest.fixture(params=["docker", PODMAN])
def engine(request: pytest.FixtureRequest) -> str:
    need_engine(request.param)
    return str(request.param)


@pytest.fixture
def image() -> str:
    return need_variable("IMAGE_BASE")


@pytest.fixture(autouse=True)
def spool(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with TemporaryDirectory(prefix="hm-spool-", dir="/var/tmp") as directory:
        monkeypatch.setenv("HERMETIC_SPOOL_DIR", directory)
        yield Path(directory)


def is_clean(engine: str, spool: Path) -> bool:
    """No container, no record, no socket, no spool."""
    return os.listdir(runtime_root()) == [] and os.listdir(spool) == [] and ours(engine) == []


@pytest.mark.slow
async def test_fifty_at_once_have_a_container_each_and_leave_nothing(
    image: str, spool: Path
) -> None:
    need_engine("docker")
    count = scale(50)
    async with asyncio.timeout(600), Fleet("docker", image=image, starts=8) as fleet:
        try:
            environments = await asyncio.gather(
                *(fleet.get(f"t{number}") for number in range(count))
            )
            assert len(ours("docker")) == count
            results = await asyncio.gather(
                *(environment.run("hostname") for environment in environments)
            )
            assert len({result.output for result in results}) == count
            info = await fleet.info()
            assert len(info.tasks) == count
            assert all(task.disk_bytes is not None for task in info.tasks)
        finally:
            assert await fleet.close(remove=True) == count
    eventually(lambda: is_clean("docker", spool), seconds=60)


@pytest.mark.slow
async def test_one_that_waits_is_given_to_a_task(engine: str, image: str, spool: Path) -> None:
    async with asyncio.timeout(120), Fleet(engine, image=image) as fleet:
        await fleet.warm(1)
        [waiting] = ours(engine)
        environment = await fleet.get("a task")
        assert environment.id in waiting
        await environment.run("head -c 5000000 /dev/zero > /root/file; sync")
        [task] = (await fleet.info()).tasks
        assert task.disk_bytes is not None
        assert task.disk_bytes >= 5_000_000
        async with hermetic.attach("a task") as same:
            assert (await same.run("ls /root/file")).output == "/root/file\n"
        assert await fleet.gc() == []
        await fleet.close(remove=True)
    eventually(lambda: is_clean(engine, spool), seconds=60)


@pytest.mark.slow
def test_a_killed_fleet_leaves_nothing_after_its_lease(
    engine: str, image: str, spool: Path
) -> None:
    words = [sys.executable, "-c", STARTED_AHEAD_AND_KILLED, engine, image]
    for _ in range(3 if is_full() else 1):
        assert subprocess.run(words, timeout=120).returncode == -9
    eventually(lambda: is_clean(engine, spool), seconds=90)


@pytest.mark.slow
async def test_a_container_without_a_record_is_collected_and_others_are_not(
    engine: str, image: str, spool: Path
) -> None:
    records = Records(runtime_root())
    async with hermetic.open(engine, image=image) as lives:
        left, foreign = new_id(), new_id()
        words = ["run", "--detach", "--label", "hermetic=1", "--entrypoint", "sleep"]
        ask(
            engine,
            [
                *words,
                "--label",
                f"hermetic.runtime={records.tag}",
                "--name",
                f"hermetic-{left}-1",
                image,
                "600",
            ],
        )
        other = [
            *words,
            "--label",
            "hermetic.runtime=other",
            "--name",
            f"hermetic-{foreign}-1",
            image,
            "600",
        ]
        ask(engine, other)
        try:
            removed = await collect(records)
            assert [(one.what, one.name) for one in removed] == [
                ("place", f"container hermetic-{left}-1")
            ]
            assert ask(
                engine, ["ps", "--filter", f"name=hermetic-{foreign}-1", "--format", "{{.Names}}"]
            )
            assert (await lives.run("echo alive")).output == "alive\n"
        finally:
            ask(engine, ["rm", "--force", f"hermetic-{foreign}-1"])
    eventually(lambda: is_clean(engine, spool), seconds=60)
