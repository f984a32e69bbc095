"""A shell session that no command can lose.

The *lane* is the shell that runs the commands. A *copy* is a shell forked from it that nobody has ordered anything from
yet. When the lane dies, a proven copy is the lane; a command beside a busy lane runs on a copy of a copy; a command
that is yielded keeps its shell, and a copy takes its place. Commit or roll back is one rule: a command that ends its
shell leaves the state as it was before it.
"""

from __future__ import annotations

import os

from ..life.fast_stdlib import deque, signal
from ..life.loop import Waiters
from ..limits import LARGE_COMMAND, NESTING
from ..processes.job import ending_of
from ..processes.process import spawn_bash
from ..processes.tree import children, is_reaped, send
from . import traps
from .command import STALE, Vocabulary, needs_exactness
from .exports import Definitions, Exports
from .first_shell import FirstShell
from .move import Move
from .orders import is_unclosed, short_order
from .parallel import FRESH, PARALLEL, ParallelShells
from .pool import ShellPool
from .proc_state import has_null_input, nearest_living, standing
from .state import can_be_carried, quote_cd

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..life.resident import Resident
    from ..processes.job import Ending
    from .command import Command
    from .orders import Report
    from .shell import Shell

UNCOVERED = "a command that ends its shell takes the state back further than itself"
EARLIER = "state restored: the session's shell was lost between commands, the state is an earlier one"


class Session:
    def __init__(self, resident: Resident, name: str, cwd: str, login: bool = True) -> None:
        self.resident, self.loop, self.name = resident, resident.loop, name
        self.base_cwd, self.login = cwd, login
        self.waiting: deque[Command] = deque()  # commands without a shell
        self.flock = ShellPool(resident, self)
        self.lane: Shell | None = None
        self.parallel = ParallelShells(self)
        self.covered = False  # a copy of the lane's state exists or is ordered
        self.newest_copy = 0  # age of the last copy that was ordered
        self.shortage = ""  # why no copy could be ordered
        self.needs_copy = False
        self.has_null_input = False  # the lane's own standard input is the null device
        self.vocabulary = Vocabulary()
        self.is_unmarked = not resident.marks.base  # its processes carry no second mark
        self.protected: set[int] = set()  # then: jobs of earlier commands, which ending a later one leaves alone
        self.notes: list[str] = []  # for the next result
        self.exports = Exports(self)
        self.definitions = Definitions(self)
        self.closed = self.move_soon = self.must_move = False
        self.move: Move | None = None
        self.handed = 0  # commands given to the lane so far
        self.first = FirstShell(self)
        self.when_lane = Waiters(self.loop)  # called once a lane that died is replaced
        self.when_started = Waiters(self.loop)  # called once the first shell is there
        self.first.start(login)

    @property
    def is_idle(self) -> bool:
        is_busy = any(shell.command for shell in self.flock.shells.values())
        return not (is_busy or self.waiting or self.parallel.coming)

    @property
    def is_starting(self) -> bool:
        """Whether its first shell still reads the profile."""
        return self.first.timer is not None

    @property
    def cwd(self) -> str:
        """Where the next command starts: the kernel's word, not the shell's."""
        lane = self.lane
        if lane is not None and lane.pid is not None and not self.is_starting:
            try:
                return os.readlink("/proc/%d/cwd" % lane.pid)
            except OSError:
                pass
        return self.base_cwd

    # -- starting
    def spawn(self, login: bool, state_fd: int | None = None) -> Shell:
        """A fresh bash, with the profile or with a state to take in. Raises OSError where none can be had."""
        shell = self.flock.new(0)
        try:
            pid = shell.pid = spawn_bash(self.resident, shell, self.base_cwd, login, state_fd)
        except OSError:
            self.flock.forget(shell)
            raise
        self.loop.on_exit(pid, lambda status: self._died(shell, status))
        return shell

    def give_up(self, why: str) -> None:
        """No shell can be had: the commands that wait are refused, and the next one tries anew."""
        self._refuse_waiting(why)
        self.when_started.tell()
        self.when_lane.tell()

    def _refuse_waiting(self, why: str) -> None:
        """Commands that never began."""
        waiting = [*self.waiting, *self.parallel.commands()]
        self.waiting.clear()
        self.parallel.coming.clear()
        for command in waiting:
            command.conclude(["lost", why])

    def note(self, note: str) -> None:
        """Tell it with the next result, once."""
        if note not in self.notes:
            self.notes.append(note)

    # -- commands
    def run(self, command: Command) -> None:
        self.waiting.append(command)
        self.advance()

    def withdraw(self, command: Command) -> None:
        """A command that waits for a shell is not wanted any more."""
        if command in self.waiting:
            self.waiting.remove(command)
        self.parallel.withdraw(command)
        command.shell_left()

    def advance(self) -> None:
        """Give every waiting command a shell, as far as shells can be had now."""
        while self.waiting and not self.closed:
            if self.lane is None and not self._promote():
                return
            is_moving = self.move is not None and self.move.must
            if self.lane is None or self.lane.pid is None or self.is_starting or is_moving:
                return
            if self.waiting[0].order.is_stale(self.exports.changes):
                self.waiting.popleft().conclude(["lost", STALE])
                continue
            if self.lane.command is not None:
                if not self.resident.has_subreaper:
                    return  # the end of a shell beside the lane would not be seen: one after the other
                if self.flock.ordered or not self.resident.room.has_room():
                    self.await_proof()
                    return
                self._give(self.waiting.popleft(), None)
            else:
                self._give(self.waiting.popleft(), self.lane)

    def _give(self, command: Command, shell: Shell | None) -> None:
        """Hand a command to a shell, or order one; where the system refuses what that takes, the command is lost."""
        try:
            if shell is None:
                self.parallel.run(command)
            else:
                self._hand(command, shell)
        except Exception as error:
            command.shell = None
            if shell is not None:
                shell.command = None
            command.cannot_begin(error)

    def _hand(self, command: Command, shell: Shell) -> None:
        command.in_lane = shell is self.lane
        if command.in_lane:
            self.flock.keep_name(shell)
            if not self.covered:
                self._cover(shell)
            if not self.covered:
                command.notes.append("no copy of the state: %s; %s" % (self.shortage, UNCOVERED))
            cwd = command.left_cwd = self._mend_cwd(command)
            command.notes[:0] = self.notes
            self.notes = []
            self.handed += 1
        else:
            cwd = self.cwd
            command.notes += [PARALLEL, FRESH] if shell.depth == 0 else [PARALLEL]
        command.cwd = command.order.cwd or cwd
        verb = self._verb(command, shell)
        fields = command.open(verb, shell)
        command.shell, shell.command = shell, command
        command.pid = shell.pid
        shell.send(*fields)
        # It runs by now. What its text tells is needed at its end.
        shell.has_run = True
        if shell is self.lane and not command.is_plain:
            self._learn(command)
        command.listen_soon()
        if not self.flock.ordered:
            self.loop.wakefulness.expect_answer()
        if command.has_yielded:
            self.yield_command(command)

    def _verb(self, command: Command, shell: Shell) -> bytes:
        last_word = self.vocabulary.last_word(command.text) if shell is self.lane else None
        command.is_plain, command.last_word = last_word is not None, last_word or b""
        # T needs `command exec`, the one form whose redirections stay: not where that name means something else.
        if shell.held_traps or (not command.is_plain and needs_exactness(command.text)):
            if shell is self.lane and not command.is_plain:
                self._learn(command)
            return b"T" if b"command" not in self.vocabulary.names else b"Q"
        is_ready = shell is self.lane and self.has_null_input and shell.has_run
        # A copy that is still to be forked would carry the mark, and be ended with this command.
        is_quick = is_ready and command.is_simple and not (self.flock.ordered or shell.is_traced)
        return b"R" if is_quick and self.resident.marks.put_on(shell.pid, command.number) else b"Q"

    def _learn(self, command: Command) -> None:
        if command.shell is not None and not self.vocabulary.leaves_traps_alone(command.text):
            command.shell.may_have_changed_traps()
        self.vocabulary.learn(command.text)
        self.is_unmarked = self.is_unmarked or b"ulimit" in command.text  # it may take the mark's limit away

    def _look_at_input(self) -> None:
        """A command may have given the lane another standard input, with exec in a function, say: not for the next."""
        lane = self.lane
        if lane is not None and lane.pid is not None and lane.fd is not None and lane.command is None:
            self.has_null_input = has_null_input(lane.pid, lane.fd)

    def living_cwd(self) -> tuple[str, str | None]:
        """Where the next command starts, and the directory that is gone if that is only its nearest living ancestor."""
        return standing(self.cwd, self.lane.pid if self.lane is not None else None)

    def _mend_cwd(self, command: Command) -> str:
        """From a directory that is gone, go to its nearest ancestor that lives, and say so."""
        place, lost = self.living_cwd()
        if lost is not None:
            self._fall_back(lost, command.notes)
        return place

    def _fall_back(self, lost: str, notes: list[str]) -> None:
        """Let the lane stand in the nearest living ancestor of a directory."""
        place = nearest_living(lost)
        if self.lane is not None and place != lost:
            self.lane.send(*short_order(0, self.resident.null, quote_cd(place), []))
            notes.append("cwd fell back to %s: %s no longer exists" % (place, lost))

    # -- reports
    def reported(self, shell: Shell, report: Report) -> None:
        """A shell has come back to its channel. What it says is believed as far as it fits what we know."""
        pid, number = report.pid, report.number
        if shell.pid is None:
            if self.resident.knows_pid(pid):
                return
            shell.pid = pid
            self.loop.on_exit(pid, lambda status: self._died(shell, status))
            if is_reaped(pid):  # it died before its report was read, and nothing will tell of it
                self.loop.call_soon(lambda: self._missed_death(shell))
        elif shell.pid != pid:
            return
        shell.flags = report.flags
        if shell.command is not None and shell.command.number == number:
            if shell.command.is_ending:
                # It took TERM and came back while its tree is being ended: what it did is rolled back like any other's.
                send([shell.pid], signal.SIGKILL)
            else:
                status = traps.status_at_end(shell, shell.command, report)
                if status is not None:
                    self._command_ended(shell, shell.command, ["exited", status])
        elif number in shell.answers:
            shell.answers.pop(number)(True)
        elif shell is self.lane and self.is_starting:
            self.first.done()
            self._settle()
            self.when_started.tell()
        elif shell in self.flock.ordered:
            self.flock.prove(shell)
            if self.lane is None:
                self._promote()
        elif shell in self.parallel.coming:
            self._begin_parallel(shell)
        elif self.move is not None and shell is self.move.shell:
            self.move.arrived()
        self.flock.tell_reported()
        self.advance()

    def _begin_parallel(self, shell: Shell) -> None:
        command = self.parallel.take(shell)
        if command is not None:
            self._give(command, shell)
            if shell.command is None:
                self.flock.forget(shell)

    def _missed_death(self, shell: Shell) -> None:
        if shell.pid is not None and self.loop.children.pop(shell.pid, None) is not None:
            self._died(shell, signal.SIGKILL)

    def _command_ended(self, shell: Shell, command: Command, ending: Ending) -> None:
        shell.command = None
        if command.is_plain and command.in_lane:
            command.cwd_after = command.left_cwd
        command.finish(ending)  # the reply goes out first; the rest overlaps with it
        command.shell_left()
        if not command.in_lane:
            self.flock.forget(shell)
            return
        if not command.is_plain:
            self.covered = self.has_null_input = False
            self.exports.changed()
        self.must_move = self.must_move or (ending[1] != 0 and is_unclosed(command.text))
        self.move_soon = self.move_soon or self.must_move or len(command.text) > LARGE_COMMAND
        if command.order.cwd is not None and self.cwd != command.left_cwd:
            self._fall_back(command.left_cwd, self.notes)
        self._settle()
        self.resident.pipes.prepare()
        if not self.flock.ordered:
            self.loop.wakefulness.expect_question()

    def _settle(self) -> None:
        """Idle work after a command: a copy of the new state, and who lives on below the lane."""
        lane = self.lane
        if lane is None or lane.pid is None or lane.command is not None or traps.is_distrusted(self, lane):
            return
        if not self.has_null_input:
            self.loop.call_before_sleep(self._look_at_input)  # the next command need not wait for it
        # Before a copy is ordered: while it is forked, the lane has a child, and a lane with children is not moved.
        if (lane.depth > NESTING or self.move_soon) and self.move is None and can_be_carried(lane.pid):
            self.move = Move(self, lane, self.must_move)
        if not self.covered:
            if self.resident.sweeps:
                self.needs_copy = True  # a copy that has not reported looks like an orphan of what is being ended
            else:
                self._cover(lane)
        if self.is_unmarked:
            try:
                self.protected = set(children(lane.pid)) | (self.protected & self.resident.note_orphans())
            except OSError:  # no descriptor to look with
                pass

    def sweeps_done(self) -> None:
        if self.needs_copy:
            self.needs_copy = False
            self._settle()

    # -- copies
    def _cover(self, lane: Shell) -> None:
        """Order a copy of the lane. Where one can be had, no lane runs anything before its copy has been ordered."""
        try:
            self.resident.room.check()
            copy = self.flock.fork(lane)
        except OSError as error:
            self.shortage = error.strerror or str(error)
            return
        self.flock.ordered.append(copy)
        self.newest_copy = copy.age
        self.covered, self.needs_copy = True, False

    def _promote(self) -> bool:
        """Make the newest proven copy the lane. False while one has still to report, or a new shell starts."""
        if self.is_starting or self.closed:
            return False
        if self.flock.ordered:
            self.await_proof()
            return False
        standby = self.flock.take_newest()
        if standby is None:
            self._restart("all shells of this session were killed")
            return False
        if standby.age < self.newest_copy:
            self.note(EARLIER)
        self.lane = standby
        self.covered = self.has_null_input = False
        self.exports.changed()
        if not self.resident.has_subreaper:
            self.move = Move(self, self.lane, must=True)  # a copy is not our child: its end would not be seen
        elif self.lane.depth > 2 * NESTING and self.move is None and can_be_carried(self.lane.pid or 0):
            self.move = Move(self, self.lane, must=True)  # exits in a row: no idle moment came
        if self.resident.has_subreaper and self.resident.sweeps:
            self.needs_copy = True
        elif self.resident.has_subreaper:
            self._cover(self.lane)
        self.when_lane.tell()
        return True

    def _restart(self, why: str) -> None:
        self.note("session lost: %s; it was started afresh, from the login state" % why)
        self.vocabulary, self.protected = Vocabulary(), set()
        self.first.start(self.login)
        self.when_lane.tell()

    # -- deaths
    def _died(self, shell: Shell, status: int) -> None:
        if self.closed:
            command, shell.command = shell.command, None
            if command is not None:
                command.finish(ending_of(status))
            return
        # Reports that were written before the death come first: the order of the two wake-ups is not theirs.
        self.resident.take_events()
        if shell.name not in self.flock.shells:
            return
        command, unread = shell.command, shell.unread_bytes()
        was_lane = shell is self.lane
        was_copy = shell in self.flock.ordered or shell in self.flock.copies[-1:]
        self.flock.forget(shell, kill=False)
        self.parallel.died(shell, status)
        if self.move is not None and shell is self.move.shell:
            self.move.abandon()
            self.move_over(None)
        elif was_lane:
            self._lane_died(shell, status, command, unread)
        elif command is not None:
            shell.command = None
            if unread and not command.is_ending:
                self._wait_again(command)  # the order was never read
            else:
                command.conclude(ending_of(status))
        elif was_copy:
            self.covered = False
            self._settle()
        self.advance()

    def _wait_again(self, command: Command) -> None:
        """Its shell died before it read the order: bytes left in the channel show it, so it is not run twice."""
        command.shell = None
        self.waiting.appendleft(command)

    def _lane_died(self, shell: Shell, status: int, command: Command | None, unread: int) -> None:
        self.exports.changed()
        if self.is_starting:
            ending = ending_of(status)
            self.first.failed(shell, "ended with %s %d" % tuple(ending), ending == ["signalled", signal.SIGKILL])
            return
        shell.command = None
        if self.move is not None:
            self.move.abandon()
            self.move = None
        if self.flock.ordered and unread > (shell.last_order_bytes if command else 0):
            self.flock.forget(self.flock.ordered[-1])  # the order to fork it is among those never read
        if command is None or unread:
            self.note(EARLIER)
        if command is None:
            self._promote()
        elif unread and command.is_ending:
            self.when_lane.add(lambda: command.conclude(ending_of(status)))  # it never began, and shall not
            self._promote()
        elif unread:
            self._wait_again(command)
        else:
            command.notes.append(
                "state restored: the command ended its shell, so variables, functions and directory are as before it"
            )
            self.when_lane.add(lambda: command.conclude(ending_of(status)))
            self._promote()

    def await_proof(self) -> None:
        self.flock.await_proof(self._proof_over)

    def _proof_over(self, missing: bool) -> None:
        if missing:
            self.covered = False
        if self.lane is None:
            self._promote()
        else:
            self._settle()
        self.advance()

    # -- yielding
    def yield_command(self, command: Command) -> None:
        """The command goes on in its shell; a copy takes the shell's place in the session. One that waits: later."""
        command.note_yield()
        if command.in_lane and command.shell is not None and command.shell is self.lane:
            command.in_lane = False
            self.lane = None
            self._promote()
            self.advance()

    # -- moving to a fresh bash
    def move_over(self, shell: Shell | None) -> None:
        """An attempt to move has ended; with a shell, that is the lane now."""
        self.move, self.must_move = None, False
        if shell is not None:
            self.move_soon = False
            for other in list(self.flock.shells.values()):
                if other is not shell and other.command is None and other not in self.parallel.coming:
                    self.flock.forget(other)
            self.lane, self.covered, self.has_null_input = shell, False, False
            self._settle()
        self.advance()

    # -- ending
    def close(self) -> None:
        """Drop every shell. What background jobs are left is for the resident's own sweep."""
        self.closed = True
        self.first.done()
        for shell in list(self.flock.shells.values()):
            command = shell.command
            self.flock.forget(shell)
            if command is not None:
                command.conclude(["signalled", 9])
        self.lane = None
        if self.move is not None:
            self.move.abandon()
        self._refuse_waiting("the session was ended before the command began")
        self.when_started.tell()
        self.when_lane.tell()
