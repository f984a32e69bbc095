"""Many tasks through a fleet on an engine: rates, times to the first command, and what the caller
spends.

    python -m benchmarks.scale KIND [--tasks N] [--limit N] [-o NAME=VALUE]...

Each task gets an environment of its own, runs two commands and ends it. docs/scale.md has the
figures.
"""

import argparse
import asyncio
import json
import os
import resource
import statistics
import time
from typing import Any, NamedTuple

import hermetic
from hermetic.conformance.plugin import read_option
from hermetic.environments import catalog
from hermetic.environments.clouds.backend import CloudBackend
from hermetic.session.keeping import record_of

ECHOES = 100  # commands in one environment that wait for nothing


class Figures(NamedTuple):
    """One run."""

    kind: str
    tasks: int
    limit: int
    failed: int
    seconds: float
    rate: float  # tasks in a second
    # median from the start of a task to its first answer, without waiting for its turn
    first_ms: float
    first_p95_ms: float
    second_ms: float  # median of a further command
    alone_first_ms: float  # the first answer where nothing else is opened
    alone_ms: float  # a command where nothing else runs
    # one byte there and back by the same way, where the kind is reached through a service
    echo_ms: float | None
    caller_cpu_ms: float  # of this process, for one task
    caller_kib: float  # of this process, for one environment at the most


async def measure(kind: str, tasks: int, limit: int, options: dict[str, Any]) -> Figures:
    """Opens one environment alone, then runs all tasks."""
    began = time.perf_counter()
    async with hermetic.open(kind, **options) as environment:
        await environment.run("true")
        alone_first = time.perf_counter() - began
        alone = [await _timed(environment) for _ in range(ECHOES)]
        echo = await _echo(environment)
    seconds: list[tuple[float, float]] = []
    turns = asyncio.Semaphore(limit)

    async def one() -> None:
        async with turns:
            start = time.perf_counter()
            async with hermetic.open(kind, **options) as environment:
                await environment.run("true")
                first = time.perf_counter() - start
                seconds.append((first, await _timed(environment)))

    memory, cpu, start = _peak(), time.process_time(), time.perf_counter()
    done = await asyncio.gather(*(one() for _ in range(tasks)), return_exceptions=True)
    taken, cpu = time.perf_counter() - start, time.process_time() - cpu
    firsts, further = sorted(first for first, _ in seconds), [second for _, second in seconds]
    return Figures(
        kind=kind,
        tasks=tasks,
        limit=limit,
        failed=sum(isinstance(one, BaseException) for one in done),
        seconds=round(taken, 1),
        rate=round(len(seconds) / taken, 2),
        first_ms=_ms(statistics.median(firsts)),
        first_p95_ms=_ms(firsts[int(len(firsts) * 0.95)]),
        second_ms=_ms(statistics.median(further)),
        alone_first_ms=_ms(alone_first),
        alone_ms=_ms(statistics.median(alone)),
        caller_cpu_ms=_ms(cpu / tasks),
        echo_ms=None if echo is None else _ms(echo),
        caller_kib=round((_peak() - memory) / min(limit, tasks)),
    )


def _ms(seconds: float) -> float:
    return round(1000 * seconds, 2)


async def _echo(environment: hermetic.Environment) -> float | None:
    """Median seconds for a byte to a program there and back, over a stream of the kind's own
    service.
    """
    record = record_of(environment)
    backend = catalog.find(record.kind)(record.options)
    if not isinstance(backend, CloudBackend):
        return None
    async with backend.service() as api:
        carrier = await (await api.find(record.place["sandbox"])).connect("exec cat")
        taken = []
        for _ in range(ECHOES):
            start = time.perf_counter()
            await carrier.write(b"x")
            await carrier.read()
            taken.append(time.perf_counter() - start)
        await carrier.close()
    return statistics.median(taken)


async def _timed(environment: hermetic.Environment) -> float:
    start = time.perf_counter()
    await environment.run("true")
    return time.perf_counter() - start


def _peak() -> int:
    """Most memory of this process so far, in KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> None:
    """Prints the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("kind")
    parser.add_argument("--tasks", type=int, default=200)
    parser.add_argument("--limit", type=int, default=16)
    parser.add_argument("-o", dest="options", action="append", default=[], type=read_option)
    given = parser.parse_args()
    found = asyncio.run(measure(given.kind, given.tasks, given.limit, dict(given.options)))
    print(json.dumps({**found._asdict(), "processors": os.cpu_count()}, indent=2))


if __name__ == "__main__":
    main()
