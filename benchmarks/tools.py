"""The terminal tool against `env.run` of the same command: one that starts a program, and one that
prints much.
"""

import json
import time

import hermetic
from benchmarks.figures import Row, row
from benchmarks.latency import running
from benchmarks.measuring import Bench, Place, WrongResult, apart, in_turns, once
from benchmarks.output import printing

COMMAND = "ls /"


async def terminal(bench: Bench, place: Place) -> list[Row]:
    """A few ms between calls, each judged by the policy."""
    rows = []
    async with place.open() as env, place.toolbox() as toolbox:
        for name, command in (("terminal", COMMAND), ("terminal-true", "true")):

            async def call(command: str = command) -> None:
                await _called(toolbox, command)

            ours, limit = await in_turns(
                bench.times(40, 8), apart(once(call)), apart(once(running(env, command))), warm=2
            )
            rows.append(
                row(
                    f"{place.kind}.{name}",
                    f"the terminal tool, `{command}`, {place.kind}",
                    "ms",
                    ours,
                    limit=("env.run of the same", limit),
                    target=place.target(name),
                )
            )
    return rows


async def flood(bench: Bench, place: Place) -> list[Row]:
    """1 GB through the tool."""
    count = bench.times(1_000_000_000, 150_000_000)
    command = printing(count)
    async with place.open() as env, place.toolbox() as toolbox:

        async def ours() -> list[float]:
            started = time.perf_counter()
            answer = await _called(toolbox, command)
            taken = time.perf_counter() - started
            if answer["total_bytes"] != count:
                raise WrongResult(f"{answer['total_bytes']} bytes of {count}")
            return [taken]

        async def limit() -> list[float]:
            started = time.perf_counter()
            result = await env.run(command)
            taken = time.perf_counter() - started
            if result.total_bytes != count:
                raise WrongResult(f"{result.total_bytes} bytes of {count}")
            return [taken]

        times, limits = await in_turns(bench.times(5, 2), ours, limit)
    return [
        row(
            f"{place.kind}.terminal-output",
            f"{count / 1e9:g} GB through the terminal tool, {place.kind}",
            "s",
            times,
            limit=("by env.run", limits),
            target=place.target("terminal-output"),
        )
    ]


async def _called(toolbox: hermetic.Toolbox, command: str) -> dict[str, object]:
    answer: dict[str, object] = json.loads(await toolbox.call("terminal", {"command": command}))
    if answer["exit_code"] != 0:
        raise WrongResult(str(answer))
    return answer
