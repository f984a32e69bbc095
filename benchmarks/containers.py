"""Containers beside what their engine's own client does: a command in one that is there, many, much
output.
"""

from benchmarks.figures import Row, row
from benchmarks.latency import running
from benchmarks.measuring import Bench, Place, apart, in_turns, once, plainly
from benchmarks.output import flood_beside, printing
from benchmarks.parallel import parallel_beside
from benchmarks.raw import RawContainer

EXECS = 2  # in a turn: each takes as long as a hundred of ours
LIMITS = ("--cpus", "1", "--memory", "5g")  # as ours have them


async def beside_exec(bench: Bench, place: Place) -> list[Row]:
    """`true`, settled, against the client's exec into a container that is there already."""
    raw = _raw(place)
    with raw.running(*LIMITS) as name:
        async with place.open() as env:
            ours, limit = await in_turns(
                bench.times(20, 5),
                apart(once(running(env, "true"))),
                plainly(lambda: raw.execute(name), times=EXECS),
            )
    return [
        row(
            f"{place.kind}.settled-exec",
            f"`true`, settled session, {place.kind}",
            "ms",
            ours,
            limit=(f"{raw.program} exec … true", limit),
            target=place.target("settled-exec"),
        )
    ]


async def many(bench: Bench, place: Place) -> list[Row]:
    """Commands of eight callers in one container, against eight threads that start the client."""
    raw = _raw(place)
    with raw.running(*LIMITS) as name:
        return await parallel_beside(
            bench, place, lambda: raw.execute(name), f"{raw.program} exec … true"
        )


async def much(bench: Bench, place: Place) -> list[Row]:
    """Much output of one command, against the same into a pipe inside such a container."""
    raw = _raw(place)
    with raw.running(*LIMITS) as name:
        return await flood_beside(
            bench,
            place,
            lambda count: raw.seconds_inside(name, f"{printing(count)} | cat >/dev/null"),
            "the same pipe inside",
        )


def _raw(place: Place) -> RawContainer:
    assert isinstance(place.raw, RawContainer), place
    return place.raw
