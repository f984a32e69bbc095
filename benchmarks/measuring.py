"""Taking times: ours and the limit in turns, so that whatever else the machine does falls on both."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

import hermetic
from benchmarks.figures import Target
from hermetic.fleet.opening import Opening

if TYPE_CHECKING:
    from benchmarks.raw import Raw

MILLI = 1000.0
PAUSE = 0.003  # seconds between commands; a session has settled by then
# turns of ours, then as many of the limit: a caller does not start a bash between its commands
SOME = 10

Take = Callable[[], Awaitable[list[float]]]  # one turn of measuring: the values it gave


class WrongResult(Exception):
    """What was timed did not do what it should have done, so its time means nothing."""


class Bench:
    """How much to measure.

    `expect(seconds)` is called by what takes long, once its yardstick shows how long.
    """

    def __init__(
        self, *, quick: bool, expect: Callable[[float], None] = lambda seconds: None
    ) -> None:
        self.quick, self.expect = quick, expect

    def __repr__(self) -> str:
        return f"<Bench: {'quick' if self.quick else 'full'}>"

    def times(self, full: int, quick: int) -> int:
        """How often to repeat."""
        return quick if self.quick else full


class Place:
    """A kind of environment to measure in, with its options, what it is held to and what it is held
    against.
    """

    def __init__(
        self,
        kind: str,
        *,
        targets: Mapping[str, Target] | None = None,
        raw: "Raw | None" = None,
        **options: Any,
    ) -> None:
        self.kind = kind
        self.raw = raw  # the same place by its engine's own client
        self._targets = targets or {}
        self._options = options

    def __repr__(self) -> str:
        return f"<Place {self.kind}>"

    def target(self, name: str) -> Target | None:
        """What the row KIND.name is held to."""
        return self._targets.get(name)

    def open(self, **more: Any) -> Opening:
        """A fresh environment there."""
        return hermetic.open(self.kind, **{**self._options, **more})

    def fleet(self) -> hermetic.Fleet:
        """Many of them, by task."""
        return hermetic.Fleet(self.kind, **self._options)

    def toolbox(self, **more: Any) -> hermetic.Toolbox:
        """The tools, for tasks there."""
        return hermetic.Toolbox(environment=self.kind, options=self._options, **more)


async def in_turns(times: int, *takes: Take, warm: int = 1) -> list[list[float]]:
    """The values of each take, after `times` rounds of all of them; `warm` rounds before that do
    not count.
    """
    found: list[list[float]] = [[] for _ in takes]
    for turn in range(-warm, times):
        for values, take in zip(found, takes, strict=True):
            taken = await take()
            if turn >= 0:
                values += taken
    return found


def apart(take: Take, times: int = SOME) -> Take:
    """A take several times, a few ms before each."""

    async def several() -> list[float]:
        values = []
        for _ in range(times):
            await asyncio.sleep(PAUSE)
            values += await take()
        return values

    return several


def once(call: Callable[[], Awaitable[object]], scale: float = MILLI) -> Take:
    """A take that times one call."""

    async def take() -> list[float]:
        started = time.perf_counter()
        await call()
        return [(time.perf_counter() - started) * scale]

    return take


def in_a_row(call: Callable[[], Awaitable[object]], times: int) -> Take:
    """A take that times each of several calls without a pause; the first one meets a settled place
    and is left out.
    """

    async def take() -> list[float]:
        values = []
        for _ in range(times + 1):
            started = time.perf_counter()
            await call()
            values.append((time.perf_counter() - started) * MILLI)
        return values[1:]

    return take


def plainly(call: Callable[[], object], *, times: int = 1, scale: float = MILLI) -> Take:
    """A take that times a blocking call, several times where wanted."""

    async def take() -> list[float]:
        return [timed(call) * scale for _ in range(times)]

    return take


def timed(call: Callable[[], object]) -> float:
    """Seconds that a blocking call takes."""
    started = time.perf_counter()
    call()
    return time.perf_counter() - started
