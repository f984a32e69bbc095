"""Commands and processes in a place without Python: each is one bash there that starts it and tells of it."""

from __future__ import annotations

import os

from ..limits import BARE_BEGIN, BARE_LATE_OUTPUT
from ..processes.job import Job, ending_of
from ..processes.process import Process
from ..shells.command import Command
from .keeper import BareSweep
from .line import ERR, OUT, Complaints, Line
from .scripts import LOADER, SUPERVISE, order

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..processes.job import Ending, StartOptions
    from ..processes.stdin_writer import StdinWriter
    from .resident import BareResident
    from .session import BareSession


class Start:
    """What a bash in the place is to start."""

    def __init__(
        self,
        cwd: str,
        flags: str,
        state: bytes,
        text: bytes = b"",
        wrap: bytes = b"",
        options: str = "",
        argv: tuple[bytes, ...] = (),
    ) -> None:
        self.cwd, self.flags, self.state, self.text, self.wrap = cwd, flags, state, text, wrap
        self.options, self.argv = options, argv

    def order(self, token: bytes, mark: str, second_mark: bytes) -> bytes:
        loader = b"" if self.argv else LOADER.encode()
        return order(
            SUPERVISE,
            token,
            mark.encode(),
            second_mark,
            os.fsencode(self.cwd),
            self.flags.encode(),
            loader,
            self.options.encode(),
            self.state,
            self.text,
            self.wrap,
            *self.argv,
        )


class Report:
    """What came of a program that was started there, as far as it has been told."""

    def __init__(self, streams: set[int]) -> None:
        self.awaited: set[object] = {*streams, b"S", b"E"}  # streams whose end, and records, that have not come
        self.pid: int | None = None
        self.cwd = ""
        self.state: bytes | None = None
        self.ending: Ending | None = None

    def take(self, stream: int, record: bytes) -> None:
        kind, rest = record[:1], record[1:]
        if not record:
            self.awaited.discard(stream)
        elif stream != ERR:
            return
        elif kind == b"C":
            self.cwd = os.fsdecode(rest)
        elif kind == b"B" and rest.isdigit():
            self.pid = int(rest)
        elif kind == b"S":
            self.state = rest
            self.awaited.discard(kind)
        elif kind == b"E":
            status, _, how = rest.partition(b" ")
            number = int(status) if status.isdigit() else 0
            self.ending = ["signalled", number - 128] if how == b"s" else ["exited", number & 255]
            self.awaited.discard(kind)

    @property
    def is_whole(self) -> bool:
        return not self.awaited


class BareJob(Job):
    """The part that commands and processes share. `line` is None before it is sent in."""

    resident: BareResident
    line: Line | None = None
    report: Report
    writer: StdinWriter | None = None  # what is written to it while it runs
    again: tuple[Start, bool] | None = None  # how it is sent in once more, should the way in break off at once

    def send(self, start: Start, stdin_fd: int | None, live: bool = False) -> None:
        """Start it there. The input is closed by us. Raises OSError when no process or descriptor can be had."""
        self.begun_listeners: list[Callable[[], None]] = []
        self.line_listeners: list[Callable[[], None]] = []
        self.again = (start, live) if stdin_fd is None else None
        self._send(start, stdin_fd, live)

    def _send(self, start: Start, stdin_fd: int | None, live: bool) -> None:
        self.complaints = Complaints()
        self.report = Report({OUT} if self.err is None else {OUT, ERR})
        start.flags += ("" if self.err is None else "s") + ("i" if live or stdin_fd is not None else "")
        token = os.urandom(16).hex().encode()
        text = start.order(token, self.process_tag, self.resident.keeper.second_mark(self.number))
        self.line = Line(
            self.resident,
            text,
            token,
            self.out,
            self.complaints if self.err is None else self.err,
            self._told,
            self._line_ended,
        )
        self.drains = self.line.drains
        if stdin_fd is not None:
            self.line.feed.pour(stdin_fd)
        elif not live:
            self.line.feed.close()
        if live:
            self.writer = self.line.feed

    @property
    def has_begun(self) -> bool:
        return self.line is not None and self.report.pid is not None

    @property
    def subject(self) -> str:
        """What the keeper knows its processes by."""
        is_running = self.has_begun and self.own_ending is None
        return "%d+%d" % (self.number, self.pid or 0) if is_running else str(self.number)

    def _told(self, stream: int, record: bytes) -> None:
        before = self.has_begun
        self.report.take(stream, record)
        if self.has_begun and not before:
            self.pid = self.report.pid
            listeners, self.begun_listeners = self.begun_listeners, []
            for listener in listeners:
                listener()
        if self.report.is_whole and self.own_ending is None:
            self.ended_there(self.report.ending or ["exited", 0])

    def ended_there(self, ending: Ending) -> None:
        """Its program has ended, and all it printed is here."""
        self.finish(ending)

    def _line_ended(self) -> None:
        """The way in has ended: with everything told, or cut off."""
        listeners, self.line_listeners = self.line_listeners, []
        for listener in listeners:
            listener()
        if self.own_ending is not None or self._is_sent_again():
            return
        how = "%s %d" % tuple(ending_of(self.line.status or 0)) if self.line is not None else ""
        reason = "the way to it ended (%s): %s" % (how, str(self.complaints) or "it said nothing")
        # Where the place itself is gone, nobody may find this resident any more once that is told.
        self.resident.keeper.ask("look", "-", "/", lambda _: self.lose(reason))

    def _is_sent_again(self) -> bool:
        """True when the way in broke off before it told the directory, so before anything was started; once."""
        if self.again is None or self.report.cwd or self.report.pid is not None or self.is_ending:
            return False
        (start, live), self.again = self.again, None
        try:
            self._send(start, None, live)
        except OSError:
            return False
        return True

    def lose(self, reason: str) -> None:
        """Nobody hears of it any more; what may still run there is ended."""
        if not self.has_ended:
            BareSweep(self.resident.keeper, self.subject, 0, lambda _: None)
            self.finish(["lost", reason])

    def end_members(self, grace: float, done: Callable[[list[int]], None]) -> object:
        return BareSweep(self.resident.keeper, self.subject, grace, lambda left: self._hear_out(left, done))

    def _hear_out(self, left: list[int], done: Callable[[list[int]], None]) -> None:
        """What they printed comes by way of a `cat` there, which ends when nobody holds its input any more."""
        if left or self.line is None or self.line.status is not None:
            done(left)
            return

        def heard() -> None:
            timer.cancel()
            self.line_listeners = [listener for listener in self.line_listeners if listener is not heard]
            done(left)

        timer = self.resident.loop.call_later(BARE_LATE_OUTPUT, heard)
        self.line_listeners.append(heard)

    def end(self, grace: float, ending: Ending | None) -> None:
        if self.has_ended or self.has_begun or self.is_ending:
            Job.end(self, grace, ending)
            return
        self.is_ending, self.forced = True, ending
        timer = self.resident.loop.call_later(BARE_BEGIN, lambda: self.lose("it did not begin in time"))
        self.begun_listeners += [timer.cancel, lambda: Job.end(self, grace, ending)]
        self.when_ended(timer.cancel)


class BareCommand(BareJob, Command):
    """A command of a session."""

    home: BareSession

    def __init__(self, resident: BareResident, session: BareSession, options: StartOptions) -> None:
        Command.__init__(self, resident, session, options)

    def take_input(self) -> int | None:
        """Its input, which is ours to close from now on."""
        fd, self.options.stdin_fd = self.options.stdin_fd, None
        return fd

    def ended_there(self, ending: Ending) -> None:
        self.home.ended(self)
        self.finish(ending)

    def lose(self, reason: str) -> None:
        if not self.has_ended:
            self.home.ended(self)
        super().lose(reason)

    def end(self, grace: float, ending: Ending | None) -> None:
        if self.line is None:
            Command.end(self, grace, ending)  # still waits for its turn
        else:
            BareJob.end(self, grace, ending)


class BareProcess(BareJob, Process):
    """A process of its own. It is sent in by its constructor."""

    def __init__(self, resident: BareResident, options: StartOptions, start: Start) -> None:
        Job.__init__(self, resident, options)
        self.cwd = start.cwd
        self.send(start, options.stdin_fd, options.stdin == "pipe")

    def ended_there(self, ending: Ending) -> None:
        if self.writer is not None:
            self.writer.drop()
        self.finish(ending)
