"""Timeout, cancel and kill: how late they return, and what is left."""

import asyncio
import itertools
import statistics
import time
from collections import Counter
from collections.abc import Awaitable, Callable

import hermetic
from benchmarks.figures import Row, row
from benchmarks.limits import kill_a_group
from benchmarks.measuring import MILLI, Bench, Place, WrongResult
from benchmarks.trees import TREES, Try, end_survivors, every_mark, living, new_try
from hermetic.contract.limits import GRACE

TIMEOUT = 0.25  # seconds: every tree is up by then
PATIENCE = 30.0  # seconds after which a tree that does not end counts as a hang

# seconds from the moment to the return
Stop = Callable[[hermetic.Environment, str], Awaitable[float]]


async def by_timeout(env: hermetic.Environment, command: str) -> float:
    """The command's time is over."""
    started = time.perf_counter()
    result = await env.run(command, timeout=TIMEOUT)
    late = time.perf_counter() - started - TIMEOUT
    if not isinstance(result.ending, hermetic.TimedOut):
        raise WrongResult(f"{command!r} ended with {result.ending}")
    return late


async def by_cancel(env: hermetic.Environment, command: str) -> float:
    """The caller does not want it any more."""
    ready = asyncio.Event()
    task = asyncio.create_task(env.run(command, on_output=lambda data: ready.set()))
    await ready.wait()
    started = time.perf_counter()
    task.cancel()
    await asyncio.wait([task])
    late = time.perf_counter() - started
    if not task.cancelled():
        raise WrongResult(f"{command!r} was not cancelled: {task.result().ending}")
    return late


async def by_kill(env: hermetic.Environment, command: str) -> float:
    """A background process is killed."""
    process = await env.start(command)
    await process.wait_for("ready", timeout=PATIENCE)
    started = time.perf_counter()
    await process.kill(GRACE)
    return time.perf_counter() - started


STOPS: dict[str, Stop] = {"timeout": by_timeout, "cancel": by_cancel, "kill": by_kill}


class Ended:
    """What came of all tries."""

    def __init__(self) -> None:
        self.late: dict[str, dict[str, list[float]]] = {
            stop: {tree.name: [] for tree in TREES} for stop in STOPS
        }
        self.limit: list[float] = []
        self.survivors: Counter[str] = Counter()  # way and tree: how many

    async def attempt(self, env: hermetic.Environment, stop: str, one: Try) -> None:
        """Starts a tree, ends it and looks who is left."""
        async with asyncio.timeout(PATIENCE):
            late = await STOPS[stop](env, one.command)
        if left := end_survivors(one.mark):
            self.survivors[f"{stop} of {one.tree.name}"] += left
        if one.tree.ignores_term:
            late -= GRACE
        self.late[stop][one.tree.name].append(late * MILLI)
        self.limit += kill_a_group()


async def ending(bench: Bench, place: Place) -> list[Row]:
    """Every tree, ended in every way, in a session that has a job of its own."""
    numbers = itertools.count()
    ended = Ended()
    async with place.open() as env:
        job = new_try(TREES[0], next(numbers))
        await env.run(f"sleep {job.mark} & setsid sleep {job.mark} &")
        for _ in range(bench.times(12, 2)):
            for tree in TREES:
                for stop in STOPS:
                    await ended.attempt(env, stop, new_try(tree, next(numbers)))
        jobs = living(job.mark)
        missed = set(living(every_mark())) - set(jobs)
        if missed:  # a look right after the try came in the middle of their exec
            ended.survivors["unknown"] = len(missed)
    return [*_lateness(place, ended), *_counts(place, ended, jobs_gone=2 - len(jobs))]


def _lateness(place: Place, ended: Ended) -> list[Row]:
    rows = []
    for stop, trees in ended.late.items():
        values = [late for group in trees.values() for late in group]
        note = ", ".join(f"{name} {statistics.median(group):.1f}" for name, group in trees.items())
        rows += [
            row(
                f"{place.kind}.{stop}",
                f"{stop}: returns late by, {place.kind}",
                "ms",
                values,
                limit=("killpg and wait", ended.limit),
                target=place.target(stop),
                note=note,
            ),
            row(
                f"{place.kind}.{stop}-worst",
                f"{stop}: returns late by at worst, {place.kind}",
                "ms",
                values,
                target=place.target(f"{stop}-worst"),
                note=_slowest(trees),
            ),
        ]
    return rows


def _slowest(trees: dict[str, list[float]]) -> str:
    return ", ".join(f"{name} {max(group):.1f}" for name, group in trees.items())


def _counts(place: Place, ended: Ended, *, jobs_gone: int) -> list[Row]:
    tries = f"{len(ended.limit)} tries"
    return [
        row(
            f"{place.kind}.survivors",
            f"survivors after timeout, cancel and kill, {place.kind}",
            "",
            [ended.survivors.total()],
            target=place.target("survivors"),
            note=", ".join(
                [tries, *(f"{count} after {where}" for where, count in ended.survivors.items())]
            ),
        ),
        row(
            f"{place.kind}.jobs",
            f"earlier jobs of the session ended with them, {place.kind}",
            "",
            [jobs_gone],
            target=place.target("jobs"),
            note=f"2 jobs, {tries}",
        ),
    ]
