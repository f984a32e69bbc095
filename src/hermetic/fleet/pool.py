"""A pool of prepared environments, so that a task need not wait for one."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from hermetic.contract.errors import EnvironmentUnavailable, ExecutionError
from hermetic.session.environment import Environment
from hermetic.session.keeping import give_to_task, link_of, set_lease

# Lease of a pooled environment: without this process, also after SIGKILL, it has no use.
WAITING_SECONDS = 10.0

# A burst of tasks is served first: starting replacements would take processor time from them.
REPLACING_SECONDS = 0.05


class Pool:
    """Keeps `size` environments of one kind and one set of options ready; each that is taken is
    replaced.
    """

    def __init__(self, size: int, start: Callable[[], Awaitable[Environment]]) -> None:
        self.size = size
        self.problem = ""  # why the last start failed
        self._start = start
        self._ready: deque[Environment] = deque()
        self._starting: set[asyncio.Task[None]] = set()
        self._refill: asyncio.TimerHandle | None = None
        self._is_closed = False

    def __repr__(self) -> str:
        return (
            f"<Pool of {self.size}: {len(self._ready)} ready, {len(self._starting)} on their way>"
        )

    @property
    def ids(self) -> list[str]:
        """Of the environments that wait here."""
        return [environment.id for environment in self._ready]

    def fill(self) -> None:
        """Starts as many as are missing."""
        if self._refill is not None:
            self._refill.cancel()
            self._refill = None
        missing = 0 if self._is_closed else self.size - len(self._ready) - len(self._starting)
        for _ in range(missing):
            task = asyncio.create_task(self._add())
            self._starting.add(task)
            task.add_done_callback(self._starting.discard)

    async def resize(self, size: int) -> None:
        """Returns when so many are ready, or could not be started; those that are too many are
        ended.
        """
        self.size = size
        self.fill()
        await self._filled()
        while len(self._ready) > self.size:
            await self._ready.pop().close()

    async def _filled(self) -> None:
        """Returns when no start is in progress."""
        while self._starting:
            await asyncio.wait(self._starting)

    async def take(self, task: str) -> Environment | None:
        """A prepared environment, given to this task, whose lock the caller holds; None if none is
        ready.
        """
        try:
            while self._ready:
                environment = self._ready.popleft()
                if link_of(environment).is_over:
                    await environment.close()
                    continue
                try:
                    return await give_to_task(environment, task)
                except EnvironmentUnavailable:
                    await environment.close()
            return None
        finally:
            if self._refill is None and not self._is_closed:
                self._refill = asyncio.get_running_loop().call_later(REPLACING_SECONDS, self.fill)

    async def close(self) -> None:
        """Ends all of them; returns when nothing is left."""
        self._is_closed = True
        self.fill()  # closed: it only cancels the planned refill
        for task in self._starting:
            task.cancel()
        await self._filled()
        ready, self._ready = list(self._ready), deque()
        await asyncio.gather(*(environment.close() for environment in ready))

    async def _add(self) -> None:
        try:
            environment = await self._start()
        except ExecutionError as error:
            self.problem = str(error)
            return
        try:
            await set_lease(environment, WAITING_SECONDS)
        except BaseException as error:
            await environment.close()
            if not isinstance(error, EnvironmentUnavailable):
                raise
            self.problem = str(error)
            return
        self.problem = ""
        self._ready.append(environment)
