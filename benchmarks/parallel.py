"""Many callers at once."""

import asyncio
import time
from collections.abc import Callable

import hermetic
from benchmarks.figures import Row, row
from benchmarks.latency import running
from benchmarks.limits import fresh_bash, starts_per_second
from benchmarks.measuring import Bench, Place, in_turns

CALLERS = 8


async def parallel(bench: Bench, place: Place) -> list[Row]:
    """Eight callers, each with a session of its own, all in one environment, against threads that
    start bash.
    """
    return await parallel_beside(bench, place, fresh_bash, "fresh bash")


async def parallel_beside(
    bench: Bench, place: Place, start: Callable[[], None], what: str
) -> list[Row]:
    """The same against threads that start something else."""
    seconds = bench.times(20, 4) / 10
    async with place.open() as env:
        sessions = [env.session(f"caller{number}") for number in range(CALLERS)]

        async def ours() -> list[float]:
            return [await _commands_per_second(sessions, seconds)]

        async def limit() -> list[float]:
            return [starts_per_second(start, CALLERS, seconds)]

        rates, limits = await in_turns(bench.times(4, 3), ours, limit)
    return [
        row(
            f"{place.kind}.parallel",
            f"commands per second, {CALLERS} callers, {place.kind}",
            "/s",
            rates,
            limit=(f"{CALLERS} threads, {what}", limits),
            target=place.target("parallel"),
        )
    ]


async def _commands_per_second(sessions: list[hermetic.Session], seconds: float) -> float:
    started = time.perf_counter()

    async def call(session: hermetic.Session) -> int:
        run = running(session, "true")
        count = 0
        while time.perf_counter() < started + seconds:
            await run()
            count += 1
        return count

    counts = await asyncio.gather(*map(call, sessions))
    return sum(counts) / (time.perf_counter() - started)
