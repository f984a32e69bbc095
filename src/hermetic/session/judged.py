"""What was judged is what runs: a session that another command has changed meanwhile is looked at again."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from hermetic.contract.command import Result
from hermetic.contract.endings import Lost
from hermetic.contract.errors import InvalidArgument, NotPermitted

T = TypeVar("T")

TRIES = 20
_STALE = "the session changed before the command began"  # as the resident says it


async def judged_again(attempt: Callable[[], Awaitable[T]]) -> T:
    """What the attempt gives, which judges and runs; another one where it was too late. Raises NotPermitted."""
    for _ in range(TRIES):
        try:
            done = await attempt()
        except InvalidArgument as error:
            if error.argument != "known":
                raise
            continue
        if not (isinstance(done, Result) and done.ending == Lost(_STALE)):
            return done
    why = "other commands change the session again and again before it can begin"
    raise NotPermitted(f"not run: {why}; wait for them, then try again", rule="changed", reason=why)
