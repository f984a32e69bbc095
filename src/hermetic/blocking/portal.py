"""A way from plain threads into an event loop: the bridge that blocking faces are built on."""

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

LEAVING_SECONDS = 5.0  # for what nobody closed, at the end of the program

P = ParamSpec("P")
T = TypeVar("T")


class Closable(Protocol):
    """What a portal keeps open: an environment, or many."""

    async def close(self) -> object:
        """Lets go of it."""


class Portal:
    """An event loop in a thread of its own, and a way to call coroutine functions there.

    Whatever belongs to what it keeps open holds it; when nobody does any more, that is let go of.
    """

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=_serve, args=(self._loop,), name="hermetic-portal", daemon=True)
        self._thread.start()
        self._guards: list[Callable[[], object]] = []  # each takes one way back in which an unclosed one is let go of

    def guard(self, kept: Closable) -> None:
        """Lets go of what is kept open when this portal is forgotten, and at the end of the program."""
        forgotten = weakref.finalize(self, _let_go, self._loop, self._thread, kept, self._pid)
        forgotten.atexit = False
        leave = partial(_leave, self._loop, self._thread, kept, self._pid)
        atexit.register(leave)
        self._guards = [forgotten.detach, partial(atexit.unregister, leave)]
        weakref.finalize(self, atexit.unregister, leave).atexit = False

    @property
    def is_open(self) -> bool:
        """False after `close`."""
        return self._thread.is_alive()

    def call(self, function: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """What the coroutine function returns or raises; an interrupt here cancels it there, and waits for it."""
        if threading.current_thread() is self._thread:
            raise RuntimeError("a blocking call inside on_output would wait for itself; use the async API there")
        if os.getpid() != self._pid:
            raise EnvironmentUnavailable(
                f"the environment was opened before a fork, by process {self._pid}, and only that one can use it; "
                "open or attach to it in this process"
            )
        if not self.is_open:
            raise EnvironmentUnavailable("the environment was closed; open or attach to it again")
        call = _Call(function(*args, **kwargs))
        self._loop.call_soon_threadsafe(call.begin)
        return call.wait(self._loop)

    def do(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The same for a plain function that needs the event loop around it."""

        async def run() -> T:
            return function(*args, **kwargs)

        return self.call(run)

    def close(self) -> None:
        """Ends the thread."""
        for take_back in self._guards:
            take_back()
        if self.is_open:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()


def _let_go(loop: asyncio.AbstractEventLoop, thread: threading.Thread, kept: Closable, pid: int) -> None:
    """Closes what was forgotten; waits for nothing, for any thread may be the one that noticed."""
    if os.getpid() != pid or not thread.is_alive():
        return

    async def close() -> None:
        try:
            await kept.close()
        finally:
            loop.stop()

    loop.call_soon_threadsafe(lambda: loop.create_task(close()))
    warnings.warn(f"{kept!r} was never closed; use `with`, or close()", ResourceWarning, stacklevel=2)


def _leave(loop: asyncio.AbstractEventLoop, thread: threading.Thread, kept: Closable, pid: int) -> None:
    """Closes what is open when the program ends, and does not wait long for it."""

    async def close() -> None:
        async with asyncio.timeout(LEAVING_SECONDS):  # cancelled there, it lets go of the locks it holds
            await kept.close()

    if os.getpid() == pid and thread.is_alive():
        with contextlib.suppress(Exception):
            asyncio.run_coroutine_threadsafe(close(), loop).result(2 * LEAVING_SECONDS)


class _Call(Generic[T]):
    """One coroutine on its way through a portal."""

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._coroutine = coroutine
        self._task: asyncio.Task[T] | None = None
        self._done = threading.Lock()  # released when the task is done; lighter than an Event
        self._done.acquire()

    def begin(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._coroutine)
        self._task.add_done_callback(lambda _: self._done.release())

    def wait(self, loop: asyncio.AbstractEventLoop) -> T:
        try:
            self._done.acquire()
        except BaseException:  # KeyboardInterrupt, or an alarm's exception
            loop.call_soon_threadsafe(self._cancel)
            self._done.acquire()
            raise
        assert self._task is not None
        return self._task.result()

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
