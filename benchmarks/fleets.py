"""Many environments: one that was started ahead, and many that are opened at once."""

import asyncio
import itertools
import time
from concurrent.futures import ThreadPoolExecutor

import hermetic
from benchmarks.figures import Row, row
from benchmarks.measuring import MILLI, Bench, Place, WrongResult, in_turns
from benchmarks.memory import MIB
from benchmarks.raw import RawContainer, memory_available

AHEAD = 4  # environments that wait for a task, taken one after the other
AT_ONCE = 8  # starts at a time, as a fleet does unless told otherwise
QUIET_SECONDS = 1.0  # for the machine to count its memory after many have come or gone


async def pool(bench: Bench, place: Place) -> list[Row]:
    """A task's environment out of a pool, against one that is started for it."""
    numbers = itertools.count()

    async with place.fleet() as fleet:

        async def ours() -> list[float]:
            await fleet.warm(AHEAD)
            values = []
            for _ in range(AHEAD):
                values.append(await _get(fleet, f"task-{next(numbers)}"))
            await fleet.warm(0)
            await asyncio.gather(
                *(fleet.close_task(task, remove=True) for task in list(fleet.tasks))
            )
            return values

        async def cold() -> list[float]:
            started = time.perf_counter()
            async with place.open():
                return [(time.perf_counter() - started) * MILLI]

        taken, limit = await in_turns(bench.times(6, 1), ours, cold, warm=bench.times(1, 0))
        await fleet.close(remove=True)
    return [
        row(
            f"{place.kind}.pool",
            f"a task's environment from a warm pool, {place.kind}",
            "ms",
            taken,
            limit=("one that is started", limit),
            target=place.target("pool"),
        )
    ]


async def _get(fleet: hermetic.Fleet, task: str) -> float:
    """Milliseconds until a task has its environment, which works."""
    started = time.perf_counter()
    environment = await fleet.get(task)
    taken = (time.perf_counter() - started) * MILLI
    if (await environment.run("echo works")).output != "works\n":
        raise WrongResult(f"{environment} does not work")
    return taken


async def at_once(bench: Bench, place: Place) -> list[Row]:
    """Fifty containers opened at once, against as many that the client starts, eight at a time."""
    raw = place.raw
    assert isinstance(raw, RawContainer), place
    count = bench.times(50, 8)
    ours, theirs = await _fleet_of(place, count), await asyncio.to_thread(_raw_ones, raw, count)
    what = f"{count} opened at once"
    return [
        row(
            f"{place.kind}.at-once",
            f"{what}, time for each, {place.kind}",
            "ms",
            [ours[0]],
            limit=(f"{raw.program} run -d, {AT_ONCE} at a time", [theirs[0]]),
        ),
        row(
            f"{place.kind}.at-once-memory",
            f"{what}, the machine's memory for each, {place.kind}",
            "MiB",
            [ours[1]],
            limit=(raw.opening, [theirs[1]]),
        ),
    ]


async def _fleet_of(place: Place, count: int) -> tuple[float, float]:
    """Milliseconds and mebibytes for each of so many environments."""
    async with place.fleet() as fleet:
        before = memory_available()
        started = time.perf_counter()
        await asyncio.gather(*(fleet.get(f"task-{number}") for number in range(count)))
        taken = time.perf_counter() - started
        if len(fleet.tasks) != count:
            raise WrongResult(f"{len(fleet.tasks)} environments of {count}")
        await asyncio.sleep(QUIET_SECONDS)
        used = before - memory_available()
        await fleet.close(remove=True)
    await asyncio.sleep(QUIET_SECONDS)
    return taken * MILLI / count, used / MIB / count


def _raw_ones(raw: RawContainer, count: int) -> tuple[float, float]:
    with ThreadPoolExecutor(AT_ONCE) as threads:
        before = memory_available()
        started = time.perf_counter()
        names = list(threads.map(lambda _: raw.start(), range(count)))
        taken = time.perf_counter() - started
        time.sleep(QUIET_SECONDS)
        used = before - memory_available()
        raw.remove(*names)
    return taken * MILLI / count, used / MIB / count
