"""A separate process: bash or an argv, on pipes or on a terminal, in its own kernel session."""

from __future__ import annotations

import fcntl
import os
import struct

from ..life.fast_stdlib import signal
from ..life.process_attributes import fork
from ..limits import PENDING_INPUT, SCRIPT_GRACE
from ..shells.login import prologue
from . import tree
from .job import Drain, Job, TerminalDrain, ending_of
from .posix_spawn import Spawner
from .refusals import refusal
from .stdin_writer import InputClosed, StdinWriter
from .waiting import commands_of, identity_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..life.resident import Resident
    from ..shells.shell import Shell
    from .job import StartOptions

    Streams = tuple[int, int, int]

TIOCSCTTY, TIOCSWINSZ = 0x540E, 0x5414
# Python ignores the first two, and an ignored signal stays ignored across exec.
INHERITED_SIGNALS = (
    signal.SIGPIPE,
    signal.SIGXFSZ,
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGCHLD,
    signal.SIGTERM,
    signal.SIGUSR1,
)
END_OF_FILE = b"\x04"  # end of input on a terminal
CLEARED = 32  # processes that are named when they end with their terminal


class Process(Job):
    """A process that its constructor starts.

    Raises OSError if the system refuses a process or descriptor.
    """

    pid: int

    writer: StdinWriter | None = None
    input_identity: tuple[int, int] | None = None  # device and inode of its terminal or input pipe

    def __init__(self, resident: Resident, options: StartOptions) -> None:
        super().__init__(resident, options)
        self.personal = options.personal
        self.pty, self.rows, self.cols, self.cwd = (
            options.pty,
            options.rows,
            options.cols,
            options.cwd or "",
        )
        opened: list[int] = []  # to close after the fork
        try:
            self._begin(options, self._open_streams(options, opened))
        except OSError:
            self._close_parents_ends()
            raise
        finally:
            for fd in opened:
                os.close(fd)
        if options.stdin_fd is not None:
            os.close(options.stdin_fd)  # on failure the caller closes it
        for drain in self.drains:
            drain.listen()

    def _begin(self, options: StartOptions, streams: Streams) -> None:
        options.environ = dict(options.environ, **{tree.TAG_VARIABLE: self.process_tag})
        self.pid = spawn(self.resident, options, self.number, streams)
        self.resident.loop.on_exit(self.pid, self._exited)

    def _open_streams(self, options: StartOptions, opened: list[int]) -> Streams:
        """Descriptors for the child's 0, 1, 2; adds those that are not needed after the fork to
        `opened`.
        """
        loop = self.resident.loop
        if self.pty:
            master, slave = os.openpty()
            opened.append(slave)
            os.set_blocking(master, False)
            set_size(master, self.rows, self.cols)
            self.input_identity = identity_of(os.fstat(slave))
            self.drains.append(TerminalDrain(loop, master, self.out))
            self.writer = StdinWriter(loop, os.dup(master))
            if options.stdin_fd is not None:
                self._type(options.stdin_fd)
            return slave, slave, slave
        read_in = self._open_input(options, opened)
        outs = []
        for log in self.logs():
            read_end, write_end = os.pipe2(os.O_CLOEXEC)
            opened.append(write_end)
            os.set_blocking(read_end, False)
            self.drains.append(Drain(loop, read_end, log))
            outs.append(write_end)
        return read_in, outs[0], outs[-1]

    def _type(self, given: int) -> None:
        """Types a whole input into a terminal, followed by its end."""
        source = os.dup(given)

        def more(error: InputClosed | None = None) -> None:
            data = os.read(source, PENDING_INPUT) if error is None else b""
            if data:
                self.write(data, more)
                return
            os.close(source)
            if error is None:
                self.close_input()

        more()

    def _open_input(self, options: StartOptions, opened: list[int]) -> int:
        if options.stdin_fd is not None:
            return options.stdin_fd
        if options.stdin != "pipe":
            return self.resident.null
        read_end, write_end = os.pipe2(os.O_CLOEXEC)
        opened.append(read_end)
        self.writer = StdinWriter(self.resident.loop, write_end)
        self.input_identity = identity_of(os.fstat(read_end))
        return read_end

    def _close_parents_ends(self) -> None:
        for drain in self.drains:
            drain.close()
        self._drop_input()

    def _drop_input(self) -> None:
        if self.writer is not None:
            self.writer.drop()

    @property
    def inodes(self) -> set[int | None]:
        return super().inodes | {self.input_identity[1] if self.input_identity else None}

    def members(self) -> list[int]:
        """The process, its descendants, and its orphans."""
        roots = [] if self.own_ending else [self.pid]
        return self.resident.tree_of(self, roots)

    def _exited(self, status: int) -> None:
        self._drop_input()
        if self.personal:
            self.own_ending = ending_of(status)
            self._end_leftovers()
        self.finish(ending_of(status))

    def _end_leftovers(self) -> None:
        """Ends what a process has left running when it ended itself."""
        if self.sweep is None and self._has_members():
            self.hang_up()
            self.sweep = self.end_members(SCRIPT_GRACE, self._swept)

    def _has_members(self) -> bool:
        try:
            return bool(self.members() or self.members())  # one empty answer may be a race
        except OSError:  # no descriptor available
            return True

    def hang_up(self) -> None:
        """Sends HUP to a person's terminal, as when its window is closed: an interactive shell
        ignores TERM.
        """
        if not self.personal:
            return
        try:
            members = self.members()
            others = commands_of(pid for pid in members if pid != self.pid)
        except OSError:  # no descriptor available: TERM and KILL follow
            return
        self.cleared += tuple(others[: CLEARED - len(self.cleared)])
        tree.send(members, signal.SIGHUP)

    # -- input
    @property
    def input_open(self) -> bool:
        return self.writer is not None and self.writer.is_open

    def write(self, data: bytes, taken: Callable[[InputClosed | None], None]) -> None:
        """Queues bytes; calls `taken(error)` once the process has read them, or cannot."""
        if self.writer is None:
            raise InputClosed()
        self.writer.write(data, taken)

    def close_input(self) -> None:
        if self.pty:
            self.write(END_OF_FILE, lambda error: None)
        elif self.writer is not None:
            self.writer.close()

    # -- terminal
    def resize(self, rows: int, cols: int) -> None:
        if self.writer is not None and self.writer.fd is not None:
            set_size(self.writer.fd, rows, cols)
            self.rows, self.cols = rows, cols


def set_size(fd: int, rows: int, cols: int) -> None:
    fcntl.ioctl(fd, TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))


def spawn(resident: Resident, options: StartOptions, number: int, streams: Streams) -> int:
    """Forks and execs.

    A program that cannot start ends as in a shell: 127 or 126 and a line on stderr.
    """
    program, cwd = options.argv[0], options.cwd or "/"
    if program == resident.bash and not options.pty and min(streams) > 2:
        try:
            return spawn_without_copy(resident, options, number, streams)
        except (OSError, NotImplementedError):
            pass  # the fork below reports the error, or works without the missing C function
    pid = fork()
    if pid:
        return pid
    status = 127
    try:
        prepare_child(streams, resident)
        if options.pty:
            fcntl.ioctl(0, TIOCSCTTY, 0)  # its controlling terminal
        resident.process_tags.set(number)
        os.chdir(cwd)
        os.execvpe(program, options.argv, options.environ)
    except BaseException as error:  # the child must never return into the parent's loop
        status, reason = refusal(error, options.argv, options.environ)
        os.write(2, os.fsencode(f"hermetic: {reason}\n"))
    finally:
        os._exit(status)


def spawn_without_copy(
    resident: Resident, options: StartOptions, number: int, streams: Streams
) -> int:
    """The same with posix_spawn, for a program in the page cache: copies no memory, but waits for
    the exec.

    Inherited settings are changed here and restored. Raises OSError and NotImplementedError.
    """
    if resident.spawner is None:
        resident.spawner = Spawner(INHERITED_SIGNALS)
    try:
        os.chdir(options.cwd or "/")
        resident.limits.restore()
        resident.process_tags.set(number)
        return resident.spawner.spawn(options.argv, options.environ, streams)
    finally:
        resident.process_tags.unset()
        resident.limits.widen()
        os.chdir("/")


def spawn_bash(
    resident: Resident, shell: Shell, cwd: str, login: bool, state_fd: int | None
) -> int:
    """Starts a bash as a session's shell.

    With a saved state it gets no variables but those of the state.
    """
    environ = dict(resident.environ) if state_fd is None else {}
    if not login:
        environ.pop("BASH_ENV", None)
    start = os.fsdecode(resident.orders.start(shell, state_fd))
    argv = [resident.bash_name, "--norc", "-l" if login else "--noprofile", "-c", start, "bash"]
    pid = fork()
    if pid == 0:
        try:
            prepare_child((resident.null,) * 3, resident)
            os.chdir(cwd)
            if login:
                at = argv.index("-c") + 1
                argv[at] = prologue(environ, resident.init_files, resident.keep_path) + argv[at]
            os.execvpe(resident.bash, argv, environ)
        finally:
            os._exit(127)
    return pid


def prepare_child(streams: Streams, resident: Resident) -> None:
    """In the forked child: a new kernel session, and the descriptors, signals and limits that
    programs expect.
    """
    os.setsid()
    signal.set_wakeup_fd(-1)
    for number in INHERITED_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    # Duplicate above 2 first: a target number may be one of the sources.
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3) for fd in streams]
    for target, fd in enumerate(high):
        os.dup2(fd, target)
    resident.limits.restore()
