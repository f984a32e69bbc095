"""Scripts that call tools: what a call costs, and how soon a script begins and ends."""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Protocol

import msgspec

from benchmarks.figures import Row, row
from benchmarks.measuring import Bench, Place, WrongResult, apart, in_a_row, in_turns, once
from hermetic.contract.tool import Fields, Tool
from hermetic.tools.code.arguments import CodeLimits, CodeOptions

SETTLE = 0.2  # seconds in which the interpreter for the next script gets ready
SCRIPT = "from hermetic_tools import noop\nprint(1)"
FILE = "/tmp/hermetic-benchmark.txt"
# A python3 in front of PATH that takes as long as a version manager's before it starts the
# interpreter.
SHIM = """\
mkdir -p ~/shims && printf '#!/bin/sh\\nsleep 0.05\\nexec %s "$@"\\n' "$(command -v python3)" > ~/shims/python3 &&
chmod +x ~/shims/python3 && export PATH=~/shims:$PATH"""

# Prints the seconds that each of many calls took.
CALLS = """\
import json, time
from hermetic_tools import {tool}
times = []
for _ in range({count} + 20):
    began = time.perf_counter()
    answer = {tool}({arguments})
    times.append(time.perf_counter() - began)
    assert not answer.get("error"), answer
print(json.dumps([round(value * 1e6) for value in times[20:]]))
"""


class Nothing(msgspec.Struct, frozen=True, kw_only=True):
    """No arguments."""


async def noop(task: object, asked: Nothing) -> Fields:
    """Answers at once."""
    return {}


async def codemode(bench: Bench, place: Place) -> list[Row]:
    """What calls cost, then what scripts do."""
    return [
        *await _calls(bench, place),
        await _start(bench, place),
        await _warm(bench, place),
        await _in_a_row(bench, place, "row", "", ""),
        await _in_a_row(bench, place, "shim", SHIM, ", `python3` a shim"),
    ]


async def _calls(bench: Bench, place: Place) -> list[Row]:
    """One script that calls many times: a tool that does nothing, then one that reads a small file."""
    rows = []
    count = bench.times(1500, 300)
    async with _scripts(place, warm=False) as run:
        await run(f"open({FILE!r}, 'w').write('a line of text\\n' * 20)")
        for name, tool, arguments, what in (
            ("call", "noop", "", "a tool that does nothing"),
            ("read", "read_file", repr(FILE), "`read_file`, 20 lines"),
        ):
            printed = await run(CALLS.format(tool=tool, arguments=arguments, count=count))
            rows.append(
                row(
                    f"{place.kind}.codemode-{name}",
                    f"a script's call of {what}, {place.kind}",
                    "ms",
                    [microseconds / 1000 for microseconds in json.loads(printed)],
                    target=place.target(f"codemode-{name}"),
                )
            )
    return rows


async def _start(bench: Bench, place: Place) -> Row:
    """A script that imports its tools and prints, beside the same interpreter that does nothing."""
    async with _scripts(place, warm=False) as run:

        async def bare() -> None:
            await run("", "python3 -c pass")

        ours, limit = await in_turns(
            bench.times(25, 6), apart(once(lambda: run(SCRIPT)), 2), apart(once(bare), 2)
        )
    return row(
        f"{place.kind}.codemode-start",
        f"a script, start to result, {place.kind}",
        "ms",
        ours,
        limit=("`python3 -c pass` there", limit),
        target=place.target("codemode-start"),
    )


async def _warm(bench: Bench, place: Place) -> Row:
    """The same, when an interpreter waits for it."""
    async with _scripts(place, warm=True) as run:

        async def settled() -> list[float]:
            await asyncio.sleep(SETTLE)
            return await once(lambda: run(SCRIPT))()

        (ours,) = await in_turns(bench.times(40, 8), settled, warm=2)
    return row(
        f"{place.kind}.codemode-warm",
        f"a script, start to result, warm interpreter, {place.kind}",
        "ms",
        ours,
        target=place.target("codemode-warm"),
    )


async def _in_a_row(bench: Bench, place: Place, name: str, before: str, more: str) -> Row:
    """Scripts without a pause between them, beside settled ones; `before` is a command that runs
    first.
    """
    async with _scripts(place, warm=True) as run:
        if before:
            await run("", before)
        await run(SCRIPT)

        async def settled() -> list[float]:
            await asyncio.sleep(SETTLE)
            return await once(lambda: run(SCRIPT))()

        ours, limit = await in_turns(bench.times(20, 4), in_a_row(lambda: run(SCRIPT), 4), settled)
    return row(
        f"{place.kind}.codemode-{name}",
        f"a script, start to result, in a row{more}, {place.kind}",
        "ms",
        ours,
        limit=("the same with 0.2 s between them", limit),
        target=place.target(f"codemode-{name}"),
    )


class _Run(Protocol):
    def __call__(self, code: str, command: str = "") -> Awaitable[str]: ...


@asynccontextmanager
async def _scripts(place: Place, *, warm: bool) -> AsyncIterator[_Run]:
    """Runs scripts, or commands, and returns what they print."""
    options = CodeOptions(limits=CodeLimits(calls=100_000), warm=warm)
    toolbox = place.toolbox(code=options)
    toolbox.register(Tool("noop", "Does nothing.", Nothing, noop))
    task = f"benchmark-{secrets.token_hex(4)}"

    async def run(code: str, command: str = "") -> str:
        tool, given = (
            ("terminal", {"command": command}) if command else ("execute_code", {"code": code})
        )
        answer = json.loads(await toolbox.call(tool, given, task_id=task))
        if answer["exit_code"] != 0:
            raise WrongResult(f"{command or code!r}: {answer}")
        printed: str = answer["output"]
        return printed

    try:
        yield run
    finally:
        await toolbox.close(remove=True)
