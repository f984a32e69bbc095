"""Parallel shells: while the primary shell is busy, a command runs on a fork of a standby, or on a
fresh bash.
"""

from __future__ import annotations

import os

from ..limits import FORK_READY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .command import Command
    from .session import Session
    from .shell import Shell

PARALLEL = "state not kept: another command of this session was running"
FRESH = "the session had no standby left: the command ran in a fresh shell, from the login state"


class ParallelShells:
    """Shells that have not reported yet, each with the command that waits for it."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.login = session.login  # of a fresh bash; False once the profile has failed
        self.pending: dict[
            Shell, tuple[Command, Shell | None]
        ] = {}  # shell: its command, the standby it is forked from

    def commands(self) -> list[Command]:
        return [command for command, _ in self.pending.values()]

    def run(self, command: Command) -> None:
        """Starts a shell for the command. Raises OSError if the system refuses one."""
        session = self.session
        standbys = session.pool.standbys
        source = standbys[-1] if standbys else None
        if source is not None:
            shell, seconds = session.pool.fork(source), FORK_READY
        else:
            shell, seconds = session.spawn(self.login), session.resident.login_timeout
            shell.starting = self.login
        self.pending[shell] = command, source
        session.loop.call_later(seconds, lambda: self._too_late(shell))

    def take(self, shell: Shell) -> Command | None:
        """Removes a shell that has reported or is gone, and returns its command; None for any other
        shell.
        """
        command, _ = self.pending.pop(shell, (None, None))
        return command

    def _too_late(self, shell: Shell) -> None:
        """The shell has not reported: its standby died, or the profile hangs.

        The command waits for another shell.
        """
        if shell in self.pending:
            self.session.pool.forget(shell)
            self.died(shell, 9)
            self.session.advance()

    def died(self, shell: Shell, status: int) -> None:
        """Requeues the commands that wait for a dead shell, or for a fork of it."""
        command = self.take(shell)
        if command is not None and shell.depth == 0 and os.WIFEXITED(status) and not shell.starting:
            command.conclude(
                ["lost", "bash cannot be started here: it ended with %d" % os.WEXITSTATUS(status)]
            )
        elif command is not None:
            self.session.waiting.appendleft(command)
        if shell.starting:
            self.login = False
        for fork, (waiting, source) in list(self.pending.items()):
            if source is shell:
                del self.pending[fork]
                self.session.pool.forget(fork)
                self.session.waiting.appendleft(waiting)

    def withdraw(self, command: Command) -> None:
        for shell, (waiting, _) in list(self.pending.items()):
            if waiting is command:
                del self.pending[shell]
                self.session.pool.forget(shell)
