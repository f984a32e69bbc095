"""The environment that is put to the suite, and the event loop that it and every test live on."""

import asyncio
import itertools
from collections.abc import Coroutine
from typing import Any, TypeVar

import hermetic

T = TypeVar("T")

SECONDS = 60.0  # for one test; a test that gets here hangs


class Place:
    """One environment for all tests, opened on first use and anew when a test has ended it."""

    def __init__(self, kind: str, options: dict[str, Any]) -> None:
        self.kind = kind
        self.options = options
        self._runner = asyncio.Runner()
        self._environment: hermetic.Environment | None = None
        self._cannot: frozenset[str] | None = None
        self._numbers = itertools.count(1)
        self._unseen: list[dict[str, Any]] = []

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """What the coroutine returns; what fails unseen in a task or callback fails it too."""
        self._unseen.clear()

        async def bounded() -> T:
            asyncio.get_running_loop().set_exception_handler(lambda _loop, context: self._unseen.append(context))
            async with asyncio.timeout(SECONDS):
                return await work

        answer = self._runner.run(bounded())
        if self._unseen:
            first = self._unseen[0]
            raise AssertionError(f"failed unseen on the event loop: {first['message']}") from first.get("exception")
        return answer

    async def environment(self) -> hermetic.Environment:
        """The shared environment, alive."""
        if self._environment is not None and not await _is_alive(self._environment):
            await self._environment.close()
            self._environment = None
        if self._environment is None:
            self._environment = await hermetic.open(self.kind, **self.options)
        return self._environment

    async def cannot(self) -> frozenset[str]:
        """What the environment says it cannot do."""
        if self._cannot is None:
            self._cannot = frozenset((await (await self.environment()).info()).cannot)
        return self._cannot

    def next_number(self) -> int:
        """A number that no other test has."""
        return next(self._numbers)

    def close(self) -> None:
        """Ends the environment and the event loop."""
        if self._environment is not None:
            self.run(self._environment.close())
        self._runner.close()


async def _is_alive(environment: hermetic.Environment) -> bool:
    try:
        await environment.info()
    except hermetic.EnvironmentUnavailable:
        return False
    return True
