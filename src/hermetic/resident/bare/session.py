"""A shell session without a living shell: each command is a fresh bash that takes the state in and tells what it left.

The state is kept here as text and never lies in a file. Commit or roll back is one rule, as with living shells: a
command that comes back tells its state, one that ends its shell tells none. Jobs and open descriptors are no text, and
are not carried.
"""

from __future__ import annotations

import os
from copy import copy

from ..life.fast_stdlib import deque
from ..life.loop import Waiters
from ..shells.exports import Definitions, Exports, parse_exports, trap_texts
from ..shells.orders import StateReport, assignments
from ..shells.pool import ShellPool
from ..shells.session import Session
from ..shells.state import SavedState, trap_lines
from .jobs import BareCommand, Report, Start
from .keeper import BareSweep
from .line import OUT, Complaints, Line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..shells.command import Command
    from .resident import BareResident

# bash sets these where it finds none: what a command has unset has to be unset again.
_SET_BY_BASH = (b"PATH", b"HOME", b"IFS", b"TERM", b"SHELL", b"PS4", b"OPTIND", b"OPTERR")


class State:
    """What a command left, told by its bash. Raises ValueError where it is not what bash prints."""

    def __init__(self, data: bytes) -> None:
        whole = StateReport(data)
        logical, physical, exports, rest = whole.text.split(b"\0", 3)
        whole.traps.pop(b"EXIT", None)
        told = SavedState(rest, whole.disabled)
        self.logical = os.fsdecode(logical[:-1])
        self.physical = os.fsdecode(physical[:-1])
        self.told_exports = exports
        unset = b"".join(b"builtin unset %s\n" % name for name in _SET_BY_BASH if name not in told.names)
        self.has_traps = bool(whole.traps)
        self.text = unset + told.text + trap_lines(whole.traps)
        self.definitions = b"\0".join((told.variables, told.functions, told.aliases, trap_texts(whole.traps)))
        self._exports: dict[str, str] | None = None

    @property
    def exports(self) -> dict[str, str]:
        if self._exports is None:
            self._exports = parse_exports(self.told_exports)
            self._exports.pop("HERMETIC_COMMAND", None)
        return self._exports


def read_state(data: bytes | None) -> State | None:
    """The state in a record; None where there is none, or not all of one."""
    if data is None:
        return None
    try:
        return State(data)
    except (ValueError, IndexError):
        return None


class BareSession(Session):
    """A session to whoever asks; nothing of a living one is in it."""

    resident: BareResident

    def __init__(self, resident: BareResident, name: str, cwd: str, login: bool) -> None:
        self.resident, self.loop, self.name = resident, resident.loop, name
        self.base_cwd = cwd
        self.state: State | None = None
        self.queue: deque[BareCommand] = deque()
        self.current: BareCommand | None = None  # the one whose state will be the session's
        self.running: set[BareCommand] = set()
        self.notes: list[str] = []  # for the next result
        self.pool = ShellPool(resident, self)  # empty: there are no living shells
        self.exports = BareExports(self)
        self.definitions = BareDefinitions(self)
        self.when_started = Waiters(self.loop)
        self.closed = False
        if resident.first_state is not None:
            self.state = copy(resident.first_state)
        else:
            self._start(login)

    @property
    def is_starting(self) -> bool:
        return False

    @property
    def is_idle(self) -> bool:
        return not (self.running or self.queue)

    @property
    def cwd(self) -> str:
        return self.state.physical if self.state is not None else self.base_cwd

    # -- starting
    def _start(self, login: bool) -> None:
        """A first bash, with the user's profile and a time limit for it, tells the state to begin with."""
        resident = self.resident
        number = resident.next_number()
        report, complaints = Report({OUT}), Complaints()
        over = False

        def finish(why: str) -> None:
            nonlocal over
            if over:
                return
            over = True
            timer.cancel()
            BareSweep(resident.keeper, str(number), 0, lambda _: None)
            self._started(read_state(report.state), login, why)

        def told(stream: int, record: bytes) -> None:
            report.take(stream, record)
            if report.is_whole:
                finish("ended with %s %d" % tuple(report.ending or ["exited", 0]))

        timer = self.loop.call_later(
            resident.login_timeout, lambda: finish("did not finish within %g s" % resident.login_timeout)
        )
        environ = b"export " + assignments(resident.environ) if resident.environ else b""
        start = Start(self.base_cwd, "L", environ, options="-l" if login else "--noprofile")
        token = os.urandom(16).hex().encode()
        mark = "%s.%d" % (resident.id, number)
        try:
            line = Line(
                resident,
                start.order(token, mark, resident.keeper.second_mark(number)),
                token,
                complaints,
                complaints,
                told,
                lambda: finish("could not be read: %s" % complaints),
            )
            line.feed.close()
        except OSError as error:
            why = "could not be read: %s" % error.strerror
            self.loop.call_soon(lambda: finish(why))

    def _started(self, state: State | None, login: bool, why: str) -> None:
        if self.closed:
            return
        if state is None and login:
            self.notes.append("the login profile %s: the session was started without it" % why)
            self._start(login=False)
            return
        self.state, self.resident.first_state = state, copy(state)
        if state is None:
            self._refuse_waiting("bash cannot be started here: it %s" % why)
            self.resident.forget_session(self)
        self.when_started.notify()
        self.advance()

    # -- commands
    def run(self, command: Command) -> None:
        assert isinstance(command, BareCommand), "made by our own resident"
        self.queue.append(command)
        self.advance()

    def withdraw(self, command: Command) -> None:
        """A command that waits for the session to start is not wanted any more."""
        self.queue = deque(other for other in self.queue if other is not command)
        command.shell_left()

    def advance(self) -> None:
        while self.queue and self.state is not None and not self.closed:
            command = self.queue.popleft()
            self._send_line(command, self.state)
            if command.has_yielded:
                self.yield_command(command)

    def _send_line(self, command: BareCommand, state: State) -> None:
        if command.options.is_stale(self):
            command.refuse_stale()
            return
        if self.current is None:
            self.current = command
            command.notes[:0] = self.notes
            self.notes = []
        else:
            command.in_primary = False
            command.notes.append("state not kept: another command of this session was running")
        self.running.add(command)
        wrap = b""
        if command.options.env:
            wrap = assignments(command.options.env) + b' builtin command eval "$__h_u"'
        exact = command.options.cwd
        # T needs `command`, the one word before `exec` whose redirections stay: not where it means something else.
        traps = b"trap" in command.text or state.has_traps
        flags = "cT" if traps and b"\ncommand () " not in state.text else "cR"
        command.cwd = exact or state.logical
        start = Start(exact or state.logical, flags + ("e" if exact else ""), state.text, command.text, wrap)
        command.left_cwd = "" if exact else state.physical
        stdin_fd = command.take_input()
        try:
            command.send(start, stdin_fd)
        except OSError as error:
            if stdin_fd is not None:
                os.close(stdin_fd)
            self.ended(command)
            command.finish(["lost", "no process can be had: %s" % error.strerror])

    def ended(self, command: BareCommand) -> None:
        """A command's bash has ended, or nobody hears of it any more: its state is the session's, or is dropped."""
        self.running.discard(command)
        if command.line is None:
            return
        report = command.report
        if command.left_cwd and report.cwd and report.cwd != command.left_cwd:
            command.notes.append("cwd fell back to %s: %s no longer exists" % (report.cwd, command.left_cwd))
        if self.current is not command:
            return
        self.current = None
        state = read_state(report.state)
        if state is None or command.is_ending:
            command.notes.append(
                "state restored: the command ended its shell, so variables, functions and directory are as before it"
            )
            self._stand_where(report.cwd, command)
        else:
            self._commit(state, command)
        self.loop.call_soon(self.advance)

    def _commit(self, state: State, command: BareCommand) -> None:
        if command.options.cwd is not None and self.state is not None:
            state.logical, state.physical = self.state.logical, self.state.physical
        self.state = state
        self.exports.changed()

    def _stand_where(self, cwd: str, command: BareCommand) -> None:
        """A directory that is gone is gone for the next command too; it is told once."""
        if self.state is not None and command.left_cwd and cwd and cwd != self.state.physical:
            self.state.logical = self.state.physical = cwd

    def yield_command(self, command: Command) -> None:
        """The command goes on; what it does to its state is dropped."""
        command.note_yield()
        if self.current is command:
            command.in_primary = False
            self.current = None

    def existing_cwd(self) -> tuple[str, str | None]:
        return self.cwd, None

    # -- ending
    def _refuse_waiting(self, why: str) -> None:
        waiting, self.queue = self.queue, deque()
        for command in waiting:
            command.finish(["lost", why])
            command.shell_left()

    def close(self) -> None:
        self.closed = True
        self._refuse_waiting("the session was ended before the command began")
        self.when_started.notify()


class BareExports(Exports):
    session: BareSession

    def request(self, answer: Callable[[dict[str, str]], None]) -> None:
        session = self.session
        if session.state is not None or session.closed:
            answer(dict(session.state.exports if session.state is not None else session.resident.environ))
        else:
            session.when_started.add(lambda: self.request(answer))


class BareDefinitions(Definitions):
    session: BareSession

    def request(self, answer: Callable[[bytes], None]) -> None:
        session = self.session
        if session.state is not None or session.closed:
            answer(session.state.definitions if session.state is not None else b"")
        else:
            session.when_started.add(lambda: self.request(answer))
