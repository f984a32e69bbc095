"""Every benchmark by name: what is measured in which place."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from benchmarks import (
    background,
    clouds,
    codemode,
    containers,
    ending,
    files,
    fleets,
    judging,
    latency,
    many,
    mcp,
    output,
    page,
    parallel,
    runtimes,
    starting,
    tools,
    webterminal,
)
from benchmarks.figures import Row
from benchmarks.measuring import Bench, Place
from benchmarks.places import PLACES


class Benchmark(NamedTuple):
    """Something to measure; `--only` takes its name, or a part of it between dots."""

    name: str
    measure: Callable[[Bench], Awaitable[list[Row]]]

    def is_called(self, name: str) -> bool:
        """True for the whole name and for each part of it."""
        return name == self.name or name in self.name.split(".")


InAPlace = Callable[[Bench, Place], Awaitable[list[Row]]]

LOCAL: dict[str, InAPlace] = {
    "settled": latency.settled,
    "back-to-back": latency.back_to_back,
    "copies": latency.copies,
    "functions": latency.functions,
    "blocking": latency.blocking,
    "parallel": parallel.parallel,
    "output": output.flood,
    "log": output.log,
    "background": background.background,
    "many": many.many,
    "ending": ending.ending,
    "open": starting.opening,
    "profile": starting.profile,
    "pool": fleets.pool,
    "codemode": codemode.codemode,
    "files": files.files,
    "judging": judging.judging,
    "terminal": tools.terminal,
    "terminal-output": tools.flood,
}

ELSEWHERE: dict[str, InAPlace] = {
    "settled": latency.beside_local,
    "parallel": parallel.parallel,
    "output": output.flood,
    "background": background.background,
    "ending": ending.ending,
    "open": starting.opening,
    "pool": fleets.pool,
}

CONTAINER: dict[str, InAPlace] = {
    **ELSEWHERE,
    "settled-exec": containers.beside_exec,
    "parallel": containers.many,
    "output": containers.much,
    "at-once": fleets.at_once,
    "codemode": codemode.codemode,
    "runtime": runtimes.anywhere,
}

IN_PLACES: dict[str, dict[str, InAPlace]] = {
    "local": LOCAL,
    "sandbox": ELSEWHERE,
    "docker": CONTAINER,
    "podman": CONTAINER,
    "apptainer": ELSEWHERE,
    "ssh": ELSEWHERE,
}


def all_benchmarks() -> list[Benchmark]:
    """In the order they run and are shown, whether this machine has their place or not."""
    return [
        *(
            Benchmark(f"{kind}.{name}", _in(PLACES[kind], measure))
            for kind, measures in IN_PLACES.items()
            for name, measure in measures.items()
        ),
        Benchmark("daytona.settled", clouds.daytona),
        Benchmark("modal.settled", clouds.modal),
        Benchmark("import", starting.imports),
        Benchmark("cli", starting.command_line),
        Benchmark("runtime.making", runtimes.making),
        Benchmark("mcp.start", mcp.starting),
        Benchmark("mcp.call", mcp.calling),
        Benchmark("console.open", webterminal.opening),
        Benchmark("console.prompt", page.prompt),
        Benchmark("console.echo", webterminal.echo),
        Benchmark("console.floods", webterminal.floods),
        Benchmark("console.interrupt", webterminal.interrupt),
        Benchmark("console.stalled", webterminal.stalled),
        Benchmark("console.idle", webterminal.idle),
        Benchmark("console.rounds", webterminal.rounds),
    ]


def _in(find: Callable[[], Place], measure: InAPlace) -> Callable[[Bench], Awaitable[list[Row]]]:
    """Raises Missing when it is called where there is no such place."""
    return lambda bench: measure(bench, find())
