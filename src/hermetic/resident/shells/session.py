"""A shell session whose state survives every command.

The *primary shell* runs the commands. A *standby* is an idle fork of it. When the primary shell
dies, the newest ready standby becomes primary. While the primary shell is busy, a command runs on a
fork of a standby. A yielded command keeps its shell, and a standby becomes primary. One rule covers
commit and rollback: a command that ends its shell leaves the state as it was before it.
"""

from __future__ import annotations

from ..life.fast_stdlib import deque, signal
from ..life.loop import Waiters
from ..limits import LARGE_COMMAND, NESTING
from ..processes.job import ending_of
from ..processes.process import spawn_bash
from ..processes.tree import children, is_reaped, send
from . import traps
from .command import Redefinitions, choose_verb, learn
from .exports import Exports, check_stdin, cwd_of, leave_removed_cwd, return_to_existing
from .first_shell import FirstShell
from .move import Move
from .orders import is_unclosed
from .parallel import FRESH, PARALLEL, ParallelShells
from .pool import ShellPool
from .state import can_move

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..life.resident import Resident
    from ..processes.job import Ending
    from .command import Command
    from .reports import Report
    from .shell import Shell

NO_STANDBY = "a command that ends its shell takes the state back further than itself"
RESTORED = "state restored: the command ended its shell, so variables, functions and directory are as before it"
EARLIER = (
    "state restored: the session's shell was lost between commands, the state is an earlier one"
)
LOST = "session lost: all shells of this session were killed; it was started afresh, from the login state"


class Session:
    def __init__(self, resident: Resident, name: str, cwd: str, login: bool = True) -> None:
        self.resident, self.loop, self.name = resident, resident.loop, name
        self.base_cwd, self.login = cwd, login
        self.waiting: deque[Command] = deque()  # commands without a shell
        self.pool = ShellPool(resident, self)
        self.primary: Shell | None = None
        self.parallel = ParallelShells(self)
        self.has_standby = False  # a standby with the primary shell's state exists or is ordered
        self.newest_standby = 0  # age of the last standby that was ordered
        self.shortage = ""  # why no standby could be ordered
        self.needs_standby = False
        self.has_null_stdin = False  # of the primary shell
        self.redefinitions = Redefinitions()
        # its processes carry no tag in their limits
        self.is_untagged = not resident.process_tags.base
        # then: jobs of earlier commands, which the end of a later one must spare
        self.protected: set[int] = set()
        self.notes: list[str] = []  # for the next result
        self.exports = Exports(self)
        self.closed = self.move_soon = self.must_move = False
        self.move: Move | None = None
        self.commands_sent = 0  # to the primary shell so far
        self.first = FirstShell(self)
        self.when_primary = Waiters(self.loop)  # called once a dead primary shell is replaced
        self.when_started = Waiters(self.loop)  # called once the first shell has reported
        self.first.start(login)

    @property
    def is_idle(self) -> bool:
        is_busy = any(shell.command for shell in self.pool.shells.values())
        return not (is_busy or self.waiting or self.parallel.pending)

    @property
    def is_starting(self) -> bool:
        """Whether the first shell still reads the profile."""
        return self.first.timer is not None

    @property
    def cwd(self) -> str:
        """The directory in which the next command starts, read from /proc."""
        return cwd_of(self)

    # -- starting
    def spawn(self, login: bool, state_fd: int | None = None) -> Shell:
        """Starts a fresh bash with the profile or with a saved state.

        Raises OSError if the system refuses it.
        """
        shell = self.pool.new(0)
        try:
            pid = shell.pid = spawn_bash(self.resident, shell, self.base_cwd, login, state_fd)
        except OSError:
            self.pool.forget(shell)
            raise
        self.pool.watch(shell, pid, self._died)
        return shell

    def give_up(self, why: str) -> None:
        """Refuses the waiting commands, because no shell can be started.

        The next command tries again.
        """
        self._refuse_waiting(why)
        self.when_started.notify()
        self.when_primary.notify()

    def _refuse_waiting(self, why: str) -> None:
        """Ends commands that never began."""
        waiting = [*self.waiting, *self.parallel.commands()]
        self.waiting.clear()
        self.parallel.pending.clear()
        for command in waiting:
            command.conclude(["lost", why])

    def note(self, note: str) -> None:
        """Adds a note to the next result, once. After a loss no state is an earlier one."""
        if note not in self.notes and not (note == EARLIER and LOST in self.notes):
            self.notes.append(note)

    # -- commands
    def run(self, command: Command) -> None:
        self.waiting.append(command)
        self.advance()

    def withdraw(self, command: Command) -> None:
        """Removes a cancelled command that waits for a shell."""
        if command in self.waiting:
            self.waiting.remove(command)
        self.parallel.withdraw(command)
        command.shell_left()

    def advance(self) -> None:
        """Dispatches waiting commands while shells are available."""
        while self.waiting and not self.closed:
            if self.primary is None and not self._promote():
                return
            is_moving = self.move is not None and self.move.must
            if self.primary is None or self.primary.pid is None or self.is_starting or is_moving:
                return
            if self.waiting[0].options.is_stale(self):
                self.waiting.popleft().refuse_stale()
                continue
            if self.primary.command is not None:
                if not self.resident.has_subreaper:
                    # the death of a parallel shell would go unnoticed: run one after the other
                    return
                if self.pool.pending or not self.resident.quota.has_headroom():
                    self.await_reports()
                    return
                self._dispatch(self.waiting.popleft(), None)
            else:
                self._dispatch(self.waiting.popleft(), self.primary)

    def _dispatch(self, command: Command, shell: Shell | None) -> None:
        """Sends a command to a shell, or starts one for it.

        If the system refuses that, the command is lost.
        """
        try:
            if shell is None:
                self.parallel.run(command)
            else:
                self._send(command, shell)
        except Exception as error:
            command.shell = None
            if shell is not None:
                shell.command = None
            command.cannot_begin(error)

    def _send(self, command: Command, shell: Shell) -> None:
        command.in_primary = shell is self.primary
        if command.in_primary:
            self.pool.ensure_channel(shell)
            if not self.has_standby:
                self._order_standby(shell)
            if not self.has_standby:
                command.notes.append("no standby: %s; %s" % (self.shortage, NO_STANDBY))
            cwd = command.left_cwd = leave_removed_cwd(self, command)
            # It may have been sent before, to a shell that was lost too: the last loss counts.
            stale = {*self.notes, *([EARLIER] if LOST in self.notes else [])}
            command.notes = self.notes + [note for note in command.notes if note not in stale]
            self.notes = []
            self.commands_sent += 1
        else:
            cwd = self.cwd
            command.notes += [PARALLEL, FRESH] if shell.depth == 0 else [PARALLEL]
        command.cwd = command.options.cwd or cwd
        verb = choose_verb(self, command, shell)
        fields = command.open(verb, shell)
        command.shell, shell.command = shell, command
        command.pid = shell.pid
        shell.send(*fields)
        # The command runs by now. The analysis of its text is needed at its end.
        shell.has_run = True
        if shell is self.primary and not command.is_plain:
            learn(self, command)
        command.listen_soon()
        if not self.pool.pending:
            self.loop.spin_policy.expect_answer()
        if command.has_yielded:
            self.yield_command(command)

    # -- reports
    def reported(self, shell: Shell, report: Report) -> None:
        """Handles a shell's report. A report that does not fit the known state is ignored."""
        pid, number = report.pid, report.number
        if shell.pid is None:
            if not pid or pid in self.loop.children:
                return
            shell.pid = pid
            self.pool.watch(shell, pid, self._died)
            if is_reaped(pid):  # it died before its report was read, and no wait will return it
                self.loop.call_soon(lambda: self._missed_death(shell))
        elif shell.pid != pid:
            if shell.command is None or shell.command.number != number:
                return
            shell.is_distrusted = True  # the command has changed BASHPID
        shell.flags = report.flags
        if shell.command is not None and shell.command.number == number:
            if shell.command.is_ending:
                # It survived TERM while its tree is being ended: its state is rolled back like any
                # other's.
                send([shell.pid], signal.SIGKILL)
            else:
                status = traps.status_at_end(shell, shell.command, report)
                if status is not None:
                    self._command_ended(shell, shell.command, ["exited", status])
        elif number in shell.answers:
            shell.answers.pop(number)(True)
        elif shell is self.primary and self.is_starting:
            self.first.done()
            self._settle_idle()
            self.when_started.notify()
        elif shell in self.pool.pending:
            self.pool.add_standby(shell)
            if self.primary is None:
                self._promote()
        elif shell in self.parallel.pending:
            self._begin_parallel(shell)
        elif self.move is not None and shell is self.move.shell:
            self.move.arrived()
        self.pool.notify_reported()
        self.advance()

    def _begin_parallel(self, shell: Shell) -> None:
        command = self.parallel.take(shell)
        if command is not None:
            self._dispatch(command, shell)
            if shell.command is None:
                self.pool.forget(shell)

    def _missed_death(self, shell: Shell) -> None:
        if shell.pid is not None and self.loop.children.pop(shell.pid, None) is not None:
            self._died(shell, signal.SIGKILL)

    def _command_ended(self, shell: Shell, command: Command, ending: Ending) -> None:
        shell.command = None
        if command.is_plain and command.in_primary:
            command.cwd_after = command.left_cwd
        elif command.in_primary:
            self.has_standby = self.has_null_stdin = False
            self.exports.changed()
        command.finish(ending)  # the reply goes out first; the rest overlaps with it
        command.shell_left()
        if not command.in_primary:
            self.pool.forget(shell)
            return
        self.must_move = self.must_move or (ending[1] != 0 and is_unclosed(command.text))
        self.move_soon = self.move_soon or self.must_move or len(command.text) > LARGE_COMMAND
        if command.options.cwd is not None and self.cwd != command.left_cwd:
            return_to_existing(self, command.left_cwd, self.notes)
        self._settle_idle()
        self.resident.pipes.prepare()
        if not self.pool.pending:
            self.loop.spin_policy.expect_request()

    def _settle_idle(self) -> None:
        """Idle work after a command: order a standby of the new state, and note the jobs below the
        primary shell.
        """
        primary = self.primary
        if (
            primary is None
            or primary.pid is None
            or primary.command is not None
            or traps.is_distrusted(self, primary)
        ):
            return
        if not self.has_null_stdin:
            self.loop.call_before_sleep(lambda: check_stdin(self))  # off the next command's path
        # Before a standby is ordered: during the fork the primary shell has a child, and could not
        # be moved.
        if self.move is not None:  # of an earlier state: commands wait for the attempt after it
            self.move.must = self.move.must or self.must_move
        elif (primary.depth > NESTING or self.move_soon) and can_move(primary.pid):
            self.move = Move(self, primary, self.must_move)
        # it may be damaged
        if not (self.has_standby or (self.move is not None and self.move.must)):
            if self.resident.sweeps:
                # an unreported standby looks like an orphan of the tree that is being ended
                self.needs_standby = True
            else:
                self._order_standby(primary)
        if self.is_untagged:
            try:
                self.protected = set(children(primary.pid)) | (
                    self.protected & self.resident.note_orphans()
                )
            except OSError:  # no descriptor available
                pass

    def sweeps_ended(self) -> None:
        if self.needs_standby:
            self.needs_standby = False
            self._settle_idle()

    # -- standbys
    def _order_standby(self, primary: Shell) -> None:
        """Orders a standby.

        If the system allows one, no command runs before its standby has been ordered.
        """
        try:
            self.resident.quota.check()
            standby = self.pool.fork(primary)
        except OSError as error:
            self.shortage = error.strerror or str(error)
            return
        self.pool.pending.append(standby)
        self.newest_standby = standby.age
        self.has_standby, self.needs_standby = True, False

    def _promote(self) -> bool:
        """Promotes the newest ready standby.

        False while one has yet to report, or a new shell starts.
        """
        if self.is_starting or self.closed:
            return False
        if self.pool.pending:
            self.await_reports()
            return False
        standby = self.pool.take_newest()
        if standby is None:
            self.notes = [*(note for note in self.notes if note not in (EARLIER, LOST)), LOST]
            self.redefinitions, self.protected = Redefinitions(), set()
            self.first.start(self.login)
            self.when_primary.notify()
            return False
        if standby.age < self.newest_standby:
            self.note(EARLIER)
            self.redefinitions.open = True  # names that were reported since may be of a later state
        self.primary = standby
        self.when_primary.notify()
        self.has_standby = self.has_null_stdin = False
        self.exports.changed()
        # several exits in a row left no idle time for it
        is_deep = self.move is None and standby.depth > 2 * NESTING and can_move(standby.pid or 0)
        # without a subreaper a standby is not our child: its death would go unnoticed
        if is_deep or not self.resident.has_subreaper:
            self.move = Move(self, standby, must=True)
        if self.resident.has_subreaper and self.resident.sweeps:
            self.needs_standby = True
        elif self.resident.has_subreaper:
            self._order_standby(standby)
        return True

    # -- deaths
    def _died(self, shell: Shell, status: int) -> None:
        if self.closed:
            command, shell.command = shell.command, None
            if command is not None:
                command.finish(ending_of(status))
            return
        # Reports that were written before the death are handled first: the two wake-ups have no
        # order.
        self.resident.take_events()
        if shell.name not in self.pool.shells:
            return
        command, unread = shell.command, shell.unread_bytes()
        was_primary = shell is self.primary
        was_standby = shell in self.pool.pending or shell in self.pool.standbys[-1:]
        self.pool.forget(shell, kill=False)
        self.parallel.died(shell, status)
        if self.move is not None and shell is self.move.shell:
            self.move.abandon()
            self.move_ended(None)
        elif was_primary:
            self._primary_died(shell, status, command, unread)
        elif command is not None:
            shell.command = None
            if unread and not command.is_ending:
                self._wait_again(command)  # the shell never read the order
            else:
                command.conclude(ending_of(status))
        elif was_standby:
            self.has_standby = False
            self._settle_idle()
        self.advance()

    def _wait_again(self, command: Command) -> None:
        """Requeues a command whose shell never read the order: bytes left in its channel prove it."""
        command.shell = command.pid = None
        self.waiting.appendleft(command)

    def _primary_died(
        self, shell: Shell, status: int, command: Command | None, unread: int
    ) -> None:
        self.exports.changed()
        if self.is_starting:
            ending = ending_of(status)
            self.first.failed(
                shell, "ended with %s %d" % tuple(ending), ending == ["signalled", signal.SIGKILL]
            )
            return
        shell.command = None
        if self.move is not None:
            self.move.abandon()
            self.move = None
        if self.pool.pending and unread > (shell.last_order_bytes if command else 0):
            self.pool.forget(self.pool.pending[-1])  # its fork order is among the unread ones
        if command is None or unread:
            self.note(EARLIER)
        if command is None:
            self._promote()
        elif unread and command.is_ending:
            # it never began, and must not
            self.when_primary.add(lambda: command.conclude(ending_of(status)))
            self._promote()
        elif unread:
            self._wait_again(command)
        else:
            command.notes.append(RESTORED)
            self.when_primary.add(lambda: command.conclude(ending_of(status)))
            self._promote()

    def await_reports(self) -> None:
        self.pool.await_reports(self._reports_overdue)

    def _reports_overdue(self, missing: bool) -> None:
        if missing:
            self.has_standby = False
        if self.primary is None:
            self._promote()
        else:
            self._settle_idle()
        self.advance()

    # -- yielding
    def yield_command(self, command: Command) -> None:
        """Leaves the shell to the command, and promotes a standby.

        A waiting command yields when it begins.
        """
        command.note_yield()
        if command.in_primary and command.shell is not None and command.shell is self.primary:
            command.in_primary = False
            self.primary = None
            self._promote()
            self.advance()

    # -- moving to a fresh bash
    def move_ended(self, shell: Shell | None) -> None:
        """Ends an attempt to move; a given shell becomes the primary shell."""
        attempt, self.move = self.move, None
        is_void = attempt is not None and attempt.commands_sent != self.commands_sent
        self.must_move = self.must_move and is_void  # by a command that came after the attempt
        if shell is not None:
            self.move_soon = False
            for other in list(self.pool.shells.values()):
                if (
                    other is not shell
                    and other.command is None
                    and other not in self.parallel.pending
                ):
                    self.pool.forget(other)
            self.primary, self.has_standby, self.has_null_stdin = shell, False, False
        if shell is not None or self.must_move:
            self._settle_idle()
        self.advance()

    # -- ending
    def close(self) -> None:
        """Drops every shell. The resident's own sweep ends remaining background jobs."""
        self.closed = True
        self.first.done()
        for shell in list(self.pool.shells.values()):
            command = shell.command
            self.pool.forget(shell)
            if command is not None:
                command.conclude(["signalled", 9])
        self.primary = None
        if self.move is not None:
            self.move.abandon()
        self._refuse_waiting("the session was ended before the command began")
        self.when_started.notify()
        self.when_primary.notify()
