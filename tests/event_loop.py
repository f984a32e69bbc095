"""How tests are run:

`async def` ones on an event loop of their own, all of them with a bound on their time.
"""

import asyncio
import functools
import inspect
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

AFTERWARDS = 10.0  # seconds between the bound of the event loop, which cleans up, and the alarm

_bound: asyncio.Timeout | None = None  # of the test that runs


def allow(seconds: float) -> None:
    """Gives the running test at least so many seconds from now on: its own yardstick shows that it
    needs them.
    """
    loop = asyncio.get_running_loop()
    assert _bound is not None, "a test runs"
    _bound.reschedule(max(_bound.when() or 0.0, loop.time() + seconds))
    left = signal.getitimer(signal.ITIMER_REAL)[0]
    signal.setitimer(signal.ITIMER_REAL, max(left, seconds + AFTERWARDS))


def run(test: Callable[..., Awaitable[None]], arguments: dict[str, Any], seconds: float) -> None:
    """Runs one coroutine function to its end; what fails unseen in a task or callback fails the
    test too.
    """
    unseen: list[dict[str, Any]] = []

    async def bounded() -> None:
        asyncio.get_running_loop().set_exception_handler(
            lambda _loop, context: unseen.append(context)
        )
        global _bound
        async with asyncio.timeout(seconds) as _bound:
            await test(**arguments)

    with asyncio.Runner(debug=False) as runner:
        runner.run(bounded())
    if unseen:
        first = unseen[0]
        raise AssertionError(f"failed unseen on the event loop: {first['message']}") from first.get(
            "exception"
        )


def make_plain(item: pytest.Function, seconds: float) -> None:
    """Lets Hypothesis call an `async def` test that carries @given."""
    inner = getattr(getattr(item.obj, "hypothesis", None), "inner_test", None)
    if inner is None or not inspect.iscoroutinefunction(inner):
        return

    @functools.wraps(inner)
    def plain(**arguments: Any) -> None:
        run(inner, arguments, seconds)

    item.obj.hypothesis.inner_test = plain


@contextmanager
def bounded_in_time(seconds: float) -> Iterator[None]:
    """Raises TimeoutError in the main thread when the block takes longer."""

    def ring(_signal: int, _frame: FrameType | None) -> None:
        raise TimeoutError(f"the test took more than {seconds:g} s")

    earlier = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, earlier)
