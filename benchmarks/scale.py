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
from hermetic.cli.opening import read_option
from hermetic.environments import catalog
from hermetic.environments.clouds.backend import CloudBackend
from hermetic.session.keeping import record_of

ECHOES = 200  # commands in one environment that wait for nothing
MESSAGE = b"x" * 64  # about as long as a request to run `true`, and its answer
SETTLING = 0.003  # seconds in which a shell has done what follows a command


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
    alone_p10_ms: float  # of its fastest tenth, the slowest
    # a message of the same length there and back by the same way, in turns with those commands, where
    # the kind is reached through a service
    echo_ms: float | None
    echo_p10_ms: float | None
    caller_cpu_ms: float  # of this process, for one task
    caller_kib: float  # of this process, for one environment at the most


async def measure(kind: str, tasks: int, limit: int, options: dict[str, Any]) -> Figures:
    """Opens one environment alone, then runs all tasks."""
    began = time.perf_counter()
    async with hermetic.open(kind, **options) as environment:
        await environment.run("true")
        alone_first = time.perf_counter() - began
        alone, echoes = await _in_turns(environment)
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
        alone_p10_ms=_ms(_fastest(alone)),
        echo_ms=_ms(statistics.median(echoes)) if echoes else None,
        echo_p10_ms=_ms(_fastest(echoes)) if echoes else None,
        caller_kib=round((_peak() - memory) / min(limit, tasks)),
    )


def _ms(seconds: float) -> float:
    return round(1000 * seconds, 2)


def _fastest(seconds: list[float]) -> float:
    return sorted(seconds)[len(seconds) // 10]


async def _in_turns(environment: hermetic.Environment) -> tuple[list[float], list[float]]:
    """Seconds of commands, and of echoes over a stream of the kind's own service, one after the
    other: what else the machine does weighs on both.
    """
    record = record_of(environment)
    backend = catalog.find(record.kind)(record.options)
    if not isinstance(backend, CloudBackend):
        return [await _timed(environment) for _ in range(ECHOES)], []
    commands, echoes = [], []
    async with backend.service() as api:
        carrier = await (await api.find(record.place["sandbox"])).connect("exec cat")
        for _ in range(ECHOES):
            commands.append(await _timed(environment))
            await asyncio.sleep(SETTLING)
            start = time.perf_counter()
            await carrier.write(MESSAGE)
            left = len(MESSAGE)
            while left:
                left -= len(await carrier.read())
            echoes.append(time.perf_counter() - start)
            await asyncio.sleep(SETTLING)
        await carrier.close()
    return commands, echoes


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
