"""A job: base class of commands in a session and of separate processes, with its output and its
ending.
"""

from __future__ import annotations

import fcntl
import os
import select
import time

from ..life.fast_stdlib import deque
from ..limits import COMMAND_SHOWN, FLOOD_PIPE, READS_AT_ONCE, TERMINAL_PIECE
from ..wire.frames import wire_text
from .output_log import OutputLog

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Protocol

    from ..life.loop import Loop, Watch
    from ..life.resident import Resident
    from ..life.server import Client
    from ..shells.session import Session
    from ..wire.frames import Fields

    class Driver(Protocol):
        """A person at the keyboard of a job."""

        key: str
        name: str
        since: float

        def describe(self) -> Fields: ...
        def end(self, reason: str) -> None: ...

    Ending = list[Any]  # name and arguments


PIPE_BYTES = 65536
FULL_READS = 4  # consecutive reads that filled the buffer: a sign of a flood
F_SETPIPE_SZ = 1031
# so many pieces of a terminal within so many seconds, with so many bytes, are a flood
FLOOD_PIECES, FLOOD_SECONDS, FLOOD_BYTES = 8, 0.1, 4096
FLOOD_PAUSE, FLOOD_PAUSES = 0.00005, 4  # seconds for it to print more, and how often for one piece
MOST_POLL = 1  # milliseconds, instead of a pause
SHORT_READ = 1024  # bytes: a shorter read of a terminal has emptied it
LONG_READ = 2048  # bytes: after a read of so many the kernel has more


class Drain:
    """Copies a descriptor into a log until its end.

    It outlives the job: late children may still print.
    """

    def __init__(self, loop: Loop, fd: int, log: OutputLog) -> None:
        self.loop, self.fd, self.log = loop, fd, log
        self.is_open = True
        self.watch: Watch | None = None
        self.full_reads = 0

    def listen(self) -> None:
        """Reads as data arrives. Without it only `read` and `flush` take data."""
        if self.is_open and self.watch is None:
            self.watch = self.loop.watch(self.fd, self.read)

    def read(self, turns: int = READS_AT_ONCE) -> None:
        if not self.is_open:
            return
        for _ in range(turns):
            try:
                count = os.readv(self.fd, (self.loop.buffer,))
            except BlockingIOError:
                return
            except OSError:  # EIO: the last process on a terminal has gone
                count = 0
            if not count:
                self.close()
                return
            self.log.append(self.loop.buffer[:count])
            if self.log.is_held():
                self._pause()
                return
            if count < 4096:
                return
            if count == PIPE_BYTES:
                self._enlarge_pipe()

    def _pause(self) -> None:
        """Stops reading while a follower with `hold` is far behind: the program blocks on its full
        pipe.
        """
        if self.watch is not None:
            self.loop.unwatch(self.watch)
            self.watch = None
            self.log.when_released += (self.listen,)

    def _enlarge_pipe(self) -> None:
        """Enlarges the pipe after a flood, so that the program and the resident run in parallel."""
        self.full_reads += 1
        if self.full_reads == FULL_READS:
            try:
                fcntl.fcntl(self.fd, F_SETPIPE_SZ, FLOOD_PIPE)
            except OSError:  # a terminal, or the user's pipe memory is used up
                pass

    def flush(self) -> None:
        """Reads what is available now, at most one pipe's capacity: a printing child cannot block
        the loop.
        """
        left = self.log.total + (PIPE_BYTES if self.full_reads < FULL_READS else FLOOD_PIPE)
        while self.is_open and self.log.total < left:
            before = self.log.total
            self.read(1)
            if self.log.total == before:
                return

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            if self.watch is not None:
                self.loop.unwatch(self.watch)
            os.close(self.fd)


class TerminalDrain(Drain):
    """Copies a terminal. One read returns at most 4 KiB of it, so several reads make one piece.

    In a flood the program gets a moment to print more: a few large pieces take far less processor
    time than many small ones, here and for every viewer. After a long read the kernel has more at
    hand, and `poll` returns as soon as that can be read. After a short one `poll` would return with
    the next few bytes, so that a pause is better.
    """

    def __init__(self, loop: Loop, fd: int, log: OutputLog) -> None:
        super().__init__(loop, fd, log)
        self.poll = select.poll()
        self.poll.register(fd, select.POLLIN)
        # when the newest pieces came, and the length of the log then
        self.pieces: deque[tuple[float, int]] = deque(maxlen=FLOOD_PIECES)

    def read(self, turns: int = READS_AT_ONCE) -> None:
        size, count, is_over, buffer = 0, 0, False, self.loop.buffer
        pauses = FLOOD_PAUSES if turns > 1 and self._is_flooded() else 0
        while self.is_open and size < TERMINAL_PIECE:
            try:
                count = os.readv(self.fd, (buffer[size:],))
            except BlockingIOError:
                if not pauses:
                    break
                pauses -= 1
                if count < LONG_READ:
                    time.sleep(FLOOD_PAUSE)
                else:
                    self.poll.poll(MOST_POLL)
                continue
            except OSError:  # EIO: the last process on the terminal has gone
                count = 0
            if not count:
                is_over = True
                break
            size += count
            if count < SHORT_READ and not pauses:  # the terminal is empty now
                break
        if size:
            self.log.append(buffer[:size])
            self.pieces.append((self.log.last, self.log.total))
        if is_over:
            self.close()
        elif self.log.is_held():
            self._pause()

    def _is_flooded(self) -> bool:
        if len(self.pieces) < FLOOD_PIECES:
            return False
        began, total = self.pieces[0]
        return self.log.last - began < FLOOD_SECONDS and self.log.total - total > FLOOD_BYTES


class StartOptions:
    """Options of a command or a process, as its request gave them."""

    id = session = tag = ""
    text = b""
    cwd: str | None = None  # None: the session's
    env: dict[str, str] | None = None  # added to the session's variables
    separate = False  # stderr has a log of its own
    stdin_fd: int | None = None  # the whole input
    known: int | None = None  # version of the session's state that it was judged by; None: any
    at: str | None = None  # cwd that it was judged by; None: any

    # Of a process:
    argv: list[str] | tuple[str, ...] = ()
    environ: Mapping[str, str] = {}  # all its variables; complete before it starts, as is `cwd`
    stdin = "null"
    pty = False
    rows, cols = 24, 80
    script: Fields | None = None
    personal = False  # a person's terminal: all its processes end with it

    def __init__(self, given: Fields | None = None) -> None:
        self.__dict__.update(given or {})

    def is_stale(self, session: Session) -> bool:
        """Whether the session's state or cwd has changed since the command was judged."""
        if self.known is None:
            return False
        return self.known != session.exports.changes or self.at not in (
            None,
            wire_text(session.cwd),
        )


class Job:
    """A running or ended job: identity, output, ending, and listeners."""

    kind = "process"
    pty = False
    rows, cols = 24, 80
    pid: int | None = None
    cwd = ""
    cwd_after: str | None = None  # cwd of its session after it, if known
    duration: float | None = None
    ending: Ending | None = None
    own_ending: Ending | None = None  # of its own process, while its tree is being ended
    is_ending = False  # its end was requested: it must not begin any more
    forced: Ending | None = None  # ending set by a timeout, a cancel or a kill
    sweep: object | None = None  # not None: its tree is being ended
    claimant: Client | None = None  # the connected client that reports on it
    driver: Driver | None = None  # the person whose input alone it takes
    personal = False  # a person's terminal: all its processes end with it
    handed: Fields | None = None  # the last time that a person gave it back
    inputs: list[list[Any]] | None = None  # whose input it got
    cleared: tuple[str, ...] = ()  # commands of the processes that ended with it
    has_yielded = False  # its time ran out and it goes on; it may not have begun yet
    end_listeners: tuple[Callable[[], None], ...] = ()
    yield_listeners: tuple[Callable[[], None], ...] = ()
    _kept: tuple[int, int] | None = None

    def __init__(self, resident: Resident, options: StartOptions) -> None:
        self.resident, self.number = resident, resident.next_number()
        self.id, self.session, self.text = options.id, options.session, options.text
        self.tag = options.tag  # label that its starter attached
        self.out = OutputLog(resident.spool)
        self.err = OutputLog(resident.spool) if options.separate else None
        self.drains: list[Drain] = []
        self.started, self._clock = time.time(), time.monotonic()
        self.notes: list[str] = []

    @property
    def process_tag(self) -> str:
        return "%s.%d" % (self.resident.id, self.number)

    @property
    def input_open(self) -> bool:
        return False

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._clock

    @property
    def has_ended(self) -> bool:
        return self.ending is not None

    @property
    def inodes(self) -> set[int | None]:
        """Inodes of its output pipes or its terminal."""
        return {os.fstat(drain.fd).st_ino for drain in self.drains if drain.is_open}

    def members(self) -> list[int]:
        """Its processes now, parents first."""
        raise NotImplementedError

    def logs(self) -> list[OutputLog]:
        return [self.out] if self.err is None else [self.out, self.err]

    def kept_bytes(self) -> tuple[int, int]:
        """`(memory, disk)` of its output when the job ended; output of late children is not
        counted.
        """
        if self._kept is None:
            self._kept = (
                sum(len(log.head) for log in self.logs()),
                sum(log.spooled_bytes for log in self.logs()),
            )
        return self._kept

    def describe(self) -> Fields:
        """The job as INFO of the protocol."""
        fields = {
            "id": self.id,
            "kind": self.kind,
            "session": self.session,
            "pid": self.pid or 0,
            "pty": self.pty,
            "rows": self.rows,
            "cols": self.cols,
            "cwd": self.cwd,
            "command": self.text[:COMMAND_SHOWN].decode("utf-8", "replace"),
            "started": self.started,
            "duration": self.elapsed if self.duration is None else self.duration,
            "state": "ended" if self.has_ended else "running",
            "ending": self.ending,
            "out": self.out.total,
            "err": None if self.err is None else self.err.total,
            "input": "open" if self.input_open else "closed",
            "tag": self.tag,
        }
        if self.driver is not None:
            fields["driver"] = self.driver.describe()
        if self.handed is not None:
            fields["handed"] = self.handed
        if self.personal:
            fields["personal"], fields["cleared"] = True, list(self.cleared)
        return fields

    def claim(self, client: Client) -> bool:
        """Makes this client the reporter if no connected client is.

        Returns whether it is the reporter.
        """
        if self.claimant is None or self.claimant.closed:
            self.claimant = client
        return self.claimant is client

    def when_ended(self, callback: Callable[[], None]) -> None:
        if self.has_ended:
            callback()
        else:
            self.end_listeners += (callback,)

    def stop_awaiting(self, callback: Callable[[], None]) -> None:
        """Takes back `when_ended`."""
        self.end_listeners = tuple(one for one in self.end_listeners if one != callback)

    def notify_yielded(self) -> None:
        self.has_yielded = True
        listeners, self.yield_listeners = self.yield_listeners, ()
        for listener in listeners:
            listener()

    def end(self, grace: float, ending: Ending | None) -> None:
        """Ends the whole tree. The job ends with `ending`; None: as its process did."""
        if self.has_ended:
            return
        self.is_ending = True
        if self.forced is None and self.own_ending is None:  # else it was over before
            self.forced = ending
        if self.sweep is None:
            self.hang_up()
            self.sweep = self.end_members(grace, self._swept)

    def hang_up(self) -> None:
        """Prepares the end of a whole tree."""

    def end_members(self, grace: float, done: Callable[[list[int]], None]) -> object:
        """Ends its processes; calls `done(survivors)` when no process is left that can be ended."""
        return self.resident.sweep(self.members, grace, done)

    def _swept(self, survivors: list[int]) -> None:
        self.sweep = None
        if survivors:
            self.notes.append(
                "not all could be ended, another user owns or the kernel holds: %s"
                % " ".join(map(str, survivors))
            )
        self._maybe_finish()

    def finish(self, ending: Ending | None) -> None:
        """Records the end of the job's own process.

        The job ends after a running sweep of its tree.
        """
        self.own_ending = ending
        self._maybe_finish()

    def _maybe_finish(self) -> None:
        if self.has_ended or self.own_ending is None or self.sweep is not None:
            return
        for drain in self.drains:
            drain.flush()
        self.duration = self.elapsed
        for log in self.logs():
            if log.ring is not None and log.trouble:
                note = "output was dropped: %s" % self.resident.spool_full(log.trouble)
                self.notes += [] if note in self.notes else [note]
        memory = self.resident.memory
        self.ending = self.forced or (
            memory.explain(self.own_ending) if memory else self.own_ending
        )
        listeners, self.end_listeners, self.yield_listeners = self.end_listeners, (), ()
        for listener in listeners:
            listener()
        self.resident.job_ended(self)

    def drop_output(self) -> None:
        """Drops the output of an ended job that stays, because of processes that it left running."""
        for log in self.logs():
            log.clear()
        self._kept = None
        self._read_to_nowhere()

    def close(self) -> None:
        """Drops its output."""
        for log in self.logs():
            log.close()
        self._read_to_nowhere()

    def _read_to_nowhere(self) -> None:
        """Keeps reading from a child that still prints: it must not get SIGPIPE."""
        for drain in self.drains:
            drain.read()
            drain.listen()


def ending_of(status: int) -> Ending:
    """The ending that a wait status means."""
    if os.WIFSIGNALED(status):
        return ["signalled", os.WTERMSIG(status)]
    return ["exited", os.WEXITSTATUS(status)]
