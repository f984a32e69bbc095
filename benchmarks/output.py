"""Much output: how fast it flows, what it costs in memory, how fast it is read again."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import hermetic
from benchmarks.figures import Row, row
from benchmarks.limits import BASH, read_through_a_pipe, run_program
from benchmarks.measuring import Bench, Place, WrongResult, in_turns, timed
from benchmarks.memory import MIB, Peak
from benchmarks.residents import resident_pid

LOG_BYTES = 48 * 1000 * 1000  # below the cap of a log, so that all of it can be read again


def printing(count: int) -> str:
    """A command that prints so many times the letter a."""
    return f"head -c {count} /dev/zero | tr '\\0' a"


async def flood(bench: Bench, place: Place) -> list[Row]:
    """1 GB printed by one command, against the same into `cat >/dev/null`."""

    def limit(count: int) -> float:
        return timed(lambda: run_program([BASH, "-c", f"{printing(count)} | cat >/dev/null"]))

    return await flood_beside(bench, place, limit, "into cat >/dev/null")


async def flood_beside(
    bench: Bench, place: Place, limit: Callable[[int], float], what: str
) -> list[Row]:
    """The same against what else takes so many seconds for so many bytes."""
    count = bench.times(1_000_000_000, 150_000_000)
    growths: list[float] = []
    async with place.open() as env:
        pids = os.getpid(), await resident_pid(env)

        async def ours() -> list[float]:
            peak = Peak(*pids)
            started = time.perf_counter()
            result = await env.run(printing(count))
            taken = time.perf_counter() - started
            growths.append(peak.growth_bytes() / MIB)
            await _check(env, result, count)
            return [taken]

        async def beside() -> list[float]:
            return [limit(count)]

        times, limits = await in_turns(bench.times(5, 2), ours, beside)
    size = f"{count / 1e9:g} GB"
    return [
        row(
            f"{place.kind}.output",
            f"{size} printed by a command, {place.kind}",
            "s",
            times,
            limit=(what, limits),
            target=place.target("output"),
        ),
        row(
            f"{place.kind}.output-memory",
            f"growth of caller and resident during {size}, {place.kind}",
            "MiB",
            growths,
            target=place.target("output-memory"),
        ),
    ]


async def _check(env: hermetic.Environment, result: hermetic.Result, count: int) -> None:
    """Counts are exact; head, tail and a range inside the cap can be read, and what was dropped is
    told.
    """
    if result.total_bytes != count or result.exit_code != 0 or result.data.strip(b"a"):
        raise WrongResult(f"{result.total_bytes} bytes of {count}, {result.ending}")
    for offset in (0, count - 20 * MIB, count - 1000):
        chunk = await env.read_log(result.log, offset, limit=1000)
        if (chunk.start, chunk.data) != (offset, b"a" * 1000):
            raise WrongResult(
                f"asked for [{offset}, {offset + 1000}), got [{chunk.start}, {chunk.end})"
            )
    chunk = await env.read_log(result.log, count // 2, limit=1000)
    if not count // 2 < chunk.start < count:
        raise WrongResult(f"nothing tells that {count // 2} fell out of the cap")


async def log(bench: Bench, place: Place) -> list[Row]:
    """A log read from its beginning to its end, by offset."""
    with file_of(LOG_BYTES) as path:
        async with place.open() as env:
            result = await env.run(printing(LOG_BYTES))

            async def ours() -> list[float]:
                started = time.perf_counter()
                if (count := await _read_all(env, result.log)) != LOG_BYTES:
                    raise WrongResult(f"read {count} bytes of {LOG_BYTES}")
                return [_rate(started)]

            async def limit() -> list[float]:
                started = time.perf_counter()
                read_through_a_pipe(path)
                return [_rate(started)]

            rates, limits = await in_turns(bench.times(9, 3), ours, limit)
    return [
        row(
            f"{place.kind}.log",
            f"reading a log of {LOG_BYTES / 1e6:g} MB by offset, {place.kind}",
            "MB/s",
            rates,
            limit=("cat FILE through a pipe", limits),
        )
    ]


@contextmanager
def file_of(size: int) -> Iterator[Path]:
    """A file with so many times the letter a."""
    with TemporaryDirectory() as directory:
        path = Path(directory, "same")
        path.write_bytes(b"a" * size)
        yield path


async def _read_all(env: hermetic.Environment, id: str) -> int:
    offset = 0
    while True:
        chunk = await env.read_log(id, offset)
        if chunk.start != offset:
            raise WrongResult(f"a hole at {offset} in a log below the cap")
        offset = chunk.end
        if chunk.ended:
            return offset


def _rate(started: float) -> float:
    return LOG_BYTES / 1e6 / (time.perf_counter() - started)
