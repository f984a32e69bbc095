"""Calls from plain threads into an event loop of their own thread; blocking classes use it."""

import asyncio
import atexit
import contextlib
import os
import threading
import warnings
import weakref
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

from hermetic.contract.errors import EnvironmentUnavailable

LEAVING_SECONDS = 5.0  # for closing at the end of the program

P = ParamSpec("P")
T = TypeVar("T")


class Closable(Protocol):
    """An object that has to be closed: an environment, a fleet or a toolbox."""

    async def close(self) -> object:
        """Releases it."""


K = TypeVar("K", bound=Closable)


class Portal:
    """An event loop in a thread of its own, and a way to call coroutine functions there.

    Objects that use it hold a reference. When the last one is gone, the guarded object is closed.
    """

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=_serve, args=(self._loop,), name="hermetic-portal", daemon=True
        )
        self._thread.start()
        self.owner: Closable | None = None  # the object that the portal was made for
        self._guards: list[Callable[[], object]] = []  # each cancels one automatic close

    def guard(self, kept: Closable) -> None:
        """Closes the object, its owner, when this portal is garbage collected, and at the end of
        the program.
        """
        self.owner = kept
        forgotten = weakref.finalize(
            self, _close_collected, self._loop, self._thread, kept, self._pid
        )
        forgotten.atexit = False
        leave = partial(_close_at_exit, self._loop, self._thread, kept, self._pid)
        atexit.register(leave)
        self._guards = [forgotten.detach, partial(atexit.unregister, leave)]
        weakref.finalize(self, atexit.unregister, leave).atexit = False

    @property
    def is_open(self) -> bool:
        """False after `close`."""
        return self._thread.is_alive()

    def call(
        self, function: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """The result of the coroutine function; an interrupt cancels it and waits for its end."""
        call = self.begin(function, *args, **kwargs)
        call.wait()
        return call.result()

    def begin(
        self, function: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> "Call[T]":
        """The same without waiting: the caller looks after other things meanwhile."""
        self._check()
        call = Call(function(*args, **kwargs), self._loop)
        self._loop.call_soon_threadsafe(call.begin)
        return call

    def _check(self) -> None:
        """Raises RuntimeError on the portal's own thread, EnvironmentUnavailable after a fork or
        `close`.
        """
        if threading.current_thread() is self._thread:
            raise RuntimeError(
                "a blocking call inside on_output would wait for itself; use the async API there"
            )
        if os.getpid() != self._pid:
            raise EnvironmentUnavailable(
                f"the environment was opened before a fork, by process {self._pid}, and only that one can use it; "
                "open or attach to it in this process"
            )
        if not self.is_open:
            raise EnvironmentUnavailable("the environment was closed; open or attach to it again")

    def do(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The same for a plain function that needs the event loop around it."""

        async def run() -> T:
            return function(*args, **kwargs)

        return self.call(run)

    def close(self) -> None:
        """Ends the thread."""
        for cancel in self._guards:
            cancel()
        if self.is_open:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()


def in_portal(make: Callable[[], Coroutine[Any, Any, K]]) -> tuple[Portal, K]:
    """A new portal, and the object made in it, which owns it."""
    portal = Portal()
    try:
        made = portal.call(make)
    except BaseException:
        portal.close()
        raise
    portal.guard(made)
    return portal, made


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        while not _has_stopped(loop):
            pass
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()


def _has_stopped(loop: asyncio.AbstractEventLoop) -> bool:
    """Runs the loop; False where a task ended with an exception that asyncio lets out of the loop,
    too: its caller gets it, and the loop goes on.
    """
    try:
        loop.run_forever()
    except (KeyboardInterrupt, SystemExit):  # of the caller's own function
        return False
    return True


def _close_collected(
    loop: asyncio.AbstractEventLoop, thread: threading.Thread, kept: Closable, pid: int
) -> None:
    """Closes a collected object without waiting, because any thread may run the finalizer."""
    if os.getpid() != pid or not thread.is_alive():
        return

    async def close() -> None:
        try:
            await kept.close()
        finally:
            loop.stop()

    loop.call_soon_threadsafe(lambda: loop.create_task(close()))
    warnings.warn(
        f"{kept!r} was never closed; use `with`, or close()", ResourceWarning, stacklevel=2
    )


def _close_at_exit(
    loop: asyncio.AbstractEventLoop, thread: threading.Thread, kept: Closable, pid: int
) -> None:
    """Closes an open object at the end of the program, with a short timeout."""

    async def close() -> None:
        async with asyncio.timeout(LEAVING_SECONDS):  # cancelling releases its locks
            await kept.close()

    if os.getpid() == pid and thread.is_alive():
        with contextlib.suppress(Exception):
            asyncio.run_coroutine_threadsafe(close(), loop).result(2 * LEAVING_SECONDS)


class Call(Generic[T]):
    """One coroutine that runs through a portal."""

    def __init__(self, coroutine: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> None:
        self._coroutine = coroutine
        self._loop = loop
        self._task: asyncio.Task[T] | None = None
        self._done = threading.Lock()  # released when the task is done; lighter than an Event
        self._done.acquire()

    def __repr__(self) -> str:
        return f"<Call of {self._coroutine!r}>"

    def begin(self) -> None:
        """Starts it, on the event loop."""
        self._task = asyncio.get_running_loop().create_task(self._coroutine)
        self._task.add_done_callback(lambda _: self._done.release())

    def wait(self, seconds: float | None = None) -> bool:
        """Whether it is done, within the seconds; an interrupt cancels it and waits for its end."""
        try:
            return self._done.acquire(timeout=-1 if seconds is None else seconds)
        except BaseException:  # KeyboardInterrupt, or an alarm's exception
            self._loop.call_soon_threadsafe(self._cancel)
            self._done.acquire()
            raise

    def result(self) -> T:
        """Its result, once it is done."""
        assert self._task is not None
        return self._task.result()

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
