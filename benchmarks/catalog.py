"""Every benchmark by name. Another backend is another place, and what only it has to show is a line of its own."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from benchmarks import background, ending, latency, output, parallel, starting
from benchmarks.figures import Row
from benchmarks.measuring import Bench, Place


class Benchmark(NamedTuple):
    """Something to measure; `--only` takes its name, or a part of it between dots."""

    name: str
    measure: Callable[[Bench], Awaitable[list[Row]]]

    def is_called(self, name: str) -> bool:
        """True for the whole name and for each part of it."""
        return name == self.name or name in self.name.split(".")


InAPlace = Callable[[Bench, Place], Awaitable[list[Row]]]

IN_A_PLACE: dict[str, InAPlace] = {
    "settled": latency.settled,
    "back-to-back": latency.back_to_back,
    "copies": latency.copies,
    "functions": latency.functions,
    "blocking": latency.blocking,
    "parallel": parallel.parallel,
    "output": output.flood,
    "log": output.log,
    "background": background.background,
    "ending": ending.ending,
    "open": starting.opening,
    "profile": starting.profile,
}


def all_benchmarks() -> list[Benchmark]:
    """In the order they run and are shown."""
    local = Place("local")
    return [
        *(Benchmark(f"local.{name}", _in(local, measure)) for name, measure in IN_A_PLACE.items()),
        Benchmark("import", starting.imports),
        Benchmark("cli", starting.command_line),
    ]


def _in(place: Place, measure: InAPlace) -> Callable[[Bench], Awaitable[list[Row]]]:
    return lambda bench: measure(bench, place)
