"""Measures what foreign input costs: processor time of this thread, memory, and pauses of the event
loop.
"""

import asyncio
import resource
import signal
import time
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import NamedTuple

# seconds of processor time, after which a test fails without waiting for the end
ENDED_AFTER = 20.0
# bytes beyond what the process has, so that a failing test does not use up the machine
MOST_MEMORY = 2 << 30


class TooSlow(AssertionError):
    """The work went on far beyond any bound."""


class Cost(NamedTuple):
    """What some work took."""

    seconds: float  # of processor time
    peak_bytes: int  # of memory that Python counted; 0 where that was not measured


def cost_of(work: Callable[[], object], *, memory: bool = False, most: int = MOST_MEMORY) -> Cost:
    """What the work takes.

    Raises TooSlow far beyond any bound, and MemoryError beyond `most` bytes.
    """
    with _ended_in_time(), _with_memory(most):
        if memory:
            tracemalloc.start()
        started = time.thread_time()
        try:
            work()
            return Cost(
                time.thread_time() - started, tracemalloc.get_traced_memory()[1] if memory else 0
            )
        finally:
            if memory:
                tracemalloc.stop()


@contextmanager
def _ended_in_time() -> Iterator[None]:
    def end(*_: object) -> None:
        raise TooSlow(f"not done after {ENDED_AFTER:g} s")

    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, ENDED_AFTER)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@contextmanager
def _with_memory(most: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


class Pauses:
    """How long the event loop did not turn: processor time that this process took meanwhile,
    whatever the load is.
    """

    longest = 0.0


@asynccontextmanager
async def pauses() -> AsyncIterator[Pauses]:
    """Watches the event loop for as long as the block runs."""
    found = Pauses()

    async def watch() -> None:
        while True:
            before = time.process_time()
            await asyncio.sleep(0.001)
            found.longest = max(found.longest, time.process_time() - before)

    watching = asyncio.create_task(watch())
    await asyncio.sleep(0)
    try:
        yield found
    finally:
        watching.cancel()
