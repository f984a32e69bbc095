"""Calls whoever answers: async as it is, a plain function beside the loop, so that it may think as long as it likes."""

import asyncio
import contextlib
import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable
from typing import TypeVar, cast

from hermetic.contract.approval import ApprovalRequest

T = TypeVar("T")


async def answer_of(function: Callable[[ApprovalRequest], T | Awaitable[T]], request: ApprovalRequest) -> T:
    """What it says. A plain function that is not waited for any more goes on in its thread, and counts for nothing."""
    if _is_async(function):
        said = function(request)
    else:
        said = await _in_thread(lambda: function(request))
    return await said if inspect.isawaitable(said) else said


def _is_async(function: Callable[..., object]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


async def _in_thread(call: Callable[[], T]) -> T:
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

    threading.Thread(target=work, name="hermetic-approver", daemon=True).start()
    return await done
