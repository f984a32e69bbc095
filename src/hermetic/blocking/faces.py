"""Blocking environments, sessions, processes and fleets: each method waits for its async
counterpart.
"""

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ParamSpec

import msgspec

from hermetic.blocking.face import Closing, Face, Stream, close, does, gives, made_like, waits
from hermetic.blocking.portal import Portal, in_portal
from hermetic.contract.command import Result
from hermetic.contract.environment import Isolation
from hermetic.contract.fleet import Mapped
from hermetic.contract.process import ProcessEvent, ProcessInfo
from hermetic.fleet import fleet as fleets
from hermetic.fleet import mapping, opening
from hermetic.session import environment as environments
from hermetic.session import process as processes
from hermetic.session import session as sessions

P = ParamSpec("P")


class Process(Face[processes.Process]):
    """A process in an environment. It runs on after this object is gone."""

    @property
    def id(self) -> str:
        """Its id in its environment, which is also the id of its log."""
        return self._held.id

    @property
    def pid(self) -> int | None:
        """Its process id inside its environment."""
        return self._held.pid

    @property
    def info(self) -> ProcessInfo:
        """Its description as of the last answer."""
        return self._held.info

    status = waits(processes.Process.status)
    read = waits(processes.Process.read)
    write = waits(processes.Process.write)
    submit = waits(processes.Process.submit)
    write_secret = waits(processes.Process.write_secret)
    keys = waits(processes.Process.keys)
    close_input = waits(processes.Process.close_input)
    shown = waits(processes.Process.shown)
    set_tag = waits(processes.Process.set_tag)
    swap_tag = waits(processes.Process.swap_tag)
    claim = waits(processes.Process.claim)
    resize = waits(processes.Process.resize)
    inputs = waits(processes.Process.inputs)
    signal = waits(processes.Process.signal)
    kill = waits(processes.Process.kill)
    wait = waits(processes.Process.wait)
    wait_for = waits(processes.Process.wait_for)
    screen = waits(processes.Process.screen)


def _with_process(portal: Portal, result: Result) -> Result:
    """The result with a blocking process in it."""
    return (
        result
        if result.process is None
        else msgspec.structs.replace(result, process=Process(portal, result.process))
    )


class Session(Face[sessions.Session]):
    """A shell that keeps its state from command to command.

    `on_output` is called on the portal's thread.
    """

    @property
    def name(self) -> str:
        """Its name; "" is the environment's default session."""
        return self._held.name

    run = gives(sessions.Session.run, _with_process)
    start = gives(sessions.Session.start, Process)
    process = gives(sessions.Session.process, Process)
    state = waits(sessions.Session.state)
    reset = waits(sessions.Session.reset)
    close = waits(sessions.Session.close)
    read_file = waits(sessions.Session.read_file)
    read_bytes = waits(sessions.Session.read_bytes)
    read_content = waits(sessions.Session.read_content)
    read_lines = waits(sessions.Session.read_lines)
    list_names = waits(sessions.Session.list_names)
    search_files = waits(sessions.Session.search_files)
    file_status = waits(sessions.Session.file_status)
    write_file = waits(sessions.Session.write_file)
    delete_file = waits(sessions.Session.delete_file)
    move_file = waits(sessions.Session.move_file)
    patch = waits(sessions.Session.patch)
    upload = waits(sessions.Session.upload)
    download = waits(sessions.Session.download)


class EventStream(Stream[ProcessEvent]):
    """Events from the moment it was opened; iterate over it, then `close` it, or use `with`."""


class Environment(Session, Closing):
    """Where commands run; its own `run`, `start` and files are those of its default session."""

    _held: environments.Environment

    @property
    def id(self) -> str:
        """Its id on this host."""
        return self._held.id

    @property
    def kind(self) -> str:
        """The kind it was opened as."""
        return self._held.kind

    @property
    def task(self) -> str | None:
        """The task it was opened for."""
        return self._held.task

    @property
    def isolation(self) -> Isolation:
        """The separation between a command here and the caller's machine."""
        return self._held.isolation

    def session(self, name: str) -> Session:
        """Another shell in the same environment."""
        return Session(self._portal, self._held.session(name))

    processes = waits(environments.Environment.processes)
    read_log = waits(environments.Environment.read_log)
    follow_log = waits(environments.Environment.follow_log)
    info = waits(environments.Environment.info)

    def events(self, *, control: bool = False) -> EventStream:
        """Starts and ends of processes, from now on, as an iterator; with `control` also changes of
        who drives one.
        """
        return EventStream(self._portal, self._portal.do(self._held.events, control=control))

    def close(self, *, remove: bool = False) -> None:
        """Releases the environment, and ends it where it has no task or `remove` is True."""
        close(self, remove=remove)


def _opened(function: Callable[P, opening.Opening]) -> Callable[P, Environment]:
    """The blocking counterpart of `open` or `attach`, with a portal of its own."""

    @functools.wraps(function)
    def wait(*args: P.args, **options: P.kwargs) -> Environment:
        async def ready() -> environments.Environment:
            return await function(*args, **options)

        return Environment(*in_portal(ready))

    return wait


open = _opened(opening.open)
attach = _opened(opening.attach)


class Fleet(Face[fleets.Fleet], Closing):
    """One environment for each task. See `hermetic.Fleet`."""

    @made_like(fleets.Fleet)
    def __init__(self, *args: Any, **options: Any) -> None:
        async def entered() -> fleets.Fleet:
            return await fleets.Fleet(*args, **options).__aenter__()

        super().__init__(*in_portal(entered))

    @property
    def kind(self) -> str:
        """The kind of its environments."""
        return self._held.kind

    @property
    def tasks(self) -> list[str]:
        """The tasks that have an environment now."""
        return self._held.tasks

    def override(self, task: str, **options: Any) -> None:
        """Sets other options for a task that has no environment yet."""
        return self._portal.do(self._held.override, task, **options)

    def warm(self, count: int, **options: Any) -> None:
        """Keeps so many environments ready; returns when they are."""
        return self._portal.call(self._held.warm, count, **options)

    def map(
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
        """Calls `function(environment, item)` for each item, in threads.

        See `hermetic.Fleet.map`.
        """

        def call(environment: environments.Environment, item: Any) -> Any:
            return function(Environment(self._portal, environment), item)

        return self._portal.call(
            self._held.map,
            call,
            items,
            limit=limit,
            retries=retries,
            timeout=timeout,
            progress=progress,
            task=task,
        )

    clear_override = does(fleets.Fleet.clear_override)
    get = gives(fleets.Fleet.get, Environment)
    close_task = waits(fleets.Fleet.close_task)
    info = waits(fleets.Fleet.info)
    gc = waits(fleets.Fleet.gc)

    @contextlib.contextmanager
    def use(self, task: str) -> Iterator[Environment]:
        """The task's environment for a block, in which it is not released."""
        block = self._held.use(task)
        environment = self._portal.call(block.__aenter__)
        try:
            yield Environment(self._portal, environment)
        finally:
            self._portal.call(block.__aexit__, None, None, None)

    def close(self, *, remove: bool = False) -> int:
        """Releases all environments, and ends those that wait for a task; returns how many tasks
        there were.
        """
        return close(self, remove=remove) or 0


def fleet_of(portal: Portal, fleet: fleets.Fleet) -> Fleet:
    """The face of a fleet whose owner also owns the portal."""
    face = Fleet.__new__(Fleet)
    Face.__init__(face, portal, fleet)
    return face
