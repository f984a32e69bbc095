"""Environments and what is in them: each method waits for its counterpart's answer."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, Unpack

import msgspec

from hermetic.blocking.portal import Portal
from hermetic.contract.approval import Approver, Mode
from hermetic.contract.command import Result, RunOptions
from hermetic.contract.edits import Oversight, Patched
from hermetic.contract.endings import Ending
from hermetic.contract.environment import EnvironmentInfo, Isolation, SessionState
from hermetic.contract.files import Bounds, FileContent, FilePage, FileStatus, Findings, Written
from hermetic.contract.fleet import FleetInfo, Removed
from hermetic.contract.limits import FRAME_BODY, KILL_GRACE
from hermetic.contract.process import Chunk, ProcessEvent, ProcessInfo, Shown, StartOptions, Status
from hermetic.fleet import fleet as fleets
from hermetic.fleet import opening
from hermetic.session import environment as environments
from hermetic.session import events as streams
from hermetic.session import process as processes
from hermetic.session import session as sessions


def open(
    kind: str, *, task: str | None = None, replace: bool = False, policy: Mode | None = None,
    approver: Approver | None = None, **options: Any,
) -> "Environment":  # fmt: skip
    """An environment of this kind, ready; also a context manager. See `hermetic.open`."""
    return _through_portal(
        lambda: opening.open(kind, task=task, replace=replace, policy=policy, approver=approver, **options)
    )


def attach(task_or_id: str, *, policy: Mode | None = None, approver: Approver | None = None) -> "Environment":
    """The living environment of a task, or with this id, whoever opened it. See `hermetic.attach`."""
    return _through_portal(lambda: opening.attach(task_or_id, policy=policy, approver=approver))


def _through_portal(make: Callable[[], opening.Opening]) -> "Environment":
    async def wait() -> environments.Environment:
        return await make()

    portal = Portal()
    try:
        environment = portal.call(wait)
        portal.guard(environment)
        return Environment(portal, environment)
    except BaseException:
        portal.close()
        raise


class Process:
    """A process in an environment. It runs on whether or not anybody holds this."""

    def __init__(self, portal: Portal, process: processes.Process) -> None:
        self._portal = portal
        self._process = process

    def __repr__(self) -> str:
        return repr(self._process)

    @property
    def id(self) -> str:
        """What it is called in its environment, and its log too."""
        return self._process.id

    @property
    def pid(self) -> int | None:
        """Its number, as its environment counts."""
        return self._process.pid

    @property
    def info(self) -> ProcessInfo:
        """What was last heard of it."""
        return self._process.info

    def status(self) -> Status:
        """How it is doing now."""
        return self._portal.call(self._process.status)

    def read(self, offset: int = 0, *, limit: int | None = None, wait: float | None = None) -> Chunk:
        """Its output from `offset` on."""
        return self._portal.call(self._process.read, offset, limit=limit, wait=wait)

    def write(self, data: str | bytes) -> None:
        """Writes to its input; returns when all was taken in."""
        return self._portal.call(self._process.write, data)

    def submit(self, text: str) -> None:
        """Writes a line."""
        return self._portal.call(self._process.submit, text)

    def write_secret(self, text: str) -> None:
        """Writes a line that is kept out of the log."""
        return self._portal.call(self._process.write_secret, text)

    def keys(self, names: str) -> None:
        """Presses keys: `keys("ctrl-c up enter")`."""
        return self._portal.call(self._process.keys, names)

    def close_input(self) -> None:
        """Ends its input."""
        return self._portal.call(self._process.close_input)

    def shown(self) -> Shown:
        """What its terminal shows now."""
        return self._portal.call(self._process.shown)

    def set_tag(self, tag: str) -> None:
        """Puts another text in the place of what is remembered with it."""
        return self._portal.call(self._process.set_tag, tag)

    def swap_tag(self, was: str, tag: str, *, claimed: bool = False) -> Literal["done", "changed", "claimed"]:
        """Puts another text in the place of this one, unless that has changed."""
        return self._portal.call(self._process.swap_tag, was, tag, claimed=claimed)

    def claim(self) -> None:
        """Returns when no other caller that is connected claims it."""
        return self._portal.call(self._process.claim)

    def resize(self, rows: int, cols: int) -> None:
        """Gives its terminal another size."""
        return self._portal.call(self._process.resize, rows, cols)

    def signal(self, signal: int | str, *, tree: bool = True) -> None:
        """Sends a signal, by number or name."""
        return self._portal.call(self._process.signal, signal, tree=tree)

    def kill(self, grace: float = KILL_GRACE) -> Ending | None:
        """Ends its whole tree, and returns when nothing is left."""
        return self._portal.call(self._process.kill, grace)

    def wait(self, timeout: float | None = None) -> Ending:
        """How it ended, once it has. Raises TimeoutError."""
        return self._portal.call(self._process.wait, timeout)

    def wait_for(
        self, text: str, *, timeout: float | None, pattern: bool = False, on: Literal["output", "screen"] = "output"
    ) -> tuple[int, int]:
        """Offsets of the next match. Raises TimeoutError, EOFError."""
        return self._portal.call(self._process.wait_for, text, timeout=timeout, pattern=pattern, on=on)

    def screen(self) -> str:
        """The text that its terminal shows now."""
        return self._portal.call(self._process.screen)


class Session:
    """A shell that keeps its state from command to command."""

    def __init__(self, portal: Portal, session: sessions.Session) -> None:
        self._portal = portal
        self._session = session

    def __repr__(self) -> str:
        return repr(self._session)

    @property
    def name(self) -> str:
        """The name it was asked for with."""
        return self._session.name

    def run(self, command: str | Sequence[str], **options: Unpack[RunOptions]) -> Result:
        """What came of the command, when it has ended. `on_output` is called on the portal's thread."""
        return self._faced(self._portal.call(self._session.run, command, **options))

    def start(self, command: str | Sequence[str], **options: Unpack[StartOptions]) -> Process:
        """A process that runs on by itself."""
        return Process(self._portal, self._portal.call(self._session.start, command, **options))

    def process(self, id: str) -> Process:
        """The process with this id. Raises UnknownProcess."""
        return Process(self._portal, self._portal.call(self._session.process, id))

    def state(self) -> SessionState:
        """The cwd and the exported variables that the next command sees."""
        return self._portal.call(self._session.state)

    def reset(self) -> bool:
        """Ends the session's running commands and its shells; its next command starts from the login state."""
        return self._portal.call(self._session.reset)

    def close(self) -> None:
        """Ends the session's shells."""
        return self._portal.call(self._session.close)

    def read_file(self, path: str) -> str:
        """A file's content as text."""
        return self._portal.call(self._session.read_file, path)

    def read_bytes(self, path: str) -> bytes:
        """A file's content."""
        return self._portal.call(self._session.read_bytes, path)

    def read_content(self, path: str, *, bounds: Bounds | None = None) -> FileContent:
        """A file's content and what the file is like."""
        return self._portal.call(self._session.read_content, path, bounds=bounds)

    def read_lines(
        self, path: str, first: int = 1, count: int = 500, *, width: int = 8000, budget: int = FRAME_BODY,
        bounds: Bounds | None = None,
    ) -> FilePage:  # fmt: skip
        """Some lines of a file of any size, and how many it has."""
        return self._portal.call(
            self._session.read_lines, path, first, count, width=width, budget=budget, bounds=bounds
        )

    def list_names(self, path: str, *, bounds: Bounds | None = None) -> list[str]:
        """The names in a directory, sorted."""
        return self._portal.call(self._session.list_names, path, bounds=bounds)

    def search_files(
        self, pattern: str, path: str = ".", *, target: Literal["content", "files"] = "content",
        output_mode: Literal["content", "files_only", "count"] = "content", glob: str | None = None, limit: int = 50,
        offset: int = 0, context: int = 0, timeout: float = 60.0, ripgrep: bool = True, bounds: Bounds | None = None,
    ) -> Findings:  # fmt: skip
        """Lines that match a regular expression, or files whose name matches a glob."""
        return self._portal.call(
            self._session.search_files, pattern, path, target=target, output_mode=output_mode, glob=glob, limit=limit,
            offset=offset, context=context, timeout=timeout, ripgrep=ripgrep, bounds=bounds,
        )  # fmt: skip

    def file_status(self, path: str, *, missing: bool = False, bounds: Bounds | None = None) -> FileStatus:
        """What a file is like."""
        return self._portal.call(self._session.file_status, path, missing=missing, bounds=bounds)

    def write_file(
        self, path: str, content: str | bytes, *, expect: str | None = None, mode: int | None = None,
        bounds: Bounds | None = None,
    ) -> Written:  # fmt: skip
        """Writes a file as a whole."""
        return self._portal.call(self._session.write_file, path, content, expect=expect, mode=mode, bounds=bounds)

    def delete_file(self, path: str, *, expect: str | None = None, bounds: Bounds | None = None) -> Written:
        """Takes a file away."""
        return self._portal.call(self._session.delete_file, path, expect=expect, bounds=bounds)

    def move_file(
        self, path: str, target: str, *, expect: str | None = None, replace: bool = False, bounds: Bounds | None = None
    ) -> Written:
        """Gives a file another path."""
        return self._portal.call(self._session.move_file, path, target, expect=expect, replace=replace, bounds=bounds)

    def patch(
        self, path: str | None = None, old_string: str | None = None, new_string: str | None = None, *,
        replace_all: bool = False, patch: str | None = None, bounds: Bounds | None = None,
        oversight: Oversight | None = None,
    ) -> Patched:  # fmt: skip
        """Edits files: a text becomes another in one file, or what a `patch` asks for; or nothing is done."""
        return self._portal.call(
            self._session.patch,
            path,
            old_string,
            new_string,
            replace_all=replace_all,
            patch=patch,
            bounds=bounds,
            oversight=oversight,
        )

    def upload(self, source: str, path: str) -> None:
        """Copies a file of the caller's machine to `path` in the environment."""
        return self._portal.call(self._session.upload, source, path)

    def download(self, path: str, target: str) -> None:
        """Copies the file at `path` in the environment to the caller's machine."""
        return self._portal.call(self._session.download, path, target)

    def _faced(self, result: Result) -> Result:
        """The result with a process of this face in it."""
        if result.process is None:
            return result
        return msgspec.structs.replace(result, process=Process(self._portal, result.process))


class EventStream:
    """Events from the moment it was made; iterate over it, then `close` it, or use `with`."""

    def __init__(self, portal: Portal, stream: streams.EventStream) -> None:
        self._portal = portal
        self._stream = stream

    def __iter__(self) -> Iterator[ProcessEvent]:
        return self

    def __next__(self) -> ProcessEvent:
        try:
            return self._portal.call(self._stream.__anext__)
        except StopAsyncIteration:
            raise StopIteration from None

    def close(self) -> None:
        """Ends the stream."""
        return self._portal.call(self._stream.aclose)

    def __enter__(self) -> "EventStream":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Environment(Session):
    """A place where commands run; its own `run`, `start` and files are those of its default session."""

    def __init__(self, portal: Portal, environment: environments.Environment) -> None:
        super().__init__(portal, environment)
        self._environment = environment
        self._is_in_fleet = False  # which then has the portal too

    @property
    def id(self) -> str:
        """What it is called on this host."""
        return self._environment.id

    @property
    def kind(self) -> str:
        """Which kind it was opened as."""
        return self._environment.kind

    @property
    def task(self) -> str | None:
        """The key it was opened for."""
        return self._environment.task

    @property
    def isolation(self) -> Isolation:
        """What stands between a command here and the caller's machine."""
        return self._environment.isolation

    def session(self, name: str) -> Session:
        """Another shell in the same place."""
        return Session(self._portal, self._environment.session(name))

    def processes(self) -> list[ProcessInfo]:
        """Everything that runs here, and what has ended as long as its log is kept."""
        return self._portal.call(self._environment.processes)

    def read_log(self, id: str, offset: int = 0, *, limit: int | None = None, wait: float | None = None) -> Chunk:
        """Output of the log `id` from `offset` on. Raises UnknownProcess."""
        return self._portal.call(self._environment.read_log, id, offset, limit=limit, wait=wait)

    def follow_log(self, id: str, on_output: Callable[[bytes], object], *, offset: int = 0) -> Ending:
        """Hands over the log from `offset` on as it comes, and returns how its process ended. Raises UnknownProcess."""
        return self._portal.call(self._environment.follow_log, id, on_output, offset=offset)

    def info(self) -> EnvironmentInfo:
        """The environment and its resident at this moment."""
        return self._portal.call(self._environment.info)

    def events(self) -> EventStream:
        """What starts and ends here, from now on, as an iterator."""
        return EventStream(self._portal, self._portal.do(self._environment.events))

    def close(self, *, remove: bool = False) -> None:
        """Lets go of the environment, and ends it where it has no task or `remove` is True."""
        if self._portal.is_open:
            try:
                self._portal.call(self._environment.close, remove=remove)
            finally:
                if not self._is_in_fleet:
                    self._portal.close()

    def __enter__(self) -> "Environment":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Fleet:
    """One environment for each task. See `hermetic.Fleet`."""

    def __init__(
        self, kind: str = "local", *, warm: int = 0, idle: float | None = fleets.IDLE, starts: int = fleets.STARTS,
        **options: Any,
    ) -> None:  # fmt: skip
        self._portal = Portal()
        try:
            self._fleet = self._portal.do(fleets.Fleet, kind, warm=warm, idle=idle, starts=starts, **options)
            self._portal.call(self._fleet.__aenter__)
        except BaseException:
            self._portal.close()
            raise
        self._portal.guard(self._fleet)
        self._has_portal = True  # and ends it

    def __repr__(self) -> str:
        return repr(self._fleet)

    @property
    def kind(self) -> str:
        """Of its environments."""
        return self._fleet.kind

    @property
    def tasks(self) -> list[str]:
        """The tasks whose environments are kept now."""
        return self._fleet.tasks

    def override(self, task: str, **options: Any) -> None:
        """Other options for a task that has no environment yet."""
        return self._portal.do(self._fleet.override, task, **options)

    def clear_override(self, task: str) -> None:
        """Forgets what `override` said of a task."""
        return self._portal.do(self._fleet.clear_override, task)

    def warm(self, count: int, **options: Any) -> None:
        """Keeps so many environments ready; returns when they are."""
        return self._portal.call(self._fleet.warm, count, **options)

    def get(self, task: str) -> Environment:
        """The task's environment, opened where it is not."""
        return self._faced(self._portal.call(self._fleet.get, task))

    @contextlib.contextmanager
    def use(self, task: str) -> Iterator[Environment]:
        """The task's environment for a block, in which it is not let go of."""
        block = self._fleet.use(task)
        environment = self._portal.call(block.__aenter__)
        try:
            yield self._faced(environment)
        finally:
            self._portal.call(block.__aexit__, None, None, None)

    def close_task(self, task: str, *, remove: bool = False) -> bool:
        """Lets go of a task's environment; `remove=True` ends it."""
        return self._portal.call(self._fleet.close_task, task, remove=remove)

    def info(self) -> FleetInfo:
        """What the fleet keeps now, with its use of disks."""
        return self._portal.call(self._fleet.info)

    def gc(self) -> list[Removed]:
        """Takes away what processes that are gone left."""
        return self._portal.call(self._fleet.gc)

    def close(self, *, remove: bool = False) -> int:
        """Lets go of all environments, and ends those that wait for a task; returns how many tasks there were."""
        if not self._portal.is_open:
            return 0
        try:
            return self._portal.call(self._fleet.close, remove=remove)
        finally:
            if self._has_portal:
                self._portal.close()

    def __enter__(self) -> "Fleet":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _faced(self, environment: environments.Environment) -> Environment:
        face = Environment(self._portal, environment)
        face._is_in_fleet = True
        return face


def fleet_of(portal: Portal, fleet: fleets.Fleet) -> Fleet:
    """The face of a fleet that belongs to somebody else, who has the portal too."""
    face = Fleet.__new__(Fleet)
    face._portal, face._fleet, face._has_portal = portal, fleet, False
    return face
