"""A task's container is made once, has options of its own, is kept while in use, and is replaced
when it is gone.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import hermetic
from hermetic import EnvironmentUnavailable, Fleet
from hermetic.registry.records import Records, runtime_root
from tests.environments.engines import ask, need_engine, ours
from tests.programs import need_variable


@asynccontextmanager
async def ended_fleet(**options: Any) -> AsyncIterator[Fleet]:
    """A fleet of containers, all of which are ended at the end."""
    need_engine("docker")
    async with (
        asyncio.timeout(60),
        Fleet("docker", image=need_variable("IMAGE_BASE"), login=False, **options) as fleet,
    ):
        try:
            yield fleet
        finally:
            await fleet.close(remove=True)


async def gone(id: str) -> None:
    """Returns when no container of this environment is left."""
    while any(id in name for name in ours("docker")):  # noqa: ASYNC110 (no event tells)
        await asyncio.sleep(0.05)


async def test_many_callers_of_one_task_start_one_and_another_has_options_of_its_own() -> None:
    async with ended_fleet() as fleet:
        fleet.override(
            "special", image=need_variable("IMAGE_NOPYTHON"), env={"A": "own"}, cwd="/tmp"
        )
        *same, special = await asyncio.gather(
            *(fleet.get("a") for _ in range(10)), fleet.get("special")
        )
        assert len(set(map(id, same))) == 1
        assert len(Records(runtime_root()).all()) == 2
        assert (
            await same[0].run("echo ${A-none} $PWD; type -P python3")
        ).output == "none /root\n/usr/bin/python3\n"
        result = await special.run("echo $A $PWD; type -P python3")
        assert (result.output, result.exit_code) == ("own /tmp\n", 1)


async def test_an_idle_container_ends_with_its_lease_and_one_in_use_does_not() -> None:
    async with ended_fleet(idle=0.5, lease=0.5) as fleet:
        idle = await fleet.get("idle")
        busy = await fleet.get("busy")
        await busy.run("mkfifo /tmp/go")
        running = asyncio.ensure_future(busy.run("read -r x </tmp/go; echo end"))
        started = await (await fleet.get("works")).start("sleep 1000")
        await gone(idle.id)
        assert (await started.status()).state == "running"
        await (await fleet.get("busy")).run("echo > /tmp/go")
        assert (await running).output == "end\n"
        assert "idle" not in fleet.tasks


async def test_one_that_was_removed_is_replaced_and_what_others_opened_is_left() -> None:
    task, image = f"shared-{os.getpid()}", need_variable("IMAGE_BASE")
    async with (
        ended_fleet() as fleet,
        hermetic.open("docker", task=task, image=image, login=False) as own,
    ):
        shared, first = await fleet.get(task), await fleet.get("a")
        [name] = [name for name in ours("docker") if first.id in name]
        ask("docker", ["rm", "-f", name])
        with pytest.raises(EnvironmentUnavailable):
            await first.processes()
        second = await fleet.get("a")
        assert (second is not first, (await second.run("echo on")).output) == (True, "on\n")
        assert shared.id == own.id
        await fleet.close(remove=True)
        assert (await own.run("echo on")).output == "on\n"
        await own.close(remove=True)
