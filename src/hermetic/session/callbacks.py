"""Calls of the caller's own functions: an async one on the loop, a plain one in a thread, where it
may block.
"""

import asyncio
import contextlib
import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar, cast

from hermetic.contract.tool import IS_SILENT

P = ParamSpec("P")
T = TypeVar("T")


async def answer_of(
    function: Callable[P, T | Awaitable[T]], *args: P.args, **kwargs: P.kwargs
) -> T:
    """Its result. A plain function that is not waited for any more goes on in its thread, and
    counts for nothing.

    It is the caller's, not a tool's: what it prints is shown, also while a script calls a tool.
    """
    silent = IS_SILENT.set(False)
    try:
        if _is_async(function):
            said = function(*args, **kwargs)
        else:
            said = await in_thread(lambda: function(*args, **kwargs))
        return await said if inspect.isawaitable(said) else said
    finally:
        IS_SILENT.reset(silent)


def _is_async(function: Callable[..., object]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        type(function).__call__
    )


async def in_thread(call: Callable[[], T]) -> T:
    """The call's result, from a thread of its own."""
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

    threading.Thread(target=work, name="hermetic-callback", daemon=True).start()
    return await done
