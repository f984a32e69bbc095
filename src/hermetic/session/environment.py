"""A place where commands run, as its caller holds it."""

import contextlib
import socket
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from hermetic.contract.endings import Ending
from hermetic.contract.environment import Backend, EnvironmentInfo, EnvironmentRecord, Isolation
from hermetic.contract.errors import EnvironmentUnavailable
from hermetic.contract.process import Chunk, ProcessInfo
from hermetic.link import answers
from hermetic.link.link import Link
from hermetic.registry.janitor_process import remove_tree
from hermetic.registry.records import DamagedRecord, Records
from hermetic.resident.lazy import Lazy
from hermetic.session.arguments import check_id
from hermetic.session.events import EventStream
from hermetic.session.output import follow_log, read_log
from hermetic.session.session import Session

if TYPE_CHECKING:
    from hermetic.session.mirror import mirror
else:
    # archives take longer to import than an environment to open
    mirror = Lazy("hermetic.session.mirror.mirror")


class Environment(Session):
    """An open environment. Its own `run`, `start` and file methods use its default session."""

    def __init__(
        self,
        backend: Backend,
        record: EnvironmentRecord,
        link: Link,
        records: Records,
        *,
        ends_on_close: bool,
        held: socket.socket | None = None,
    ) -> None:
        self._mirror = mirror.Mirror(link, record, records) if _is_mirrored(record) else None
        super().__init__(link, "", None if self._mirror is None else self._mirror.send)
        self._backend = backend
        self._record = record
        self._records = records
        self._ends_on_close = ends_on_close
        self._is_closed = False
        self._held = held  # open as long as we use it: this host's janitor waits for its end

    def __repr__(self) -> str:
        task = f" for task {self.task!r}" if self.task else ""
        return f"<Environment {self.id}: {self.kind}{task}{', closed' if self._is_closed else ''}>"

    @property
    def id(self) -> str:
        """Id on this host."""
        return self._record.id

    @property
    def kind(self) -> str:
        """Kind of environment, such as "local" or "docker"."""
        return self._record.kind

    @property
    def task(self) -> str | None:
        """Task it was opened for, or None."""
        return self._record.task

    @cached_property
    def isolation(self) -> Isolation:
        """What isolates its commands from the caller's machine."""
        isolation = self._backend.isolation
        return msgspec.structs.replace(isolation, notes=(*isolation.notes, *self._record.notes))

    def session(self, name: str) -> Session:
        """Another session of this environment; it starts with its first command."""
        return Session(self._link, check_id(name, "name"), self._before, self._guard, self._editing)

    async def processes(self) -> list[ProcessInfo]:
        """Running processes, and ended ones while their log is kept."""
        _, body = await self._link.ask("list", answers.listed)
        return self._link.decode(answers.processes, body)

    async def read_log(
        self, id: str, offset: int = 0, *, limit: int | None = None, wait: float | None = None
    ) -> Chunk:
        """Output of the log `id` from `offset` on; "ID/err" is a separate stderr.

        Raises UnknownProcess.
        """
        return await read_log(self._link, id, offset, limit, wait)

    async def follow_log(
        self, id: str, on_output: Callable[[bytes], object], *, offset: int = 0
    ) -> Ending:
        """Passes the log from `offset` on as it grows, and returns how its process ended. Raises
        UnknownProcess.

        No byte is dropped: a program that prints faster than `on_output` reads is paused.
        """
        return await follow_log(self._link, id, offset, on_output)

    async def info(self) -> EnvironmentInfo:
        """The environment and its resident at this moment."""
        said, _ = await self._link.ask("info", answers.info)
        weak = (*said.weak, *self._record.notes)
        return msgspec.structs.replace(said, id=self.id, kind=self.kind, task=self.task, weak=weak)

    def events(self, *, control: bool = False) -> EventStream:
        """Starts and ends of processes from now on, as an async iterator.

        With `control` also changes of who drives a process, and of the size of its terminal.
        """
        return EventStream(self._link, control=control)

    async def close(self, *, remove: bool = False) -> None:
        """Detaches. An environment without a task ends; `remove=True` ends any.

        The sessions of an environment that lives on stay; `reset` ends the shells of one.
        """
        if self._is_closed:
            return
        self._link.check_loop()
        self._is_closed = True
        try:
            try:
                if self._mirror is not None:
                    await self._mirror.take_back()
            finally:
                if remove or self._ends_on_close:
                    await self._end()
        finally:
            await self._link.close()
            if self._held is not None:
                self._held.close()

    async def __aenter__(self) -> "Environment":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _end(self) -> None:
        """Returns when nothing is left of it."""
        async with self._records.lock(self.id):
            await end(self._backend, self._record, self._link, self._records)


def _is_mirrored(record: EnvironmentRecord) -> bool:
    """True where files have to be sent: the environment is another machine."""
    options = record.options
    return "sync" in options and bool(options["sync"] or options.get("profile"))


async def end(backend: Backend, record: EnvironmentRecord, link: Link, records: Records) -> None:
    """Ends an environment: all that runs in it, its resident, its place and its record."""
    with contextlib.suppress(EnvironmentUnavailable):  # gone already
        link.is_ending = True
        await link.ask("shutdown", answers.done)
        await link.wait_closed()
    await backend.remove(record)
    forget(record, records)


def forget(record: EnvironmentRecord, records: Records) -> None:
    """Takes away what the host remembers of an environment whose resident is gone."""
    try:
        current = records.read(record.id)
        is_its_own = current is None or current.resident == record.resident
    except DamagedRecord:
        is_its_own = True
    if is_its_own:
        records.discard(record.id)
    if record.spool is not None:
        remove_tree(record.spool)
