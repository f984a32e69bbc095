"""SIGINT, SIGQUIT, SIGTERM and SIGHUP cancel the running task, also while a write to a full pipe
blocks.
"""

import asyncio
import os
import signal
from argparse import Namespace
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")

SIGNALS = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(Exception):
    """A signal came while a write was blocked."""


class Stopped(KeyboardInterrupt):
    """A signal ended the work; cancelled tasks have been cleaned up."""

    def __init__(self, signal: int) -> None:
        super().__init__(signal)
        self.signal = signal


class Interrupts:
    """Signals turned into the cancelling of one task."""

    def __init__(self) -> None:
        self._is_writing = False
        self.signal = 0  # the first one received
        self._cancel: Callable[[], object] | None = None

    def write(self, fd: int, data: bytes) -> None:
        """Writes everything, blocking. Raises Interrupted, and BrokenPipeError without a reader."""
        view = memoryview(data)
        self._is_writing = True
        try:
            while view and not self.signal:
                view = view[os.write(fd, view) :]
        finally:
            self._is_writing = False

    def watch(self, task: "asyncio.Task[Any]") -> None:
        """From now on, a signal cancels this task."""
        self._cancel = lambda: task.get_loop().call_soon_threadsafe(task.cancel)
        if self.signal:
            self._cancel()

    def take(self, number: int, _frame: FrameType | None) -> None:
        """The signal handler. Only the first signal counts: cancellation ends in bounded time."""
        if self.signal:
            return
        self.signal = number
        if self._cancel is not None:
            self._cancel()
        if self._is_writing:
            raise Interrupted


def run_interruptibly(main: Callable[[Interrupts], Coroutine[Any, Any, T]]) -> T:
    """What `main` returns. Raises Stopped when a signal cancelled it."""
    interrupts = Interrupts()

    async def watched() -> T:
        task = asyncio.current_task()
        assert task is not None
        interrupts.watch(task)
        return await main(interrupts)

    # A signal that the parent ignores (nohup) stays ignored.
    caught = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    earlier = {number: signal.signal(number, interrupts.take) for number in caught}
    try:
        with asyncio.Runner() as runner:
            return runner.run(watched())
    except (asyncio.CancelledError, Interrupted, BaseExceptionGroup) as raised:
        first = _first_of(raised)
        if isinstance(first, asyncio.CancelledError | Interrupted):
            raise Stopped(interrupts.signal) from None
        raise first from None
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)


@contextmanager
def all_as(chosen: signal.Signals) -> Iterator[None]:
    """Within it the signals that this program does not handle itself do what the chosen one does."""
    caught = [number for number in SIGNALS if signal.getsignal(number) is signal.SIG_DFL]
    earlier = {
        number: signal.signal(number, lambda *_: signal.raise_signal(chosen))
        for number in caught
        if number != chosen
    }
    try:
        yield
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)


def _first_of(error: BaseException) -> BaseException:
    """The first error of a task group, which is reported like one that was raised alone."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def interruptible(
    command: Callable[[Namespace, Interrupts], Coroutine[Any, Any, T]],
) -> Callable[[Namespace], T]:
    """A command that runs until it has returned, or a signal has cancelled it."""
    return lambda arguments: run_interruptibly(lambda interrupts: command(arguments, interrupts))
