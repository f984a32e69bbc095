"""A command's way there and back: `true` in a warm session."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import hermetic
from benchmarks.figures import Row, row
from benchmarks.limits import FRESH_BASH, fresh_bash
from benchmarks.measuring import (
    MILLI,
    PAUSE,
    SOME,
    Bench,
    Place,
    WrongResult,
    apart,
    in_a_row,
    in_turns,
    once,
    plainly,
)

IN_A_ROW = 20
FUNCTIONS = 500
FUNCTION_BYTES = 1000


def running(session: hermetic.Session, command: str) -> Callable[[], Awaitable[object]]:
    """A call that runs the command and sees that it went well."""

    async def run() -> None:
        result = await session.run(command)
        if result.exit_code != 0:
            raise WrongResult(f"{command!r} ended with {result.ending}")

    return run


async def settled(bench: Bench, place: Place) -> list[Row]:
    """A few ms between commands, as a caller that thinks."""
    async with place.open() as env:
        ours, limit = await in_turns(
            bench.times(40, 8), apart(once(running(env, "true"))), apart(plainly(fresh_bash))
        )
    return [
        row(
            f"{place.kind}.settled",
            f"`true`, settled session, {place.kind}",
            "ms",
            ours,
            limit=(FRESH_BASH, limit),
            target=place.target("settled"),
        )
    ]


async def beside_local(bench: Bench, place: Place) -> list[Row]:
    """The same in another place, against our own local session and against a bash."""
    async with place.open() as env, Place("local").open() as local:
        ours, near, limit = await in_turns(
            bench.times(30, 6),
            apart(once(running(env, "true"))),
            apart(once(running(local, "true"))),
            apart(plainly(fresh_bash)),
        )
    what = f"`true`, settled session, {place.kind}"
    return [
        row(
            f"{place.kind}.settled",
            what,
            "ms",
            ours,
            limit=(FRESH_BASH, limit),
            target=place.target("settled"),
        ),
        row(
            f"{place.kind}.settled-local",
            what,
            "ms",
            ours,
            limit=("the same, local", near),
            target=place.target("settled-local"),
        ),
    ]


async def back_to_back(bench: Bench, place: Place) -> list[Row]:
    """No pause; nothing to remember in between."""
    ours, limit = await _in_a_row(bench, place, "true")
    return [
        row(
            f"{place.kind}.back-to-back",
            f"`true`, back to back, {place.kind}",
            "ms",
            ours,
            limit=(FRESH_BASH, limit),
            target=place.target("back-to-back"),
        )
    ]


async def copies(bench: Bench, place: Place) -> list[Row]:
    """No pause, and each command changes the state, so that the shell is copied before the next."""
    ours, limit = await _in_a_row(bench, place, "X=1")
    return [
        row(
            f"{place.kind}.copies",
            f"`X=1`, back to back, a copy each time, {place.kind}",
            "ms",
            ours,
            limit=(FRESH_BASH, limit),
            target=place.target("copies"),
        )
    ]


async def _in_a_row(bench: Bench, place: Place, command: str) -> list[list[float]]:
    async with place.open() as env:
        return await in_turns(
            bench.times(30, 6),
            in_a_row(running(env, command), IN_A_ROW),
            plainly(fresh_bash, times=IN_A_ROW // 2),
        )


async def functions(bench: Bench, place: Place) -> list[Row]:
    """A session that carries 500 kB of functions, against one that carries none."""
    rows = []
    async with place.open() as env:
        full, empty = env.session("full"), env.session("empty")
        await _define_functions(full)
        ours, limit = await in_turns(
            bench.times(20, 5),
            apart(once(running(full, "true"))),
            apart(once(running(empty, "true"))),
        )
        rows.append(
            row(
                f"{place.kind}.functions",
                f"`true`, settled, 500 kB of functions, {place.kind}",
                "ms",
                ours,
                limit=("the same without", limit),
                target=place.target("functions"),
            )
        )
        ours, limit = await in_turns(
            bench.times(15, 4),
            in_a_row(running(full, "X=1"), IN_A_ROW),
            in_a_row(running(empty, "X=1"), IN_A_ROW),
        )
        rows.append(
            row(
                f"{place.kind}.functions-copies",
                f"`X=1`, back to back, 500 kB of functions, {place.kind}",
                "ms",
                ours,
                limit=("the same without", limit),
            )
        )
    return rows


async def _define_functions(session: hermetic.Session) -> None:
    line = "    echo some text that makes this function longer\n"
    body = line * (FUNCTION_BYTES // len(line))
    await session.run("".join(f"function_{number}() {{\n{body}}}\n" for number in range(FUNCTIONS)))
    told = await session.run("declare -F | wc -l; declare -f | wc -c")
    count, size = map(int, told.output.split())
    if count < FUNCTIONS or size < FUNCTIONS * FUNCTION_BYTES * 0.9:
        raise WrongResult(f"the session has {count} functions in {size} bytes")


async def blocking(bench: Bench, place: Place) -> list[Row]:
    """The face without await, against the one with it, in the same session."""
    async with place.open() as env:
        face = await asyncio.to_thread(hermetic.blocking.attach, env.id)

        def call() -> list[float]:
            values = []
            for _ in range(SOME):
                time.sleep(PAUSE)
                started = time.perf_counter()
                face.run("true")
                values.append((time.perf_counter() - started) * MILLI)
            return values

        async def without_await() -> list[float]:
            return await asyncio.to_thread(call)

        try:
            ours, limit = await in_turns(
                bench.times(30, 5), without_await, apart(once(running(env, "true")))
            )
        finally:
            await asyncio.to_thread(face.close)
    return [
        row(
            f"{place.kind}.blocking",
            f"`true`, settled, blocking face, {place.kind}",
            "ms",
            ours,
            limit=("the same with await", limit),
            target=place.target("blocking"),
        )
    ]
