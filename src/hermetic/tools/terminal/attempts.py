"""A command of a tool, from its judgement to its start: both again where its session changed in between."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from hermetic.approvals.context import PolicyContext
from hermetic.contract.approval import Judged
from hermetic.session.environment import Environment
from hermetic.session.judged import judged_again
from hermetic.session.keeping import as_judged
from hermetic.session.session import Session
from hermetic.tools.base.task import Task

T = TypeVar("T")


class Attempts:
    """A judge for `Task.place` that remembers by which state of the session it has judged."""

    def __init__(self, task: Task, judge: Callable[[Environment | PolicyContext], Awaitable[Judged | None]]) -> None:
        self._task = task
        self._judge = judge
        self._judged: Judged | None = None
        self._is_judged = False

    async def __call__(self, place: Environment | PolicyContext) -> None:
        """Raises NotPermitted."""
        self._judged = await self._judge(place)
        self._is_judged = True

    async def begin(self, environment: Environment, act: Callable[[Session], Awaitable[T]]) -> T:
        """What `act` gives with a session that is as it was judged. Raises NotPermitted."""

        async def attempt() -> T:
            if not self._is_judged:
                await self._task.interruptible(self(environment))
            self._is_judged = False
            return await act(as_judged(environment, self._judged))

        return await judged_again(attempt)
