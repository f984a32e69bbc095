"""A function applied to many items, each in an environment of its own, a limited number at once.

An item is retried in another environment only while no request of its function was sent: a command
never runs twice.
"""

import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from hermetic.contract.errors import (
    ConfigError,
    EnvironmentUnavailable,
    InvalidArgument,
    NotInstalled,
)
from hermetic.contract.fleet import ItemResult, Mapped, MapProgress, MapSummary
from hermetic.session.arguments import check_positive
from hermetic.session.callbacks import answer_of
from hermetic.session.environment import Environment
from hermetic.session.keeping import link_of

LIMIT = 8  # items at once
RETRIES = 2
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0  # seconds before a retry; the pause doubles

# an Environment and the item → the value, or an awaitable of it
Function = Callable[[Any, Any], Any]
Progress = bool | Callable[[MapProgress], object]


class Mapping:
    """One call of `Fleet.map`.

    `use` lends the environment of a task, `end` ends it; both are the fleet's.
    """

    def __init__(
        self,
        use: Callable[[str], AbstractAsyncContextManager[Environment]],
        end: Callable[[str], Awaitable[object]],
        function: Function,
        name: Callable[[int], str],
        *,
        limit: int,
        retries: int,
        timeout: float | None,
        progress: Progress,
    ) -> None:
        if not callable(function):
            kind = type(function).__name__
            message = f"function must take an environment and an item, and is of type {kind}"
            raise InvalidArgument(message, argument="function")
        if timeout is not None:
            check_positive(timeout, "timeout")
        if not (isinstance(progress, bool) or callable(progress)):
            message = f"progress must be True, False or a function, not {progress!r}"
            raise InvalidArgument(message, argument="progress")
        self._use, self._end, self._function, self._name = use, end, function, name
        self._limit, self._retries, self._timeout = limit, retries, timeout
        self._report = _bar if progress is True else progress or (lambda now: None)
        self._results: list[ItemResult | None] = []
        self._done = self._failed = self._running = 0
        self._began = time.monotonic()

    def __repr__(self) -> str:
        return f"<Mapping: {self._done} of {len(self._results)}>"

    async def run(self, given: Sequence[Any]) -> Mapped:
        """The results; a cancelled call ends its environments first."""
        self._results = [None] * len(given)
        self._began = time.monotonic()
        waiting = iter(enumerate(given))
        self._tell()
        async with asyncio.TaskGroup() as workers:
            for _ in range(min(self._limit, len(given))):
                workers.create_task(self._work(waiting))
        results = tuple(result for result in self._results if result is not None)
        return Mapped(results=results, summary=self._summary(results))

    async def _work(self, waiting: Iterator[tuple[int, Any]]) -> None:
        for index, item in waiting:
            self._running += 1
            self._tell()
            try:
                result = await self._item(index, item)
            finally:
                self._running -= 1
            self._results[index] = result
            self._done += 1
            self._failed += not result.ok
            self._tell()

    async def _item(self, index: int, item: Any) -> ItemResult:
        """Tries one item until its function has begun, or the retries are used up."""
        pause = FIRST_PAUSE
        for attempt in range(1, self._retries + 2):
            result, may_retry = await self._attempt(index, item, attempt)
            if not may_retry or attempt > self._retries:
                break
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
        return result

    async def _attempt(self, index: int, item: Any, attempt: int) -> tuple[ItemResult, bool]:
        """One attempt, and whether another one is safe and may help."""
        task = self._name(index)
        known: dict[str, Any] = {"index": index, "item": item, "attempts": attempt}
        was_gone = False
        began, opened, is_untouched = time.monotonic(), 0.0, True
        try:
            async with self._use(task) as environment:
                opened = time.monotonic()
                known |= {"opening_seconds": opened - began, "environment": environment.id}
                link = link_of(environment)
                before = link.requests
                try:
                    async with asyncio.timeout(self._timeout) as limit:
                        known["value"] = await answer_of(self._function, environment, item)
                except TimeoutError as error:
                    if not limit.expired():
                        raise
                    raise TimeoutError(
                        f"the function did not return within {self._timeout:g} s"
                    ) from error
                finally:
                    is_untouched = link.requests == before
                    # `run` returns `Lost` then, and raises nothing
                    was_gone = is_untouched and link.is_over
        except Exception as error:  # of the caller's function, or of its environment
            known["error"] = error
        finally:
            # A cancelled caller waits for this, too: the environment is its own.
            await asyncio.shield(asyncio.ensure_future(self._end(task)))
        seconds = time.monotonic() - opened if opened else 0.0
        may_retry = was_gone or (is_untouched and _may_pass(known.get("error")))
        return ItemResult(**known, seconds=seconds), may_retry

    def _tell(self) -> None:
        now = MapProgress(
            total=len(self._results),
            done=self._done,
            failed=self._failed,
            running=self._running,
            seconds=time.monotonic() - self._began,
        )
        self._report(now)

    def _summary(self, results: tuple[ItemResult, ...]) -> MapSummary:
        seconds = time.monotonic() - self._began
        return MapSummary(
            total=len(results),
            done=self._done - self._failed,
            failed=self._failed,
            retried=sum(result.attempts > 1 for result in results),
            seconds=seconds,
            per_second=len(results) / seconds if seconds else 0.0,
            opening_seconds=_median(result.opening_seconds for result in results),
            item_seconds=_median(result.seconds for result in results),
        )


def named(task: Callable[[Any], str], items: Sequence[Any]) -> list[str]:
    """The names that the caller's function gives to the environments of the items.

    Raises InvalidArgument where two items would share one: the first to be done would end it.
    """
    names = [task(item) for item in items]
    seen: dict[str, int] = {}
    for index, name in enumerate(names):
        if (first := seen.setdefault(name, index)) != index:
            message = f"items {first} and {index} have the same task {name!r}; give each its own"
            raise InvalidArgument(message, argument="task")
    return names


def _may_pass(error: Exception | None) -> bool:
    """Whether another environment may succeed where this one did not."""
    return isinstance(error, EnvironmentUnavailable) and not isinstance(
        error, ConfigError | NotInstalled
    )


def _median(values: Iterable[float]) -> float:
    return statistics.median(found) if (found := list(values)) else 0.0


def _bar(now: MapProgress) -> None:
    """Draws the bar on stderr, where that is a terminal."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{now}" + ("\n" if now.done == now.total else ""))
        sys.stderr.flush()
