"""One environment per task: opened on first use, prepared in pools, released when idle."""

import asyncio
import atexit
import contextlib
import os
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec

from hermetic.approvals.context import PolicyContext
from hermetic.contract.errors import (
    ConfigError,
    EnvironmentUnavailable,
    ExecutionError,
    InvalidArgument,
)
from hermetic.contract.fleet import FleetInfo, Mapped, Removed, TaskInfo
from hermetic.environments import catalog
from hermetic.fleet import mapping
from hermetic.fleet.garbage import collect
from hermetic.fleet.member import Member
from hermetic.fleet.opening import StartRequest, attach, is_living, open_environment, start_new
from hermetic.fleet.pool import Pool
from hermetic.registry.records import Records, id_for_task, runtime_root
from hermetic.session.environment import Environment
from hermetic.session.keeping import disk_bytes, record_of

IDLE = 300.0  # seconds
STARTS = 8
LEAVING_SECONDS = 5.0  # for ending pooled environments at exit


class Fleet:
    """One environment per task. Use it in `async with`, or close it; it belongs to one event loop.

    Its environments are those of `hermetic.open(kind, task=…)`: other programs find them, and they
    outlive the fleet.
    """

    def __init__(
        self,
        kind: str = "local",
        *,
        warm: int = 0,
        idle: float | None = IDLE,
        starts: int = STARTS,
        **options: Any,
    ) -> None:
        """`warm` are prepared in a pool, at most `starts` start at once, and one unused for `idle`
        seconds is released.

        Raises: ConfigError for an unknown kind or option.
        """
        _check_count("warm", warm, least=0)
        _check_count("starts", starts, least=1)
        if idle is not None and not (isinstance(idle, int | float) and idle > 0):
            raise InvalidArgument(
                f"idle must be seconds above zero, or None for never, not {idle!r}", argument="idle"
            )
        catalog.find(kind)(options)
        self._kind = kind
        self._options = options
        self._warm = warm
        self._idle = idle
        self._overrides: dict[str, dict[str, Any]] = {}
        # task of this fleet alone → the name of its environment on this host
        self._own: dict[str, str] = {}
        self._owns_all = False
        self._own_opened: set[str] = set()  # names among those
        self._tolerated: tuple[str, ...] = ()  # options in which a living environment may differ
        self._members: dict[str, Member] = {}
        self._pools: dict[bytes, Pool] = {}
        self._start_slots = asyncio.Semaphore(starts)
        self._starting = 0
        self._started: set[str] = set()  # residents, by id
        self._is_closed = False
        self._pid = os.getpid()
        atexit.register(self._leave)

    def __repr__(self) -> str:
        return f"<Fleet of {self._kind}: {len(self.tasks)} tasks{', closed' if self._is_closed else ''}>"

    @property
    def kind(self) -> str:
        """Kind of its environments."""
        return self._kind

    @property
    def tasks(self) -> list[str]:
        """Tasks that have an environment now."""
        return [task for task, member in self._members.items() if member.environment is not None]

    def override(self, task: str, **options: Any) -> None:
        """Sets further options for a task that has no environment yet. Raises ConfigError."""
        member = self._members.get(task)
        if member is not None and member.environment is not None:
            raise ConfigError(
                f"task {task!r} has an environment; end it first with close_task({task!r}, remove=True)",
                setting="task",
            )
        catalog.find(self._kind)({**self._options, **options})
        self._overrides[task] = options

    def clear_override(self, task: str) -> None:
        """Removes the options that `override` set for a task."""
        self._overrides.pop(task, None)

    async def warm(self, count: int, **options: Any) -> None:
        """Keeps `count` environments with these further options ready; returns when they are."""
        self._check_open()
        _check_count("count", count, least=0)
        pool = self._pool({**self._options, **options}, count)
        await pool.resize(count)
        if pool.problem:
            raise EnvironmentUnavailable(
                f"an environment that is started ahead does not come up: {pool.problem}"
            )

    async def get(self, task: str) -> Environment:
        """The task's environment, opened if necessary. Call it again instead of keeping the object.

        Raises: as `hermetic.open` does.
        """
        async with self.use(task) as environment:
            return environment

    def use(self, task: str) -> AbstractAsyncContextManager[Environment]:
        """The task's environment for a block, during which it is not closed."""
        return Borrow(self, task)

    async def map(
        self,
        function: mapping.Function,
        items: Iterable[Any],
        *,
        limit: int = mapping.LIMIT,
        retries: int = mapping.RETRIES,
        timeout: float | None = None,
        progress: mapping.Progress = False,
        task: Callable[[Any], str] | None = None,
    ) -> Mapped:
        """Calls `function(environment, item)` for each item, in an environment of its own that is
        ended afterwards.

        At most `limit` run at once. An environment that does not open, or is gone before the
        function sent a request to it, is replaced up to `retries` times; later errors, and a
        function that takes more than `timeout` seconds, are the item's result. `progress` is True
        for a bar on stderr, or is called with a MapProgress. `task` names the environment of an
        item, so that another program can attach to it.
        """
        _check_count("limit", limit, least=1)
        _check_count("retries", retries, least=0)
        batch, given = secrets.token_hex(4), list(items)
        names = None if task is None else mapping.named(task, given)

        def name(index: int) -> str:
            if names is not None:
                return names[index]
            unique = f"map-{batch}-{index}"
            self._own[unique] = unique
            return unique

        async def end(task: str) -> None:
            await self.close_task(task, remove=True)
            if self._own.get(task) == task:
                del self._own[task]
                self._own_opened.discard(task)

        work = mapping.Mapping(
            self.use,
            end,
            function,
            name,
            limit=limit,
            retries=retries,
            timeout=timeout,
            progress=progress,
        )
        return await work.run(given)

    async def close_task(self, task: str, *, remove: bool = False) -> bool:
        """Detaches from a task's environment; `remove=True` ends it. False if there is none."""
        member = self._members.get(task)
        if member is None:
            return False
        async with member.lock:
            was_there = member.environment is not None
            await member.close(remove=remove)
            self._forget(member)
        return was_there

    async def info(self) -> FleetInfo:
        """Tasks, pools and disk usage at this moment."""
        kept = [
            (task, member)
            for task, member in self._members.items()
            if member.environment is not None
        ]
        tasks = await asyncio.gather(*(_task_info(task, member) for task, member in kept))
        return FleetInfo(
            tasks=tuple(tasks),
            warm=sum(len(pool.ids) for pool in self._pools.values()),
            starting=self._starting,
            disk_bytes=sum(info.disk_bytes or 0 for info in tasks),
            problem=next((pool.problem for pool in self._pools.values() if pool.problem), ""),
        )

    async def gc(self) -> list[Removed]:
        """Removes what killed processes left of ended environments, and nothing else."""
        return await collect(Records(runtime_root()))

    async def close(self, *, remove: bool = False) -> int:
        """Detaches from all environments and ends those that wait for a task; returns the number of
        tasks.

        `remove=True` also ends those that this fleet started. It only detaches from those that
        lived before or that another process opened.
        """
        self._is_closed = True
        members, self._members = self._members, {}
        attached = {
            self._name(task) for task, member in members.items() if member.environment is not None
        }
        closings = [
            self._close_member(member, remove or task in self._own)
            for task, member in members.items()
        ]
        idle = [_end(name) for name in self._own_opened - attached]
        pools = [pool.close() for pool in self._pools.values()]
        ends = await asyncio.gather(*closings, *idle, *pools, return_exceptions=True)
        for end in ends:
            if isinstance(end, BaseException):
                raise end
        atexit.unregister(self._leave)
        return sum(map(bool, ends))

    async def __aenter__(self) -> "Fleet":
        if self._warm:
            self._begin()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _close_member(self, member: Member, remove: bool) -> bool:
        async with member.lock:
            environment = member.environment
            is_ours = environment is not None and record_of(environment).resident in self._started
            await member.close(remove=remove and is_ours)
        return environment is not None

    async def _open(self, task: str) -> Environment:
        name = self._name(task)
        if task in self._own:
            self._own_opened.add(name)

        async def start(ordered: StartRequest) -> Environment:
            if (pool := self._pools.get(_key(ordered.backend.options))) and (
                ready := await pool.take(name)
            ):
                ordered.janitor.done()
                return ready
            return await self._start(ordered)

        return await open_environment(
            self._kind, name, self._options_of(task), start=start, tolerated=self._tolerated
        )

    def _name(self, task: str) -> str:
        """The task of its environment as other programs find it."""
        if self._owns_all and task not in self._own:
            self._own[task] = _own_name(task)
        return self._own.get(task, task)

    def _options_of(self, task: str) -> dict[str, Any]:
        return {**self._options, **self._overrides.get(task, {})}

    async def _start(self, ordered: StartRequest) -> Environment:
        async with self._start_slots:
            self._starting += 1
            try:
                environment = await start_new(ordered)
            finally:
                self._starting -= 1
        self._started.add(record_of(environment).resident)
        return environment

    def _pool(self, options: Mapping[str, Any], size: int) -> Pool:
        key = _key(catalog.find(self._kind)(options).options)
        if key not in self._pools:
            self._pools[key] = Pool(
                size, lambda: open_environment(self._kind, None, options, start=self._start)
            )
        return self._pools[key]

    def _lend(self, task: str) -> Member:
        """The task's member, with one user more.

        Raises EnvironmentUnavailable when the fleet was closed.
        """
        self._check_open()
        if self._warm:
            self._begin()
        if task not in self._members:
            self._members[task] = Member(self._idle, self._forget)
        member = self._members[task]
        member.users += 1
        return member

    async def _make_usable(self, task: str, member: Member) -> None:
        """Opens the task's environment if it is not open, after a concurrent open or close."""
        async with member.lock:
            self._check_open()
            if not member.is_usable:
                await member.close(remove=False)
                member.keep(await self._open(task))

    def _release(self, member: Member) -> None:
        """One user less."""
        member.users -= 1
        member.touch()
        if member.environment is None:
            self._forget(member)

    def _forget(self, member: Member) -> None:
        """Drops a member without an environment and without users."""
        if member.environment is None and not member.users:
            for task in [task for task, one in self._members.items() if one is member]:
                del self._members[task]

    def _begin(self) -> None:
        """Fills the pool, now that an event loop runs."""
        warm, self._warm = self._warm, 0
        self._pool(self._options, warm).fill()

    def _check_open(self) -> None:
        if self._is_closed:
            raise EnvironmentUnavailable("the fleet was closed; make another one")

    def _leave(self) -> None:
        """At exit: ends pooled environments and the fleet's own tasks."""
        ids = [*self._own_opened, *(id for pool in self._pools.values() for id in pool.ids)]
        if os.getpid() == self._pid and ids:
            with contextlib.suppress(Exception):
                asyncio.run(_end_all(ids))


class Borrow(AbstractAsyncContextManager[Environment]):
    """A block in which a task's environment is not released; `meet` is called with it before the
    block begins.
    """

    def __init__(
        self, fleet: Fleet, task: str, meet: Callable[[Environment], Awaitable[None]] | None = None
    ) -> None:
        self._fleet = fleet
        self._task = task
        self._meet = meet

    def __repr__(self) -> str:
        return f"<Borrow of task {self._task!r}: use `async with`>"

    async def __aenter__(self) -> Environment:
        self._member = member = self._fleet._lend(self._task)
        try:
            if member.lock.locked() or not member.is_usable:
                await self._fleet._make_usable(self._task, member)
            environment = member.environment
            assert environment is not None, "it is usable"
            if self._meet is not None:
                await self._meet(environment)
        except BaseException:
            self._fleet._release(member)
            raise
        return environment

    async def __aexit__(self, *_: object) -> None:
        self._fleet._release(self._member)

    async def unopened(self) -> PolicyContext | None:
        """The policy context of an environment that is not started yet; None if it lives.

        Raises Unreachable if that is not known.
        """
        fleet = self._fleet
        member = fleet._members.get(self._task)
        if (member is not None and member.environment is not None) or await is_living(
            fleet._name(self._task)
        ):
            return None
        backend = catalog.find(fleet.kind)(fleet._options_of(self._task))
        return PolicyContext(backend.kind, backend.isolation, backend.options)


def serve_tools(fleet: Fleet, own: str, *, owns_all: bool = False) -> None:
    """Prepares a fleet for a toolbox: the task `own` is the fleet's alone, and ends when the fleet
    is closed.

    With `owns_all` every task is. A living task of another directory is attached to; without this
    call `Fleet.get` refuses it.
    """
    fleet._own[own] = _own_name(own)
    fleet._owns_all = owns_all
    fleet._tolerated = ("cwd",)


def _own_name(task: str) -> str:
    return f"{task}-{secrets.token_hex(6)}"


def directory_elsewhere(
    fleet: Fleet, task: str, environment: Environment
) -> tuple[str, str] | None:
    """Directory of a task that another program started, and the one this fleet would use; None if
    they are the same.
    """
    record = record_of(environment)
    if record.resident in fleet._started:
        return None
    asked = catalog.find(fleet.kind)(fleet._options_of(task)).options
    held, wanted = (
        str(options.get("cwd") or options.get("workspace")) for options in (record.options, asked)
    )
    return None if held == wanted else (held, wanted)


def ids_of(fleet: Fleet, task: str) -> tuple[str, ...]:
    """The id of the task's environment: the one that it would get, and that of an open one that was
    made ahead.
    """
    member = fleet._members.get(task)
    name = id_for_task(fleet._name(task))
    return (
        (name,) if member is None or member.environment is None else (name, member.environment.id)
    )


def is_lost(fleet: Fleet, task: str) -> bool:
    """Whether the environment of a task's last call is gone, and no new one was opened yet."""
    member = fleet._members.get(task)
    return member is not None and member.environment is not None and not member.is_usable


async def _end(task_or_id: str) -> bool:
    """Ends an environment that this process does not hold; False when it is gone."""
    with contextlib.suppress(ExecutionError):
        await (await attach(task_or_id)).close(remove=True)
        return True
    return False


async def _end_all(ids: list[str]) -> None:
    async with asyncio.timeout(LEAVING_SECONDS):
        await asyncio.gather(*map(_end, ids))


async def _task_info(task: str, member: Member) -> TaskInfo:
    environment = member.environment
    assert environment is not None, "it has one"
    processes = disk = None
    with contextlib.suppress(EnvironmentUnavailable):
        info = await environment.info()
        processes, disk = info.processes, await disk_bytes(environment, info.spool_bytes)
    return TaskInfo(
        task=task,
        id=environment.id,
        kind=environment.kind,
        cwd=record_of(environment).options.get("cwd"),
        users=member.users,
        processes=processes,
        disk_bytes=disk,
    )


def _key(options: Mapping[str, Any]) -> bytes:
    """The same for the same options."""
    return msgspec.json.encode(sorted(options.items()))


def _check_count(name: str, value: int, *, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InvalidArgument(
            f"{name} must be a whole number of at least {least}, not {value!r}", argument=name
        )
