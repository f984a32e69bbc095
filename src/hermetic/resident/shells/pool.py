"""Shell pool of one session: all live shells, the ready standbys, and the standbys that have not
reported yet.
"""

from __future__ import annotations

import os
import time

from ..life.fast_stdlib import signal
from ..life.loop import Waiters
from ..limits import FORK_READY, STANDBYS
from ..processes.tree import is_gone, send
from ..processes.unnamed import in_memory, sealed
from . import traps
from .orders import fork_order, long_order, quote, short_order
from .reports import StateReport, read_names
from .shell import Shell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..life.loop import Timer
    from ..life.resident import Resident
    from .session import Session


class ShellPool:
    def __init__(self, resident: Resident, session: Session) -> None:
        self.resident, self.session = resident, session
        self.shells: dict[bytes, Shell] = {}  # name in reports: shell
        self.standbys: list[Shell] = []  # ready, oldest first
        # standbys of the primary shell that have not reported yet, oldest first
        self.pending: list[Shell] = []
        self.when_reported = Waiters(resident.loop)  # called once no shell is being forked
        self.report_timer: Timer | None = None

    def new(self, depth: int) -> Shell:
        """A new shell object and its channel, before its process exists. Raises OSError."""
        age = self.resident.next_number()
        name = "%s-%d" % (self.resident.id, age)
        try:
            shell = Shell(self.resident.channel_directory, name, age, depth)
        except FileNotFoundError:
            self.resident.regain_directory()
            shell = Shell(self.resident.channel_directory, name, age, depth)
        self.shells[shell.name] = shell
        self.resident.channels[shell.name] = self.session, shell
        return shell

    def watch(self, shell: Shell, pid: int, died: Callable[[Shell, int], None]) -> None:
        """Calls `died(shell, status)` once.

        A shell that something stops while it runs no command goes on, as after `kill -STOP -1`.
        """
        self.resident.loop.on_exit(
            pid, lambda status: died(shell, status), lambda: shell.is_waiting
        )

    def forget(self, shell: Shell, kill: bool = True) -> None:
        """Removes a shell from the session, and kills its process by default.

        Its command ends with its death.
        """
        if shell.name not in self.shells:
            return
        if self.session.primary is shell:
            self.session.primary = None
        del self.shells[shell.name]
        self.resident.channels.pop(shell.name, None)
        for group in (self.pending, self.standbys):
            if shell in group:
                group.remove(shell)
        if kill and shell.pid is not None:
            command, shell.command = shell.command, None
            self.resident.loop.on_exit(
                shell.pid, command.lose_shell if command is not None else lambda status: None
            )
        shell.drop(kill)
        answers, shell.answers = shell.answers, {}
        for answer in answers.values():
            answer(False)
        self.notify_reported()

    def ensure_channel(self, shell: Shell) -> None:
        """Restores a channel whose name was removed: the shell opens it by name after the next
        order.
        """
        if not os.access(shell.path, os.F_OK):
            self.resident.look_after_directory()

    def move_channels(self, directory: str) -> None:
        """Gives the channels names in another directory. Raises OSError.

        An idle shell gets the new name by an order. A busy shell ends after its command, and a
        standby replaces it.
        """
        self._drop_unreported()  # they would open the old name
        for shell in self.shells.values():
            shell.move(directory, self.resident.descriptors_path)
            if shell.command is None and not shell.answers:
                name = b"__h[14]=" + quote(os.fsencode(shell.path))
                shell.send(*short_order(0, self.resident.null, name, []))

    def end_idle(self) -> None:
        """Kills the shells without a command."""
        self._drop_unreported()
        send(
            [shell.pid for shell in self.shells.values() if shell.pid and not shell.command],
            signal.SIGKILL,
        )

    def _drop_unreported(self) -> None:
        """Drops the shells that are being forked. The commands that wait for them get others."""
        for shell in [shell for shell in self.shells.values() if shell.pid is None]:
            self.forget(shell)
            self.session.parallel.died(shell, 9)
            self.session.has_standby = False
            self.resident.loop.call_soon(self.session.advance)

    def pids(self) -> list[int]:
        return [shell.pid for shell in self.shells.values() if shell.pid is not None]

    def has_unreported(self) -> bool:
        """Whether a shell is being forked: until it reports, it looks like a process of a command."""
        return any(shell.pid is None or shell.answers for shell in self.shells.values())

    def notify_reported(self) -> None:
        if not self.has_unreported():
            self.when_reported.notify()

    def fork(self, source: Shell) -> Shell:
        """Orders a fork of a shell. The fork is ready once it has reported."""
        standby = self.new(source.depth + 2)
        standby.flags, standby.statuses = source.flags, source.statuses
        standby.held_traps, standby.unset_traps = source.held_traps, source.unset_traps

        if source.known_traps is not None:
            standby.unset_traps = standby.known_traps = source.known_traps
        changes, redefinitions = source.changes, self.session.redefinitions
        names = redefinitions.open and source is self.session.primary

        def adopted() -> None:
            # The fork is the resident's child by now. No signal says so if it was stopped before.
            self.resident.loop.call_soon(self.resident.loop.reap)

        def forked(data: bytes | None) -> None:
            adopted()
            if data is None:
                return
            try:
                report = StateReport(data)
                found = read_names(report.text) if names else None
            except ValueError:
                self.forget(standby)
                traps.distrust(self.session, source)
                return
            is_known = traps.reported(self.session, source, standby, report.traps)
            if is_known and source.changes == changes:
                source.known_traps = standby.known_traps = standby.unset_traps
                if found is not None:
                    redefinitions.reported(found)

        orders = self.resident.orders
        # A standby that has run nothing has not set its traps yet, but they are known.
        has_traps = (source.has_run or not source.depth) and source.known_traps is None
        try:
            if has_traps:
                self.order(
                    source,
                    b"F",
                    lambda fd: orders.fork_and_report(standby, fd, names=names),
                    forked,
                )
            else:
                number = self.resident.next_number()
                source.send(*fork_order(number, standby))
                source.answers[number] = lambda alive: adopted()
        except OSError:
            self.forget(standby)
            raise
        return standby

    def take_newest(self) -> Shell | None:
        """Removes and returns the newest standby that is alive; None if there is none."""
        while self.standbys:
            standby = self.standbys.pop()
            if standby.pid is not None and self._lives(standby.pid):
                return standby
            self.forget(standby, kill=False)
        return None

    @staticmethod
    def _lives(pid: int) -> bool:
        try:
            return not is_gone(pid)
        except OSError:  # no descriptor available
            return True

    def request(
        self, shell: Shell, words: tuple[bytes, ...], answer: Callable[[StateReport | None], None]
    ) -> None:
        """Calls `answer(report)`; None if the shell dies first.

        A shell without a valid report is killed.
        """

        def reported(data: bytes | None) -> None:
            if data is None:
                answer(None)
                return
            try:
                found: StateReport | None = StateReport(data)
            except ValueError:
                traps.distrust(self.session, shell)
                found = None
            answer(found)

        self.order(shell, b"S", lambda fd: self.resident.orders.report_state(fd, *words), reported)

    def order(
        self,
        shell: Shell,
        verb: bytes,
        code: Callable[[int], bytes],
        answer: Callable[[bytes | None], None],
    ) -> None:
        """Sends a long order that writes to a memory file; calls `answer(data)`, or None if the
        shell dies first.
        """
        number = self.resident.next_number()
        opened: list[int] = []

        def reported(alive: bool) -> None:
            if not alive:
                self.resident.held.add(opened)
                answer(None)
                return
            data = os.pread(opened[0], os.fstat(opened[0]).st_size, 0)
            for fd in opened:
                os.close(fd)
            answer(data)

        try:
            opened.append(in_memory(b""))
            opened.append(sealed(self.resident.orders.whole(code(opened[0]))))
            shell.send(*long_order(number, opened[1], verb))
        except OSError:
            for fd in opened:
                os.close(fd)
            raise
        shell.answers[number] = reported

    def add_standby(self, standby: Shell) -> None:
        """Adds a standby that has reported, and drops the oldest beyond STANDBYS."""
        self.pending.remove(standby)
        if not self.pending and self.report_timer is not None:
            self.report_timer.cancel()
            self.report_timer = None
        self.standbys.append(standby)
        # reports of two standbys may arrive in either order
        self.standbys.sort(key=lambda shell: shell.age)
        while len(self.standbys) > STANDBYS:
            self.forget(self.standbys[0])

    def await_reports(self, over: Callable[[bool], None]) -> None:
        """Waits FORK_READY for pending standbys, drops those that are late, and calls
        `over(any_missing)`.
        """
        if self.report_timer is None and self.pending:
            awaited, due = self.pending[:], time.monotonic() + FORK_READY
            self.report_timer = self.resident.loop.call_later(
                FORK_READY, lambda: self._reports_overdue(awaited, due, over)
            )

    def _reports_overdue(
        self, awaited: list[Shell], due: float, over: Callable[[bool], None]
    ) -> None:
        self.report_timer = None
        if self.pending and time.monotonic() > due + FORK_READY:
            # we were stopped, probably with all shells, as in a paused container
            self.await_reports(over)
            return
        missing = [shell for shell in awaited if shell in self.pending]
        for shell in missing:
            self.forget(shell)
        over(bool(missing))
