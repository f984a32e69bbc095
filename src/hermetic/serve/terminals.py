"""Terminals of persons: started, shared by name, restarted, closed, limited; and the viewers of
every process.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from weakref import WeakValueDictionary

import msgspec

from hermetic.contract.concurrency import in_thread
from hermetic.contract.errors import ExecutionError, InvalidArgument, UnknownProcess
from hermetic.contract.limits import SCREEN_REPLAY, TERMINAL_IDLE, TERMINAL_REPLAY, TERMINALS
from hermetic.contract.process import ProcessInfo
from hermetic.serve.control import Channel, Person, clamp
from hermetic.serve.outgoing import Outgoing
from hermetic.session.environment import Environment
from hermetic.session.process import Process
from hermetic.session.terminal import BASH_MARKS, Terminal, as_terminal, terminal
from hermetic.session.terminal_modes import TerminalModes

ROWS, COLS = (8, 24, 80), (20, 80, 240)  # least, usual, most when a terminal starts
SHELLS = ("zsh", "bash", "sh")  # get -i
OWN_BASH = 'exec "$BASH" -i'  # of an environment without a shell
CLOSE_GRACE = 1.5  # seconds between HUP and KILL
LINE_SEARCH = 1 << 14  # bytes in which a replay looks for a line's start
TAG = "terminal:"
# TERM and PWD are the resident's; LINES and COLUMNS would be wrong after a resize.
VARIABLES = {
    "TERM": "xterm-256color",
    "COLORTERM": "truecolor",
    "HERMETIC_TERMINAL": "1",
    "HERMES_WEBUI_TERMINAL": "1",
}

Find = Callable[[str], Awaitable[Environment]]  # an environment by its id


class TooManyTerminals(ExecutionError):
    """The limit of terminals is reached; none was closed for a new one."""


class Wanted(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a terminal was started as, kept in its tag: a restart starts the same."""

    session: str = ""
    cwd: str = ""
    command: str = ""


class TerminalLimits(msgspec.Struct, frozen=True):
    """Limits of one server."""

    count: int = TERMINALS
    idle: float = TERMINAL_IDLE  # seconds; 0: none


class Terminals:
    """The terminals and viewers of one server. Nothing of them ends with the server."""

    def __init__(self, find: Find, limits: TerminalLimits | None = None) -> None:
        self._find, self._limits = find, limits or TerminalLimits()
        self._viewers: dict[tuple[str, str], set[Channel]] = {}  # by environment and process
        self._watching: dict[str, asyncio.Task[None]] = {}  # events by environment
        # By environment and name, while one is held.
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
        self._idle: dict[tuple[str, str], asyncio.TimerHandle] = {}
        self._known: dict[tuple[str, str], Environment] = {}  # running terminals
        self._starting = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"<Terminals: {len(self._known)} running, {sum(map(len, self._viewers.values()))} viewers>"

    async def close(self) -> None:
        """Ends views and timers. Terminals live on in their environments."""
        for channels in list(self._viewers.values()):
            for channel in list(channels):
                channel.close()
        for timer in self._idle.values():
            timer.cancel()
        tasks = [*self._watching.values(), *self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- viewers
    async def attach(
        self,
        number: int,
        out: Outgoing,
        person: Person,
        *,
        environment: str,
        process: str,
        offset: int | None,
        size: tuple[int | None, int | None],
    ) -> Channel:
        """A viewer of a process, from `offset` on; None: from a part of its past that fits a
        screen's memory.
        """
        place = await self._find(environment)
        found = await terminal(place, process)
        self._watch(place)
        channel = Channel(number, out, person, place.id, found)
        key = place.id, process
        viewers = self._viewers.setdefault(key, set())
        viewers.add(channel)
        channel.when_closed.append(lambda: self._left(key, channel))
        try:
            start, prelude = await replay_from(found, offset)
            rows, cols = size
            await channel.open(
                start, prelude, (clamp(rows), clamp(cols)) if rows and cols else None
            )
        except BaseException:
            channel.close()
            raise
        if found.info.personal:
            self._stop_timer(key)
            self._known[key] = place
        return channel

    def _left(self, key: tuple[str, str], channel: Channel) -> None:
        viewers = self._viewers.get(key, set())
        viewers.discard(channel)
        if not viewers:
            self._viewers.pop(key, None)
            if key in self._known and channel.info.ending is None:
                self._start_timer(key, channel.info.out)

    def _watch(self, environment: Environment) -> None:
        """Follows who drives what in an environment."""
        running = self._watching.get(environment.id)
        if running is None or running.done():
            self._watching[environment.id] = asyncio.create_task(self._events(environment))

    async def _events(self, environment: Environment) -> None:
        with contextlib.suppress(ExecutionError):
            async with environment.events(control=True) as events:
                async for event in events:
                    info = event.process
                    if info is None:
                        await self._catch_up(environment)
                    elif event.event == "ended":
                        self._forget((environment.id, info.id))
                    elif event.event != "started":
                        for channel in self._viewers.get((environment.id, info.id), set()):
                            channel.changed(info)
        # it is gone
        for key in [key for key, place in self._known.items() if place is environment]:
            self._forget(key)

    async def _catch_up(self, environment: Environment) -> None:
        """Some events were missed."""
        for info in await environment.processes():
            for channel in self._viewers.get((environment.id, info.id), set()):
                channel.changed(info)

    # -- terminals
    async def start(
        self,
        environment: str,
        *,
        rows: int | None = None,
        cols: int | None = None,
        cwd: str | None = None,
        session: str | None = None,
        command: str | None = None,
        restart: bool = False,
    ) -> ProcessInfo:
        """A terminal in an environment. Of one `session` there is one: a living one in the same
        directory is returned.

        In another directory, or with `restart`, the old one is closed first. Raises
        InvalidArgument, TooManyTerminals, ExecutionError.
        """
        name = None if session is None else session.strip()
        if name == "":
            raise InvalidArgument(
                "session must not be empty: leave it out for a terminal without a name",
                argument="session",
            )
        place = await self._find(environment)
        wanted = Wanted(session=name or "", cwd=cwd or "", command=command or "")
        if name is None:
            return await self._start(place, wanted, rows, cols)
        async with self._locks.setdefault((environment, name), asyncio.Lock()):
            old = await self._named(place, name)
            if old is not None and not restart and _wanted(old.info).cwd == wanted.cwd:
                size = _size(rows, cols, old.info)
                if size != (old.info.rows, old.info.cols) and old.info.driver is None:
                    await old.resize(*size)
                    await old.status()
                return old.info
            if old is not None:
                rows, cols = _size(rows, cols, old.info)
                await self._close(place, old)
            return await self._start(place, wanted, rows, cols)

    async def restart(self, environment: str, id: str) -> ProcessInfo:
        """A new terminal like this one, which is closed first if it runs. Raises UnknownProcess."""
        place = await self._find(environment)
        old = await self._get(place, id)
        wanted = _wanted(old.info)
        async with self._locks.setdefault((environment, wanted.session or id), asyncio.Lock()):
            await self._close(place, old)
            return await self._start(place, wanted, old.info.rows, old.info.cols)

    async def end(self, environment: str, id: str) -> list[str]:
        """Closes a terminal with all its processes; returns their command lines.

        Raises UnknownProcess.
        """
        place = await self._find(environment)
        old = await self._get(place, id)
        await self._close(place, old)
        return list(old.info.cleared)

    async def discover(self, environment: Environment) -> list[ProcessInfo]:
        """The running terminals of an environment, also of an earlier server.

        Their idle clocks run from now on.
        """
        found = [
            info for info in await environment.processes() if info.personal and info.ending is None
        ]
        for info in found:
            key = environment.id, info.id
            if key not in self._known:
                self._known[key] = environment
                self._watch(environment)
                self._start_timer(key, info.out)
        return found

    async def _get(self, place: Environment, id: str) -> Process:
        found = await place.process(id)
        if not found.info.personal:
            raise UnknownProcess(
                f"process {id} is no terminal of a person; end it with kill", process_id=id
            )
        return found

    async def _named(self, place: Environment, name: str) -> Process | None:
        for info in await self.discover(place):
            if _wanted(info).session == name:
                return await place.process(info.id)
        return None

    async def _start(
        self, place: Environment, wanted: Wanted, rows: int | None, cols: int | None
    ) -> ProcessInfo:
        if (running := len(self._known) + self._starting) >= self._limits.count:
            raise TooManyTerminals(
                f"{running} terminals run, the most: close one, or start the server with --terminals"
            )
        rows, cols = _size(rows, cols, None)
        self._starting += 1
        try:
            command = wanted.command or await find_shell(place)
            made = await place.start(
                command,
                pty=True,
                rows=rows,
                cols=cols,
                cwd=wanted.cwd or None,
                personal=True,
                env={**VARIABLES, **BASH_MARKS} if _is_bash(command) else VARIABLES,
                tag=TAG + msgspec.json.encode(wanted).decode(),
            )
        finally:
            self._starting -= 1
        key = place.id, made.id
        self._known[key] = place
        self._watch(place)
        self._start_timer(key, made.info.out)
        return made.info

    async def _close(self, place: Environment, old: Process) -> None:
        await old.kill(CLOSE_GRACE)
        self._forget((place.id, old.id))

    def _forget(self, key: tuple[str, str]) -> None:
        self._known.pop(key, None)
        self._stop_timer(key)

    # -- idle ones
    def _start_timer(self, key: tuple[str, str], out: int) -> None:
        """Closes a terminal that has no viewer, prints nothing and runs nothing for a while."""
        self._stop_timer(key)
        if self._limits.idle:
            loop = asyncio.get_running_loop()
            self._idle[key] = loop.call_later(
                self._limits.idle, lambda: self._run(self._look(key, out))
            )

    def _stop_timer(self, key: tuple[str, str]) -> None:
        if timer := self._idle.pop(key, None):
            timer.cancel()

    async def _look(self, key: tuple[str, str], out: int) -> None:
        place = self._known.get(key)
        if place is None or key in self._viewers:
            return
        try:
            process = await place.process(key[1])
            if process.info.ending is not None:
                self._forget(key)
            elif process.info.out != out or await as_terminal(process).runs_something():
                self._start_timer(key, process.info.out)
            elif key not in self._viewers:
                await self._close(place, process)
        except ExecutionError:  # its environment is gone
            self._forget(key)

    def _run(self, work: "Awaitable[None]") -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def replay_from(process: Terminal, offset: int | None) -> tuple[int, bytes]:
    """Where a viewer starts, and the sequences that set a fresh terminal's modes as they were
    there.
    """
    total = process.info.out
    if offset is not None:
        return min(offset, total), b""
    start = max(0, total - TERMINAL_REPLAY)
    if not start:
        return 0, b""
    chunk = await process.read(start, limit=LINE_SEARCH)
    start = chunk.start + chunk.data.find(b"\n") + 1
    modes, at = TerminalModes(), max(0, start - SCREEN_REPLAY)
    while at < start:
        chunk = await process.read(at, limit=start - at)
        if not chunk.data or chunk.start >= start:
            break
        data = chunk.data
        await in_thread(lambda data=data: modes.feed(data))  # type: ignore[misc]
        at = chunk.end
    return start, modes.redo()


async def find_shell(place: Environment) -> str | list[str]:
    """The user's shell in an environment:

    SHELL where it can be run, else one on PATH, else the environment's bash.
    """
    state = await place.state()
    folders = [folder for folder in state.env.get("PATH", "").split(":") if folder]
    candidates = [state.env.get("SHELL", "")]
    candidates += [f"{folder}/{name}" for name in SHELLS for folder in folders]
    for path in filter(None, candidates):
        try:
            status = await place.file_status(path, missing=True)
        except OSError:  # a directory that may not be entered
            continue
        if status.kind == "file" and status.mode & 0o111:
            return [path, "-i"] if path.rpartition("/")[2] in SHELLS else [path]
    return OWN_BASH


def _is_bash(command: str | list[str]) -> bool:
    return (
        command == OWN_BASH if isinstance(command, str) else command[0].rpartition("/")[2] == "bash"
    )


def _wanted(info: ProcessInfo) -> Wanted:
    try:
        return msgspec.json.decode(info.tag.removeprefix(TAG), type=Wanted)
    except msgspec.DecodeError:
        return Wanted()


def _size(rows: int | None, cols: int | None, old: ProcessInfo | None) -> tuple[int, int]:
    """Rows and columns within bounds; what is missing or 0 is as before, or usual."""
    return (
        max(ROWS[0], min(rows or (old.rows if old else ROWS[1]), ROWS[2])),
        max(COLS[0], min(cols or (old.cols if old else COLS[1]), COLS[2])),
    )
