"""Calls of the caller's own functions: an async one on the loop, a plain one in a thread, where it
may block.
"""

import inspect
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

from hermetic.contract.concurrency import in_thread
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
