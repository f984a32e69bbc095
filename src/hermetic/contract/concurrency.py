"""Work beside that of an event loop or a task: blocking calls, and tasks for the length of a block."""

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar, cast

T = TypeVar("T")

_background: set["asyncio.Task[Any]"] = (
    set()
)  # the event loop itself holds tasks by weak references


async def in_thread(call: Callable[[], T]) -> T:
    """The call's result, from a thread of its own. When it is not waited for any more, it goes on
    there, and counts for nothing; the end of this process does not wait for it.
    """
    loop, context = asyncio.get_running_loop(), contextvars.copy_context()
    done: asyncio.Future[T] = loop.create_future()

    def tell(result: T | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is not None:
            # a future takes no StopIteration, as of `next` behind the last item
            fits = isinstance(error, Exception) and not isinstance(error, StopIteration)
            done.set_exception(error if fits else RuntimeError(repr(error)))
        else:
            done.set_result(cast(T, result))

    def work() -> None:
        result, error = None, None
        try:
            result = context.run(call)
        except BaseException as problem:
            error = problem
        with contextlib.suppress(RuntimeError):  # the loop is gone
            loop.call_soon_threadsafe(tell, result, error)

    threading.Thread(target=work, name="hermetic-call", daemon=True).start()
    return await done


@asynccontextmanager
async def beside(work: Coroutine[Any, Any, T]) -> "AsyncIterator[asyncio.Task[T]]":
    """A task while the block lasts. At its end the task is cancelled, and has ended; an error that
    the block has not taken is dropped.
    """
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def shielded(work: Coroutine[Any, Any, T]) -> T:
    """The result of the coroutine; cancelling the waiter does not interrupt it."""
    task = asyncio.create_task(work)
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([task])
    return task.result()


def in_background(work: Coroutine[Any, Any, object]) -> None:
    """A task that nothing waits for."""
    task = asyncio.get_running_loop().create_task(work)
    _background.add(task)
    task.add_done_callback(_background.discard)
