"""Recordings that the server makes, and those that this user keeps."""

import asyncio
import contextlib
import logging
import os
from typing import Literal, Self

import msgspec

from hermetic.contract.errors import ConfigError, ExecutionError
from hermetic.contract.process import ProcessInfo
from hermetic.recordings.recorder import Recorder
from hermetic.recordings.store import Recording, Store
from hermetic.redaction.known_secrets import secrets_of
from hermetic.redaction.redactor import Redactor
from hermetic.serve.environments import Environments
from hermetic.serve.events import Event, Hub
from hermetic.serve.refusals import Refused

MOST_RUNNING = 50

Wanted = Literal["none", "terminals", "all"]

_log = logging.getLogger("hermetic.serve")


class Recordings:
    """Starts and ends recordings. They end with their process, on request, or with the server."""

    def __init__(self, environments: Environments, hub: Hub) -> None:
        self.automatic: Wanted = "none"  # processes that are recorded without a request
        self._environments = environments
        self._hub = hub
        # id → environment, process
        self._running: dict[str, tuple[tuple[str, str], asyncio.Task[None]]] = {}
        self._starting: set[asyncio.Task[None]] = set()
        self._redact = Redactor(secrets_of(os.environ)).redact
        environments.annotations.append(self._annotate)

    def __repr__(self) -> str:
        return f"<Recordings: {len(self._running)} running>"

    async def __aenter__(self) -> Self:
        if self.automatic != "none":
            self._hub.subscribe(self._take, answers=False, watches=False)
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*self._starting)
        await asyncio.gather(*(self.end(id) for id in list(self._running)))

    @property
    def store(self) -> Store:
        """The kept recordings. Raises ConfigError without a home."""
        return Store.of_user(os.environ)

    async def all(self) -> list[Recording]:
        """The newest first."""
        found = await asyncio.to_thread(self.store.all)
        return [msgspec.structs.replace(one, is_running=one.id in self._running) for one in found]

    async def start(self, environment: str, process: str) -> str:
        """Starts a recording of a process; its id, or that of the one which runs already.

        Raises Refused.
        """
        for id, (what, _) in self._running.items():
            if what == (environment, process):
                return id
        if len(self._running) >= MOST_RUNNING:
            raise Refused(
                429, "too_many", f"{MOST_RUNNING} recordings run already.", "End one of them."
            )
        attached = await self._environments.attached(environment)
        await attached.process(process)  # raises UnknownProcess
        id, file = self.store.create()

        async def record() -> None:
            with file, contextlib.suppress(ExecutionError):  # its environment is gone
                await Recorder(attached, file, self._redact).process(process)

        task = asyncio.create_task(record())
        self._running[id] = (environment, process), task
        task.add_done_callback(lambda _: self._running.pop(id, None))
        return id

    async def end(self, id: str) -> None:
        """Ends a recording that runs; what was recorded is kept."""
        if id in self._running:
            _, task = self._running[id]
            task.cancel()
            await asyncio.wait([task])

    def _annotate(self, environment: str, info: ProcessInfo) -> dict[str, object]:
        found = next(
            (id for id, (what, _) in self._running.items() if what == (environment, info.id)), None
        )
        return {"recording": found}

    def _take(self, event: Event) -> None:
        """Records what has started, if that is wanted."""
        process = event.get("process")
        if (
            event["event"] != "process"
            or event["change"] != "started"
            or not isinstance(process, ProcessInfo)
        ):
            return
        if self.automatic == "all" or process.pty:
            task = asyncio.create_task(self._start_quietly(str(event["environment"]), process.id))
            self._starting.add(task)
            task.add_done_callback(self._starting.discard)

    async def _start_quietly(self, environment: str, process: str) -> None:
        try:
            await self.start(environment, process)
        except (ExecutionError, Refused, ConfigError, OSError) as error:
            _log.warning("process %s is not recorded: %s", process, error)
