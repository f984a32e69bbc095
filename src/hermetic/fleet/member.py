"""An environment in a fleet: who uses it, and its release when it is idle."""

import asyncio
from collections.abc import Callable

from hermetic.contract.errors import EnvironmentUnavailable
from hermetic.link.link import Link
from hermetic.session.environment import Environment
from hermetic.session.keeping import link_of


class Member:
    """An environment in a fleet; `forget` is called when it was released for idleness."""

    def __init__(self, idle: float | None, forget: Callable[["Member"], None]) -> None:
        self.lock = asyncio.Lock()  # held while it is opened or closed
        self.environment: Environment | None = None
        self.users = 0  # borrowers; it is not released while there are any
        self._idle = idle
        self._forget = forget
        self._activity: Link | None = None  # of that environment
        self._requests = 0  # at the last check
        self._until = 0.0  # its idle time, by the loop's clock
        self._timer: asyncio.TimerHandle | None = None
        self._looking: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<Member {self.environment!r}: {self.users} users>"

    @property
    def is_usable(self) -> bool:
        """True when there is an environment that is not closed or lost."""
        return self._activity is not None and not self._activity.is_over

    def keep(self, environment: Environment) -> None:
        """Takes an environment in; its idle time begins."""
        self.environment, self._activity = environment, link_of(environment)
        self.touch()

    def touch(self) -> None:
        """It is used now: its idle time begins anew."""
        if self._activity is None:
            self._stop_timer()
            return
        self._requests = self._activity.requests
        if self._idle is not None:
            loop = asyncio.get_running_loop()
            self._until = loop.time() + self._idle
            if self._timer is None:  # a running timer re-arms itself
                self._timer = loop.call_at(self._until, self._look_later)

    async def close(self, *, remove: bool) -> None:
        """Releases the environment, or ends it; the lock is held."""
        self._stop_timer()
        if self._looking is not None and self._looking is not asyncio.current_task():
            self._looking.cancel()
        environment, self.environment, self._activity = self.environment, None, None
        if environment is not None:
            await environment.close(remove=remove)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look_later(self) -> None:
        loop = asyncio.get_running_loop()
        if loop.time() < self._until:
            self._timer = loop.call_at(self._until, self._look_later)
            return
        self._timer = None
        self._looking = asyncio.create_task(self._look())

    async def _look(self) -> None:
        """The idle time is over: releases it, unless it was used meanwhile or processes run there."""
        async with self.lock:
            if self.environment is None:
                return
            if not await self._is_idle(self.environment):
                self.touch()
                return
            # No await between the check and the close: no call can begin in between.
            await self.close(remove=False)
            self._forget(self)

    async def _is_idle(self, environment: Environment) -> bool:
        activity = link_of(environment)
        was_quiet = activity.requests == self._requests and not activity.is_busy
        self._requests = before = activity.requests
        if self.users or not was_quiet:
            return activity.is_over and not self.users
        try:
            info = await environment.info()
        except EnvironmentUnavailable:
            return not self.users
        is_quiet = activity.requests == before + 1 and not activity.is_busy  # one was ours
        self._requests = activity.requests
        return is_quiet and not self.users and info.processes == 0
