"""One running console: everything that its requests share."""

from contextlib import AsyncExitStack

from hermetic.registry.records import Records
from hermetic.serve.access import Access
from hermetic.serve.approvals import Approvals
from hermetic.serve.environments import Environments, Guarding
from hermetic.serve.events import Hub
from hermetic.serve.metrics import Metrics
from hermetic.serve.peers import Peers
from hermetic.serve.recordings import Recordings
from hermetic.serve.running import announced
from hermetic.serve.sampling import Sampler
from hermetic.serve.terminals import TerminalLimits, Terminals


class Console:
    """The parts of one server. `async with` starts them and ends them in reverse order."""

    def __init__(
        self,
        access: Access,
        records: Records,
        guard: Guarding,
        limits: TerminalLimits | None = None,
    ) -> None:
        self.access = access
        self.hub = Hub()
        self.environments = Environments(records, self.hub, guard)
        self.sampler = Sampler(self.environments, self.hub)
        self.approvals = Approvals(self.hub)
        self.terminals = Terminals(self.environments.attached, limits)
        self.environments.when_attached = self.terminals.discover
        self.recordings = Recordings(self.environments, self.hub)
        self.metrics = Metrics()
        self.peers = Peers()
        self._running = AsyncExitStack()

    def __repr__(self) -> str:
        return f"<Console at {self.access.url}: {self.environments!r}>"

    async def __aenter__(self) -> "Console":
        await self._running.enter_async_context(self.environments)
        await self._running.enter_async_context(self.sampler)
        await self._running.enter_async_context(self.approvals)
        self._running.push_async_callback(self.terminals.close)
        await self._running.enter_async_context(self.recordings)
        self._running.enter_context(announced(self.access.url))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._running.aclose()
