"""Environments started ahead: given to tasks at once, found by them from then on, and never left
behind.
"""

import asyncio
import os
import signal
import subprocess
import sys
import time
from statistics import median

import pytest

import hermetic
from hermetic import EnvironmentUnavailable, Fleet
from hermetic.registry.host_process import ended as gone
from hermetic.registry.records import Records, runtime_root
from tests.cli.program import as_json, eventually
from tests.fleet.test_fleet import ended_fleet, leftovers

LEAVER = """
import asyncio, os, signal, sys, hermetic
async def main():
    fleet = hermetic.Fleet("local", login=False)
    await fleet.warm(2)
    await fleet.get("leaver")
    print("ready", flush=True)
    if sys.argv[1] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""


@pytest.mark.alone
async def test_one_that_waits_is_taken_in_no_time_and_is_replaced() -> None:
    async with ended_fleet() as fleet:
        await fleet.warm(3)
        waiting = {record.id for record in Records(runtime_root()).all()}
        assert (await fleet.info()).warm == len(waiting) == 3
        took = []
        for number in range(3):
            began = time.perf_counter()
            environment = await fleet.get(f"t{number}")
            took.append(time.perf_counter() - began)
            assert environment.id in waiting
            assert environment.task == f"t{number}"
        assert median(took) < 0.05  # below 5 ms on a quiet machine
        await fleet.warm(3)
        assert (await fleet.info()).warm == 3
    assert leftovers() == []


async def test_the_task_finds_it_from_everywhere_with_the_lease_it_asked_for() -> None:
    async with ended_fleet(lease=77.0, unattended=88.0) as fleet:
        await fleet.warm(1)
        environment = await fleet.get("a task")
        await environment.run("X=5")
        info = await environment.info()
        assert (info.task, info.lease, info.unattended) == ("a task", 77, 88)
        async with (
            hermetic.open("local", task="a task", lease=77.0) as again,
            hermetic.attach("a task") as third,
        ):
            assert again.id == third.id == environment.id
            assert (await third.run("echo $X")).output == "5\n"
        [seen] = [seen for seen in as_json("envs") if seen["task"] == "a task"]
        assert seen["id"] == environment.id
        with pytest.raises(hermetic.ConfigError, match="other options: lease"):
            await hermetic.open("local", task="a task", lease=5.0)
        async with hermetic.open("local", task="a task", lease=5.0, replace=True) as new:
            assert new.id != environment.id
            await new.close(remove=True)


async def test_a_living_task_is_attached_to_and_takes_none() -> None:
    async with hermetic.open("local", task="lives", login=False) as lives:
        async with ended_fleet() as fleet:
            await fleet.warm(1)
            assert (await fleet.get("lives")).id == lives.id
            assert (await fleet.info()).warm == 1
        await lives.close(remove=True)


async def test_a_task_with_other_options_takes_none_unless_they_wait_too() -> None:
    async with ended_fleet() as fleet:
        fleet.override("odd", env={"A": "1"})
        await fleet.warm(1)
        first = await fleet.get("odd")
        assert first.id.startswith("t-")
        fleet.override("odder", env={"A": "2"})
        await fleet.warm(1, env={"A": "2"})
        second = await fleet.get("odder")
        assert second.id.startswith("e-")
        assert (await second.run("echo $A")).output == "2\n"


async def test_one_that_died_while_it_waited_is_passed_over() -> None:
    async with ended_fleet() as fleet:
        await fleet.warm(2)
        first = Records(runtime_root()).all()[0]
        os.kill(first.pid, signal.SIGKILL)
        await gone(first.pid)
        environment = await fleet.get("a")
        assert environment.id != first.id
        assert (await environment.run("echo fine")).output == "fine\n"


async def test_a_pool_that_cannot_be_filled_says_why() -> None:
    async with ended_fleet(cwd="/nonexistent/here") as fleet:
        with pytest.raises(EnvironmentUnavailable, match="/nonexistent/here"):
            await fleet.warm(1)
        assert "/nonexistent/here" in (await fleet.info()).problem


async def test_a_pool_that_is_made_smaller_ends_what_is_too_much() -> None:
    async with ended_fleet() as fleet:
        await fleet.warm(3)
        await fleet.warm(1)
        assert (await fleet.info()).warm == len(Records(runtime_root()).all()) == 1
        await fleet.warm(0)
        assert leftovers() == []


async def test_warm_ones_come_with_the_fleet() -> None:
    async with asyncio.timeout(30), Fleet("local", warm=2, login=False) as fleet:
        await fleet.warm(2)
        assert (await fleet.info()).warm == 2
    assert leftovers() == []


@pytest.mark.parametrize("way", ["left", "killed"])
def test_nothing_waits_when_the_program_is_gone(way: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LEAVER, way], stdout=subprocess.PIPE, timeout=60
    )
    assert done.stdout == b"ready\n"
    records = Records(runtime_root())
    if way == "left":  # at its end the program ends what waits; the task is left to its lease
        assert [record.task for record in records.all()] == ["leaver"]
    else:
        eventually(lambda: [record.task for record in records.all()] == ["leaver"], seconds=60)
    asyncio.run(end("leaver"))


async def end(task: str) -> None:
    await (await hermetic.attach(task)).close(remove=True)
