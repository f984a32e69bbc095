"""A function over many items: one environment each, limits, retries before a command began, results
and figures.
"""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

import hermetic
from hermetic import EnvironmentUnavailable, Fleet, InvalidArgument, MapProgress
from hermetic.contract.environment import NewEnvironment, Started
from hermetic.environments.local import Local
from hermetic.fleet import mapping
from hermetic.registry.host_process import ended
from hermetic.registry.records import Records, runtime_root
from hermetic.session.environment import Environment
from hermetic.session.keeping import link_of
from tests.sizes import scale

FAST: dict[str, Any] = {"login": False}


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapping, "FIRST_PAUSE", 0.01)


async def square(environment: Environment, item: int) -> int:
    return int((await environment.run(f"echo $(({item} * {item}))")).output)


async def test_results_come_in_the_order_of_the_items_and_nothing_is_left() -> None:
    async with asyncio.timeout(60), Fleet("local", **FAST) as fleet:
        mapped = await fleet.map(square, range(6), limit=3)
        assert mapped.values == [0, 1, 4, 9, 16, 25]
        assert [result.index for result in mapped.results] == list(range(6))
        assert len({result.environment for result in mapped.results}) == 6
        assert (mapped.summary.total, mapped.summary.done, mapped.summary.failed) == (6, 6, 0)
        assert "6 of 6 done" in str(mapped.summary)
        assert fleet.tasks == []
    assert os.listdir(runtime_root()) == []


async def test_no_more_than_the_limit_run_at_once() -> None:
    now = most = 0
    both = asyncio.Barrier(2)

    async def work(environment: Environment, item: int) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await both.wait()
        await environment.run("true")
        now -= 1

    async with asyncio.timeout(60), Fleet("local", **FAST) as fleet:
        await fleet.map(work, range(8), limit=2)
    assert most == 2


async def test_an_item_that_fails_costs_only_itself() -> None:
    async def work(environment: Environment, item: int) -> int:
        if item == 1:
            raise LookupError("no such thing")
        return item

    async with asyncio.timeout(60), Fleet("local", **FAST) as fleet:
        mapped = await fleet.map(work, range(3))
    assert [result.ok for result in mapped.results] == [True, False, True]
    assert mapped.results[1].attempts == 1
    with pytest.raises(LookupError, match="no such thing"):
        _ = mapped.values


async def test_an_environment_that_does_not_open_is_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start, tries = Local.start, 0

    async def sometimes(backend: Local, new: NewEnvironment) -> Started:
        nonlocal tries
        tries += 1
        if tries in (1, 2):
            raise EnvironmentUnavailable("no room")
        return await start(backend, new)

    monkeypatch.setattr(Local, "start", sometimes)
    async with asyncio.timeout(60), Fleet("local", **FAST) as fleet:
        mapped = await fleet.map(square, [7], retries=2)
        assert (mapped.values, mapped.results[0].attempts, mapped.summary.retried) == ([49], 3, 1)
        tries = 0
        failed = await fleet.map(square, [7], retries=1)
        assert isinstance(failed.results[0].error, EnvironmentUnavailable)


async def test_a_command_that_began_is_not_tried_again(tmp_path: Path) -> None:
    began = tmp_path / "began"

    async def killed(environment: Environment, item: int) -> None:
        pid = (await environment.info()).pid
        await environment.run(f"echo x >> {began}")
        os.kill(pid, 9)
        await ended(pid)
        await environment.processes()

    async with asyncio.timeout(60), Fleet("local", **FAST) as fleet:
        mapped = await fleet.map(killed, [1], retries=5)
    assert isinstance(mapped.results[0].error, EnvironmentUnavailable)
    assert mapped.results[0].attempts == 1
    assert began.read_text() == "x\n"


async def test_an_environment_that_is_gone_before_the_first_request_is_replaced() -> None:
    pids: list[int] = []

    async def work(environment: Environment, item: int) -> str:
        if not pids:
            record = next(iter(Records(runtime_root()).all()))
            pids.append(record.pid)
            os.kill(record.pid, 9)
            await ended(record.pid)
            link = link_of(environment)
            if link._connection is not None:
                await link._connection.wait_closed()
            if link._reconnecting is not None:
                await asyncio.wait([link._reconnecting])
            assert link.is_over
        return (await environment.run("echo here")).output

    async with asyncio.timeout(60), Fleet("local", **FAST) as fleet:
        mapped = await fleet.map(work, [1])
    assert (mapped.values, mapped.results[0].attempts) == (["here\n"], 2)


async def test_a_function_that_takes_too_long_is_cancelled_with_its_command(tmp_path: Path) -> None:
    async def work(environment: Environment, item: int) -> None:
        await environment.run("sleep 600")

    async with asyncio.timeout(60), Fleet("local", **FAST) as fleet:
        mapped = await fleet.map(work, [1], timeout=0.5)
    assert isinstance(mapped.results[0].error, TimeoutError)
    assert "within 0.5 s" in str(mapped.results[0].error)
    assert os.listdir(runtime_root()) == []


async def test_a_cancelled_call_leaves_no_environment() -> None:
    began = asyncio.Event()

    async def work(environment: Environment, item: int) -> None:
        began.set()
        await environment.run("sleep 600")

    async with asyncio.timeout(60), Fleet("local", **FAST) as fleet:
        running = asyncio.create_task(fleet.map(work, range(4), limit=2))
        await began.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert fleet.tasks == []
    assert os.listdir(runtime_root()) == []


async def test_progress_counts_to_the_end() -> None:
    seen: list[MapProgress] = []
    async with asyncio.timeout(60), Fleet("local", **FAST) as fleet:
        await fleet.map(square, range(3), progress=seen.append)
    assert [now.done for now in seen] == sorted(now.done for now in seen)
    assert (seen[0].done, seen[-1].done, seen[-1].total) == (0, 3, 3)
    assert "3 of 3" in str(seen[-1])
    assert str(MapProgress(total=10, done=5, failed=1, running=2, seconds=2.5)) == (
        "[##########..........] 5 of 10, 1 failed, 2 running, 2.0/s, about 2 s left"
    )


async def test_named_environments_can_be_attached_to() -> None:
    async def work(environment: Environment, item: str) -> str:
        async with hermetic.attach(f"job {item}") as same:
            return same.id

    async with asyncio.timeout(60), Fleet("local", **FAST) as fleet:
        mapped = await fleet.map(work, ["a"], task=lambda item: f"job {item}")
    assert mapped.values == [mapped.results[0].environment]


async def test_prepared_environments_are_used() -> None:
    async with asyncio.timeout(60), Fleet("local", **FAST) as fleet:
        await fleet.warm(2)
        mapped = await fleet.map(square, range(2), limit=2)
        assert all(result.environment.startswith("e-") for result in mapped.results)


async def test_wrong_arguments_open_nothing() -> None:
    async with Fleet("local", **FAST) as fleet:
        for wrong in ({"limit": 0}, {"retries": -1}, {"timeout": 0.0}):
            with pytest.raises(InvalidArgument):
                await fleet.map(square, [1], **wrong)
    assert os.listdir(runtime_root()) == []


def test_plain_functions_map_in_threads() -> None:
    def work(environment: "hermetic.blocking.Environment", item: int) -> str:
        return environment.run(f"echo {item}").output.strip()

    with hermetic.blocking.Fleet("local", **FAST) as fleet:
        assert fleet.map(work, range(4), limit=2).values == ["0", "1", "2", "3"]


@pytest.mark.slow
async def test_hundreds_of_items_end_with_nothing_left() -> None:
    async with asyncio.timeout(300), Fleet("local", **FAST) as fleet:
        mapped = await fleet.map(square, range(scale(400)), limit=8)
        assert mapped.values == [number * number for number in range(scale(400))]
    assert os.listdir(runtime_root()) == []


async def test_what_map_cannot_use_is_named_before_anything_opens() -> None:
    wrong: Any = 3
    text: Any = "3"
    async with Fleet("local", **FAST) as fleet:
        with pytest.raises(InvalidArgument, match="function must take an environment and an item"):
            await fleet.map(wrong, [1])
        with pytest.raises(InvalidArgument, match="timeout must be a number of seconds"):
            await fleet.map(square, [1], timeout=text)
        with pytest.raises(InvalidArgument, match="progress must be"):
            await fleet.map(square, [1], progress=wrong)
        with pytest.raises(InvalidArgument, match="items 0 and 2 have the same task 'odd'; give"):
            await fleet.map(square, [1, 2, 3], task=lambda item: "odd" if item % 2 else "even")
        with pytest.raises(ZeroDivisionError):
            await fleet.map(square, [1], task=lambda item: str(item / 0))
        assert fleet.tasks == []
