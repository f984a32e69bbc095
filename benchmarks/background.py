"""Processes that nobody waits for: how long starting one takes, and what each costs while it runs."""

import os

from benchmarks.figures import Row, row
from benchmarks.limits import FRESH_BASH, fresh_bash
from benchmarks.measuring import SOME, Bench, Place, apart, in_turns, once, plainly
from benchmarks.memory import KIB, status
from benchmarks.residents import resident_pid

WARM = 20


async def background(bench: Bench, place: Place) -> list[Row]:
    """Sleeping processes, started one after the other and all kept running."""
    async with place.open() as env:
        pids = os.getpid(), await resident_pid(env)

        def held() -> tuple[int, ...]:
            return tuple(sum(status(pid, field) for pid in pids) for field in ("VmRSS", "Threads"))

        async def start() -> None:
            await env.start("sleep 600", stdin="null")

        takes = apart(once(start)), apart(plainly(fresh_bash))
        await in_turns(WARM // SOME, *takes, warm=0)
        before = held()
        count = bench.times(200, 60)
        ours, limit = await in_turns(count // SOME, *takes, warm=0)
        after = held()
    return [
        row(
            f"{place.kind}.background",
            f"starting a background process, {place.kind}",
            "ms",
            ours,
            limit=(FRESH_BASH, limit),
            target=place.target("background"),
        ),
        row(
            f"{place.kind}.background-memory",
            f"memory for each running process, {place.kind}",
            "KiB",
            [(after[0] - before[0]) / KIB / count],
            target=place.target("background-memory"),
            note=f"{count} running",
        ),
        row(
            f"{place.kind}.background-threads",
            f"threads more in caller and resident, {place.kind}",
            "",
            [after[1] - before[1]],
            target=place.target("background-threads"),
            note=f"{count} running",
        ),
    ]
