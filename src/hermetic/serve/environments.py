"""The environments of this user: attached to as they appear, watched until they are gone.

Every living environment has one link that only observes: it prolongs no lease. Starts and ends of
processes come over it as events. Records that come and go are reported by the kernel; each list
request looks as well.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from hermetic.contract.environment import EnvironmentInfo, EnvironmentRecord
from hermetic.contract.errors import EnvironmentUnavailable, ExecutionError, Unreachable
from hermetic.contract.process import ProcessInfo
from hermetic.fleet.opening import attach_environment
from hermetic.link import answers
from hermetic.registry import holds
from hermetic.registry.directory_watch import DirectoryWatch
from hermetic.registry.records import RECORD, Records
from hermetic.serve.events import Hub, control_event
from hermetic.serve.refusals import Refused
from hermetic.serve.views import (
    EnvironmentView,
    ProcessView,
    environment_fields,
    is_ours,
    process_view,
)
from hermetic.serve.workspace import Snapshot, is_repository, root_of, take_snapshot
from hermetic.session.environment import Environment
from hermetic.session.keeping import detach
from hermetic.session.process import Process
from hermetic.session.usage import usage_of

# between a change of the records and the look at them: a record comes in several steps
SETTLE_SECONDS = 0.05
ATTACH_SECONDS = 2.0  # that a list waits for environments that do not answer
ANSWER_SECONDS = 3.0  # that a list waits for the answer of an attached one
STALLED_SECONDS = 0.3  # that it waits for one that did not answer before
FIRST_RETRY_SECONDS = 0.5  # before a failed attempt to attach is repeated; doubled each time
RETRY_SECONDS = 10.0  # longest pause between two attempts
# age up to which the workspace of an environment is taken for that of its opening
YOUNG_SECONDS = 60.0
SNAPSHOT_SECONDS = 20.0

_log = logging.getLogger("hermetic.serve")

Annotate = Callable[[str, ProcessInfo], Mapping[str, object]]
Guarding = Callable[[Environment], object]
Answer = TypeVar("Answer")


class Watched:
    """One recorded environment: attached, or with the reason why it is not."""

    def __init__(self, record: EnvironmentRecord) -> None:
        self.record = record
        self.environment: Environment | None = None
        self.state = "connecting"
        self.problem = ""
        self.retry = 0.0  # when attaching may be tried again, by the monotonic clock
        self.pause = FIRST_RETRY_SECONDS  # after the next attempt that fails
        self.task: asyncio.Task[None] | None = None  # attaches, then reads events
        self.snapshot: Snapshot | None = None  # of its workspace, where that is no git repository
        self.is_held = holds.held(record.id) is not None  # new calls of its agent wait

    def __repr__(self) -> str:
        return f"<Watched {self.record.id}: {self.state}>"

    @property
    def id(self) -> str:
        """Id of the environment."""
        return self.record.id

    @property
    def is_settled(self) -> bool:
        """False while the first attempt to attach lasts."""
        return self.state != "connecting"

    @property
    def patience(self) -> float:
        """Seconds that a list waits for its answer."""
        return ANSWER_SECONDS if self.state == "alive" else STALLED_SECONDS

    def attached(self) -> Environment:
        """The environment. Raises Unreachable where it cannot be used now."""
        if self.environment is None:
            raise self.unreachable()
        return self.environment

    def unreachable(self) -> Unreachable:
        """The error of a request that it does not answer."""
        problem = self.problem or f"environment {self.record.task or self.id} does not answer yet"
        return Unreachable(problem, environment=self.id, state="stalled")


class Found(NamedTuple):
    """A process and its environment."""

    known: Watched
    info: ProcessInfo


class Environments:
    """Every environment of this user on this host. Use it in `async with`."""

    def __init__(
        self, records: Records, hub: Hub, guard: Guarding = lambda environment: None
    ) -> None:
        """`guard` is called with every environment that was attached to; it may put rules before
        it.
        """
        self._guard = guard
        self.records = records
        self.hub = hub
        # what others know of a process: its driver, its recording
        self.annotations: list[Annotate] = []
        self.when_attached: Callable[[Environment], Awaitable[object]] | None = None
        self._known: dict[str, Watched] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._look_later: asyncio.TimerHandle | None = None
        self._settled = asyncio.Event()
        self._watch: DirectoryWatch | None = None
        self._are_all_held = False

    def __repr__(self) -> str:
        return f"<Environments of {self.records}: {len(self._known)}>"

    async def __aenter__(self) -> "Environments":
        self._watch = DirectoryWatch(self._records_changed, _is_of_records)
        self.refresh()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._look_later is not None:
            self._look_later.cancel()
        if self._watch is not None:
            self._watch.close()
            self._watch = None
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(
            *(detach(known.environment) for known in self._known.values() if known.environment)
        )
        self._known.clear()

    def refresh(self) -> None:
        """Looks at the records: attaches to new ones in the background, forgets those that are
        gone.
        """
        records = {record.id: record for record in self.records.all()}
        for id, known in list(self._known.items()):
            if id not in records or records[id].resident != known.record.resident:
                self._forget(known)
        for id, record in records.items():
            if id not in self._known:
                self._known[id] = Watched(record)
                self._attach_soon(self._known[id])
                continue
            known = self._known[id]
            if known.record.task != record.task:  # made ahead, and given to a task since
                known.record = record
                self._publish_change(known, "changed")
            elif (
                known.environment is None and known.task is None and time.monotonic() >= known.retry
            ):
                self._attach_soon(known)
        if self._watch is not None:
            self._watch.watch(
                self.records.root,
                self.records.root / holds.DIRECTORY,
                *(self.records.root / id for id in records),
                *self._half_made(records),
            )
        self._look_at_holds()

    @property
    def are_all_held(self) -> bool:
        """True while new calls of every agent wait, also in environments to come."""
        return self._are_all_held

    @property
    def known(self) -> list[Watched]:
        """Every environment that was found by the last look at the records."""
        return list(self._known.values())

    async def all(self) -> list[Watched]:
        """Every recorded environment, oldest first; new ones are attached to, or have a problem."""
        self.refresh()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ATTACH_SECONDS):
                while not all(known.is_settled for known in self._known.values()):
                    self._settled.clear()
                    await self._settled.wait()
        return sorted(self._known.values(), key=lambda known: known.record.created)

    async def get(self, id: str) -> Watched:
        """The environment with this id. Raises Refused."""
        known = self._known.get(id)
        if known is None or not known.is_settled:
            await self.all()
            known = self._known.get(id)
        if known is None:
            raise Refused(
                404,
                "unknown_environment",
                f"No environment {id} is known here.",
                "It has probably ended: list them again.",
            )
        return known

    async def attached(self, id: str) -> Environment:
        """The open environment with this id. Raises Refused, Unreachable."""
        return (await self.get(id)).attached()

    async def processes(self, known: Watched) -> list[ProcessInfo]:
        """What runs and ran there, oldest first. Raises Unreachable where it does not answer."""
        try:
            found = await self._ask(known, known.attached().processes(), known.patience)
        except Unreachable:
            raise
        except EnvironmentUnavailable:  # gone; its events end too
            return []
        return [info for info in found if not is_ours(info)]

    async def everything(self, id: str | None = None) -> tuple[list[Found], tuple[str, ...]]:
        """Every process that is running or kept, oldest first in each environment, and ids of what
        does not answer.

        Raises Refused where there is no environment `id`; None asks all of them at once.
        """
        chosen = await self.all() if id is None else [await self.get(id)]
        listed = await asyncio.gather(*map(self.processes, chosen), return_exceptions=True)
        found: list[Found] = []
        unanswered: list[str] = []
        for known, infos in zip(chosen, listed, strict=True):
            if isinstance(infos, Unreachable):
                unanswered.append(known.id)
            elif isinstance(infos, BaseException):
                raise infos
            else:
                found += [Found(known, info) for info in infos]
        return found, tuple(unanswered)

    def view_process(self, known: Watched, info: ProcessInfo, **more: object) -> ProcessView:
        """A process with what everything in this server knows of it."""
        fields: dict[str, object] = {}
        for annotate in self.annotations:
            fields.update(annotate(known.id, info))
        return process_view(info, **{**fields, **more})

    def end_after(self, process: Process, seconds: float) -> None:
        """Ends a process tree after so many seconds, as long as this server runs."""

        async def end() -> None:
            with contextlib.suppress(ExecutionError):
                try:
                    await process.wait(timeout=seconds)
                except TimeoutError:
                    await process.kill()

        self._spawn(end())

    async def views(self) -> list[EnvironmentView]:
        """Every environment as the API shows it, queried concurrently."""
        return list(await asyncio.gather(*(self.view(known) for known in await self.all())))

    async def view(self, known: Watched) -> EnvironmentView:
        """One environment as the API shows it."""
        return EnvironmentView(**await self.describe(known))

    async def describe(self, known: Watched) -> dict[str, Any]:
        """The fields of its view."""
        fields = environment_fields(known.record)
        info = await self.info(known)
        fields |= {
            "state": known.state,
            "problem": known.problem,
            "held": known.is_held,
        }
        if info is None or known.environment is None:
            return fields
        usage = await self.usage(known)
        used = {} if usage is None else {"cpu_seconds": usage.cpu, "memory_bytes": usage.memory}
        return {
            **fields,
            **used,
            "uptime": info.uptime,
            "rss": info.rss,
            "clients": info.clients,
            "processes": info.processes,
            "sessions": info.sessions,
            "lease": info.lease,
            "notes": (*known.record.notes, *info.weak),
            "isolation": known.environment.isolation,
        }

    async def info(self, known: Watched) -> EnvironmentInfo | None:
        """What its resident reports; None where it does not answer, which its state then says."""
        if known.environment is not None:
            with contextlib.suppress(EnvironmentUnavailable):  # gone; its events end too
                return await self._ask(known, known.environment.info(), known.patience)
        return None

    async def usage(self, known: Watched) -> answers.Usage | None:
        """CPU time and memory of everything in it; None where it does not answer, or its resident
        is older.
        """
        if known.environment is not None:
            with contextlib.suppress(Unreachable):
                return await self._ask(known, usage_of(known.environment), ANSWER_SECONDS)
        return None

    async def _ask(self, known: Watched, answer: Awaitable[Answer], seconds: float) -> Answer:
        """The answer of an attached environment, whose state it shows.

        Raises EnvironmentUnavailable, and Unreachable where it does not answer.
        """
        try:
            async with asyncio.timeout(seconds):
                found = await answer
        except TimeoutError:
            self._mark(
                known,
                "stalled",
                "its resident does not answer: wait, or end it: "
                f"hermetic rm {known.record.task or known.id}",
            )
            raise known.unreachable() from None
        except Unreachable as error:
            self._mark(known, error.state, str(error))
            raise
        self._mark(known, "alive")
        return found

    def _mark(self, known: Watched, state: str, problem: str = "") -> None:
        """Notes whether an attached environment answers; a change is published, so that lists are
        read again.
        """
        before, known.state, known.problem = known.state, state, problem
        if state != before and self._known.get(known.id) is known:
            self._publish_change(known, "changed")

    # -- attaching
    def _attach_soon(self, known: Watched) -> None:
        known.task = self._spawn(self._follow(known))

    def _spawn(self, work: Awaitable[None]) -> asyncio.Task[None]:
        async def run() -> None:
            await work

        task = asyncio.get_running_loop().create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _follow(self, known: Watched) -> None:
        """Attaches, then passes events on until the environment is gone."""
        try:
            environment = await attach_environment(known.id, patience=0, observes=True)
            self._guard(environment)
            known.environment = environment
            await self._pass_events(known, environment)
        except ExecutionError as error:
            known.retry, known.pause = (
                time.monotonic() + known.pause,
                min(2 * known.pause, RETRY_SECONDS),
            )
            state = error.state if isinstance(error, Unreachable) else "gone"
            before, known.state, known.problem = known.state, state, str(error)
            if state != before:
                self._publish_change(known, "appeared")
        finally:
            known.task = None
            self._settled.set()

    def _attached(self, known: Watched, environment: Environment) -> None:
        """Shows an environment whose events are followed: nothing that it does is missed from here
        on.
        """
        known.state, known.problem = "alive", ""
        self._settled.set()
        self._publish_change(known, "appeared")
        if time.time() - known.record.created < YOUNG_SECONDS:
            self._spawn(self._snapshot(known, environment))
        if self.when_attached is not None:
            self._spawn(self._report_attached(self.when_attached(environment)))

    async def _report_attached(self, report: Awaitable[object]) -> None:
        with contextlib.suppress(ExecutionError):  # it is gone already
            await report

    async def _snapshot(self, known: Watched, environment: Environment) -> None:
        """Keeps the state of a new environment's workspace, so that changes can be shown later."""
        with contextlib.suppress(ExecutionError, TimeoutError):
            async with asyncio.timeout(SNAPSHOT_SECONDS):
                await self.snapshot(known, environment, await root_of(environment))

    async def snapshot(
        self, known: Watched, environment: Environment, root: str
    ) -> Snapshot | None:
        """The first snapshot of a workspace, taken now if there is none.

        None in a git repository.
        """
        if known.snapshot is None and not await is_repository(environment, root):
            known.snapshot = await take_snapshot(environment, root, time.time())
        return known.snapshot

    async def _pass_events(self, known: Watched, environment: Environment) -> None:
        try:
            async with environment.events(control=True) as events:
                self._attached(known, environment)
                async for event in events:
                    if event.process is None:
                        self.hub.publish({"event": "missed"})
                    elif event.event not in ("started", "ended"):
                        self.hub.publish(control_event(known.id, event.process))
                    elif not is_ours(event.process):
                        process = self.view_process(known, event.process)
                        change = {
                            "change": event.event,
                            "environment": known.id,
                            "process": process,
                        }
                        self.hub.publish({"event": "process", **change})
        except EnvironmentUnavailable as error:
            _log.info("environment %s is gone: %s", known.id, type(error).__name__)
        if self._known.get(known.id) is known:
            self._forget(known)
            self._records_changed()

    def _forget(self, known: Watched) -> None:
        del self._known[known.id]
        known.state = "gone"
        self._settled.set()
        if known.task is not None and known.task is not asyncio.current_task():
            known.task.cancel()
        if known.environment is not None:
            self._spawn(detach(known.environment))
            known.environment = None
        view = EnvironmentView(**environment_fields(known.record), state="gone")
        self.hub.publish({"event": "environment", "change": "gone", "environment": view})

    def _look_at_holds(self) -> None:
        """Reports agents that were stopped or released, here or by another program."""
        are_all_held = holds.held() is not None
        if are_all_held != self._are_all_held:
            self._are_all_held = are_all_held
            self.hub.publish({"event": "held", "all": are_all_held})
        for known in self._known.values():
            is_held = holds.held(known.id) is not None
            if is_held != known.is_held:
                known.is_held = is_held
                self._publish_change(known, "changed")

    def _publish_change(self, known: Watched, change: str) -> None:
        async def publish() -> None:
            view = await self.view(known)
            self.hub.publish({"event": "environment", "change": change, "environment": view})

        if len(self.hub):
            self._spawn(publish())

    # -- looking
    def _records_changed(self) -> None:
        if self._look_later is None and self._watch is not None:
            self._look_later = asyncio.get_running_loop().call_later(SETTLE_SECONDS, self._look)

    def _look(self) -> None:
        self._look_later = None
        self.refresh()

    def _half_made(self, records: Mapping[str, EnvironmentRecord]) -> Iterable[Any]:
        """Directories whose record has not been written yet."""
        return [
            path
            for path in self.records.root.glob("[te]-*")
            if path.name not in records and path.is_dir()
        ]


def _is_of_records(name: str) -> bool:
    """Whether a record or a hold may have come or gone with this entry; "" stands for any."""
    return name in ("", RECORD, holds.DIRECTORY) or holds.is_name(name)
