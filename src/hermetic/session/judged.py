"""What was judged is what runs: a session that another command has changed meanwhile is looked at
again.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from hermetic.contract.approval import Judged
from hermetic.contract.errors import InvalidArgument, NotPermitted

T = TypeVar("T")

TRIES = 20


class Stale(Exception):
    """The session is not as it was when the command was judged: nothing was started."""


def stale_or(error: InvalidArgument, judged: Judged | None) -> Exception:
    """Stale where a start was refused for that; else the error itself."""
    if judged is None or error.argument != "known":
        return error
    judged.report(None)
    return Stale()


async def judged_again(attempt: Callable[[], Awaitable[T]]) -> T:
    """What the attempt gives, which judges and runs; another one where it was too late.

    Raises NotPermitted.
    """
    for _ in range(TRIES):
        try:
            return await attempt()
        except Stale:
            continue
    why = "other commands change the session again and again before it can begin"
    raise NotPermitted(f"not run: {why}; wait for them, then try again", rule="changed", reason=why)
