"""Blocking calls from an event loop."""

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from typing import TypeVar, cast

T = TypeVar("T")


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
            done.set_exception(error if isinstance(error, Exception) else RuntimeError(repr(error)))
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
