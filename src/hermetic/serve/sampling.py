"""Samples of CPU time and memory of every environment, published while a console is open."""

import asyncio
import time

from hermetic.serve.environments import Environments, Watched
from hermetic.serve.events import Hub

SAMPLE_SECONDS = 2.0  # between two samples


class Sampler:
    """Publishes samples, and a beat, as long as the hub has subscribers. Use it in `async with`."""

    def __init__(self, environments: Environments, hub: Hub) -> None:
        self._environments, self._hub = environments, hub
        self._running: asyncio.Task[None] | None = None
        self._asking: dict[str, asyncio.Task[None]] = {}  # by environment

    def __repr__(self) -> str:
        return f"<Sampler of {self._environments}>"

    async def __aenter__(self) -> "Sampler":
        self._hub.audience_listeners.append(self._audience_changed)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._hub.audience_listeners.remove(self._audience_changed)
        tasks = [*self._asking.values(), *filter(None, [self._running])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _audience_changed(self) -> None:
        if len(self._hub) and self._running is None:
            self._running = asyncio.create_task(self._sample())
        elif not len(self._hub) and self._running is not None:
            self._running.cancel()
            self._running = None

    async def _sample(self) -> None:
        while True:
            # a tab that gets none knows that its connection is dead
            self._hub.publish({"event": "beat"})
            for known in self._environments.known:
                if known.id not in self._asking:  # one that does not answer delays no other
                    asking = self._asking[known.id] = asyncio.create_task(self._publish(known))
                    asking.add_done_callback(lambda _, id=known.id: self._asking.pop(id))  # type: ignore[misc]
            await asyncio.sleep(SAMPLE_SECONDS)
            if any(known.environment is None for known in self._environments.known):
                self._environments.refresh()

    async def _publish(self, known: Watched) -> None:
        usage = await self._environments.usage(known)
        if usage is not None and known.environment is not None:
            numbers = {
                "time": time.time(),
                "cpu": usage.cpu,
                "memory": usage.memory,
                "processes": usage.processes,
            }
            self._hub.publish({"event": "stats", "environment": known.id, **numbers})
