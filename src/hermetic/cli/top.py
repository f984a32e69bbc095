"""`hermetic top`: environments and their processes with CPU, memory and age; live at a terminal,
else once.
"""

import argparse
import asyncio
import contextlib
import os
import signal
import sys
import termios
import time
import tty
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from hermetic.cli.colours import has_colours
from hermetic.cli.command import JSON, Command, options, report_error
from hermetic.cli.interrupts import Interrupts, Stopped, run_interruptibly
from hermetic.cli.lookup import (
    IN,
    KnownEnvironment,
    attach_known,
    find_record,
    problems_of,
)
from hermetic.cli.report import age, print_listing, size, table
from hermetic.cli.streams import SPELLING, terminal_size
from hermetic.contract.concurrency import beside
from hermetic.contract.environment import EnvironmentRecord
from hermetic.contract.errors import EnvironmentUnavailable, ExecutionError, InvalidArgument
from hermetic.contract.process import ProcessInfo
from hermetic.registry.records import Records, runtime_root
from hermetic.session.environment import Environment
from hermetic.session.keeping import detach
from hermetic.session.usage import tree_of, usage_of

ANSWER_SECONDS = 3.0  # that a frame waits for one environment
SAMPLE_SECONDS = 0.5  # between the two looks of a snapshot, and before the second frame
LEAST_SECONDS = 0.25  # between two frames, however many events come
RETRY_SECONDS = 10.0  # before an environment that was not reached is tried again
MOST_PROCESSES = 200  # of one environment that are measured, the newest
HEADINGS = "NAME|STATE|CPU|MEMORY|AGE|COMMAND"
LEAVE = (b"q", b"Q", b"\x03", b"\x04")

ENTER_SCREEN, LEAVE_SCREEN = b"\x1b[?1049h\x1b[?25l", b"\x1b[?25h\x1b[?1049l"
HOME, REST_OF_LINE, REST_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"

ABOUT = """\
Environments and their processes with CPU (100 % is one core), memory and age, the busiest first. At a terminal the
table is drawn again when a process starts or ends, and every --interval seconds; q leaves. Otherwise, and with --once
or --json, it is printed once, measured over half a second.

  hermetic top
  hermetic top --in web --interval 1
  hermetic top --json | jq '.[].cpu_percent'"""


class ProcessUsage(msgspec.Struct, frozen=True, kw_only=True):
    """What one process uses, with its children."""

    id: str
    pid: int | None
    state: str
    started: float
    command: str
    members: int  # processes of its tree
    cpu_seconds: float
    cpu_percent: float | None = None  # of one core, since the sample before; None in the first
    memory_bytes: int
    ports: tuple[int, ...] = ()


class EnvironmentUsage(msgspec.Struct, frozen=True, kw_only=True):
    """What one environment uses, its shells included."""

    id: str
    task: str | None
    kind: str
    state: str
    created: float
    cpu_seconds: float | None = None
    cpu_percent: float | None = None
    memory_bytes: int | None = None
    processes: tuple[ProcessUsage, ...] = ()


def _top(arguments: argparse.Namespace) -> int:
    if not LEAST_SECONDS <= arguments.interval <= 3600:
        raise InvalidArgument(
            f"--interval is {LEAST_SECONDS:g} to 3600 seconds", argument="interval"
        )
    is_live = sys.stdout.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb")
    if arguments.once or arguments.json or not is_live:
        return run_interruptibly(lambda _: _print_once(arguments))
    try:
        return run_interruptibly(lambda interrupts: _show(arguments, interrupts))
    except Stopped as error:
        if error.signal != signal.SIGINT:
            raise
        return 0


async def _print_once(arguments: argparse.Namespace) -> int:
    monitor = Monitor(arguments.within)
    try:
        await monitor.sample()
        await asyncio.sleep(SAMPLE_SECONDS)
        usages = await monitor.sample()
        problems = problems_of(monitor.environments)
    finally:
        await monitor.close()
    print_listing(arguments.json, usages, HEADINGS, _rows(usages))
    for problem in problems:
        report_error(problem, 0)
    return 0


async def _show(arguments: argparse.Namespace, interrupts: Interrupts) -> int:
    """Draws frames until the person leaves."""
    monitor, loop = Monitor(arguments.within), asyncio.get_running_loop()
    with _screen(interrupts):
        loop.add_signal_handler(signal.SIGWINCH, monitor.changed.set)
        frames = _draw_frames(monitor, interrupts, arguments.interval)
        try:
            async with beside(frames) as drawing, beside(_leave_key()) as leaving:
                await asyncio.wait([drawing, leaving], return_when=asyncio.FIRST_COMPLETED)
                if drawing.done():
                    drawing.result()
        finally:
            loop.remove_signal_handler(signal.SIGWINCH)
            await monitor.close()
    return 0


async def _draw_frames(monitor: "Monitor", interrupts: Interrupts, interval: float) -> None:
    pause = min(SAMPLE_SECONDS, interval)  # the first frame has no CPU yet
    while True:
        monitor.changed.clear()
        frame = _frame(await monitor.sample(), terminal_size(1))
        interrupts.write(1, frame.encode(sys.stdout.encoding or "utf-8", SPELLING))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await monitor.changed.wait()
                await asyncio.sleep(LEAST_SECONDS)
        pause = interval


def _frame(usages: list[EnvironmentUsage], screen: os.terminal_size) -> str:
    """One screen; what does not fit is counted."""
    count = sum(len(usage.processes) for usage in usages)
    lines = [
        f"hermetic top, {time.strftime('%H:%M:%S')}: {len(usages)} environments, {count} processes; q leaves",
        "",
    ]
    lines += table(
        HEADINGS.split("|"), _rows(usages), screen.columns, colours=has_colours(sys.stdout)
    )
    if len(lines) > screen.lines:
        lines = [*lines[: screen.lines - 1], f"… {len(lines) - screen.lines + 1} lines more"]
    return HOME + "\r\n".join(line + REST_OF_LINE for line in lines) + REST_OF_SCREEN


def _rows(usages: list[EnvironmentUsage]) -> Iterator[tuple[str, ...]]:
    for usage in usages:
        memory = "-" if usage.memory_bytes is None else size(usage.memory_bytes)
        measured = _percent(usage.cpu_percent), memory, age(usage.created)
        yield (usage.task or usage.id, usage.state, *measured, f"({usage.kind})")
        for one in sorted(usage.processes, key=lambda process: -(process.cpu_percent or 0.0)):
            measured = _percent(one.cpu_percent), size(one.memory_bytes), age(one.started)
            yield (f"  {one.id}", one.state, *measured, one.command)


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f} %" if value >= 10 else f"{value:.1f} %"


async def _leave_key() -> None:
    """Returns when a key to leave was typed; never where there is no keyboard."""
    loop, typed = asyncio.get_running_loop(), asyncio.Event()

    def read() -> None:
        data = os.read(0, 1024)
        if not data or any(key in data for key in LEAVE):
            typed.set()

    if not os.isatty(0):
        await typed.wait()
    loop.add_reader(0, read)
    try:
        await typed.wait()
    finally:
        loop.remove_reader(0)


@contextlib.contextmanager
def _screen(interrupts: Interrupts) -> Iterator[None]:
    """A screen of its own and keys without echo; both are restored at the end."""
    earlier = termios.tcgetattr(0) if os.isatty(0) else None
    if earlier is not None:
        tty.setcbreak(0, termios.TCSADRAIN)
        keys = termios.tcgetattr(0)
        keys[6][termios.VSUSP] = b"\0"  # a stop would leave the screen as it is
        termios.tcsetattr(0, termios.TCSADRAIN, keys)
    try:
        interrupts.write(1, ENTER_SCREEN)
        yield
    finally:
        with contextlib.suppress(OSError, termios.error):  # the terminal is gone
            os.write(1, LEAVE_SCREEN)
            if earlier is not None:
                termios.tcsetattr(0, termios.TCSADRAIN, earlier)


class _Measured(NamedTuple):
    """CPU seconds at a moment of the monotonic clock."""

    at: float
    seconds: float


class Monitor:
    """The environments of this user, attached as observers, and what they use from one sample to
    the next.
    """

    def __init__(self, within: str | None = None) -> None:
        self.changed = asyncio.Event()  # a process has started or ended, or an environment is gone
        self._within = within
        self._known: dict[str, KnownEnvironment] = {}
        self._tried: dict[str, float] = {}
        self._watching: dict[str, asyncio.Task[None]] = {}
        self._measured: dict[tuple[str, str], _Measured] = {}

    def __repr__(self) -> str:
        return f"<Monitor of {len(self._known)} environments>"

    @property
    def environments(self) -> list[KnownEnvironment]:
        """What is attached, and what could not be."""
        return list(self._known.values())

    async def sample(self) -> list[EnvironmentUsage]:
        """What every environment uses now, asked concurrently."""
        await self._look()
        before, self._measured = self._measured, {}
        return list(
            await asyncio.gather(*(self._sample(known, before) for known in self._known.values()))
        )

    async def close(self) -> None:
        """Closes every link."""
        await asyncio.gather(*map(self._forget, list(self._known)))

    async def _look(self) -> None:
        """Attaches to new environments, and forgets those that are gone."""
        records = Records(runtime_root())
        chosen = records.all() if self._within is None else [find_record(records, self._within)]
        found = {record.id: record for record in chosen}
        lost = [
            id for id, known in self._known.items() if id not in found or known.record != found[id]
        ]
        await asyncio.gather(*map(self._forget, lost))
        due = [record for id, record in found.items() if self._is_due(id)]
        await asyncio.gather(*map(self._attach, due))

    def _is_due(self, id: str) -> bool:
        known = self._known.get(id)
        if known is None:
            return True
        return known.environment is None and time.monotonic() - self._tried[id] > RETRY_SECONDS

    async def _attach(self, record: EnvironmentRecord) -> None:
        self._tried[record.id] = time.monotonic()
        known = self._known[record.id] = await attach_known(record, observes=True)
        if known.environment is not None:
            self._watching[record.id] = asyncio.create_task(
                self._watch(record.id, known.environment)
            )

    async def _watch(self, id: str, environment: Environment) -> None:
        try:
            async for _ in environment.events():
                self.changed.set()
        except EnvironmentUnavailable as error:
            self._known[id] = self._known[id]._replace(
                environment=None, state="gone", problem=str(error)
            )
            await detach(environment)
            self.changed.set()

    async def _forget(self, id: str) -> None:
        known, watching = self._known.pop(id), self._watching.pop(id, None)
        if watching is not None:
            watching.cancel()
            await asyncio.wait([watching])
        if known.environment is not None:
            await detach(known.environment)

    async def _sample(
        self, known: KnownEnvironment, before: dict[tuple[str, str], _Measured]
    ) -> EnvironmentUsage:
        record, environment = known.record, known.environment
        plain = EnvironmentUsage(
            id=record.id,
            task=record.task,
            kind=record.kind,
            state=known.state,
            created=record.created,
        )
        if environment is None:
            return plain
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                used, infos = await asyncio.gather(usage_of(environment), environment.processes())
                running = [info for info in infos if info.is_running or info.left][-MOST_PROCESSES:]
                processes = await asyncio.gather(
                    *(self._process(environment, info, before) for info in running)
                )
        except TimeoutError:
            return msgspec.structs.replace(plain, state="stalled")
        except ExecutionError:
            return msgspec.structs.replace(plain, state="gone")
        seconds, memory = (None, None) if used is None else (used.cpu, used.memory)
        percent = None if seconds is None else self._percent((record.id, ""), seconds, before)
        return msgspec.structs.replace(
            plain,
            cpu_seconds=seconds,
            cpu_percent=percent,
            memory_bytes=memory,
            processes=tuple(processes),
        )

    async def _process(
        self, environment: Environment, info: ProcessInfo, before: dict[tuple[str, str], _Measured]
    ) -> ProcessUsage:
        tree = await tree_of(environment, info.id)
        seconds = sum(member.cpu_seconds for member in tree.members)
        return ProcessUsage(
            id=info.id,
            pid=info.pid,
            started=info.started,
            command=info.command,
            members=len(tree.members),
            state=info.state if info.ending is None else f"{info.ending}, {info.left} left",
            cpu_seconds=seconds,
            cpu_percent=self._percent((environment.id, info.id), seconds, before),
            memory_bytes=sum(member.rss for member in tree.members),
            ports=tree.ports,
        )

    def _percent(
        self, key: tuple[str, str], seconds: float, before: dict[tuple[str, str], _Measured]
    ) -> float | None:
        """CPU of one core since the sample before.

        An ended child's time may be lost, so it is never below 0.
        """
        now, earlier = time.monotonic(), before.get(key)
        self._measured[key] = _Measured(now, seconds)
        if earlier is None or now <= earlier.at:
            return None
        return max(0.0, round(100 * (seconds - earlier.seconds) / (now - earlier.at), 1))


COMMANDS = {
    "top": Command(
        ABOUT,
        options(
            """\
--once                     print the table once, also at a terminal
--interval S: float = 2.0  seconds (default: %(default)g)""",
            JSON,
            IN,
        ),
        _top,
    )
}
