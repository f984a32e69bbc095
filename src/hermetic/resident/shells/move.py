"""Moves a session to a fresh bash with its whole state: out of deep nesting, or to a direct child
of the resident.
"""

from __future__ import annotations

import os

from ..limits import SESSION_MOVE
from ..processes.tree import is_reaped
from ..processes.unnamed import sealed
from .orders import STATE
from .state import reload_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .reports import StateReport
    from .session import Session
    from .shell import Shell


class Move:
    """One attempt: request the state, start a bash that loads it, and replace the primary shell
    with it.

    The session stays usable meanwhile. A command that starts in between cancels the attempt, unless
    the session holds commands back until the attempt is over (`must`).
    """

    def __init__(self, session: Session, primary: Shell, must: bool) -> None:
        self.session, self.primary, self.must = session, primary, must
        self.commands_sent = session.commands_sent
        self.state_fd: int | None = None
        self.shell: Shell | None = None
        self.timer = session.loop.call_later(SESSION_MOVE, self._fail)
        try:
            session.pool.request(primary, STATE, self._state_reported)
        except OSError:  # no descriptor available
            session.loop.call_soon(self._fail)

    def _fail(self) -> None:
        """Ends the attempt: the session stays in its old shell.

        Without a subreaper the primary shell's death is only noticed here.
        """
        self.abandon()
        if self.session.move is not self:
            return  # dropped meanwhile: the attempt after it goes on
        if self.must and is_reaped(self.primary.pid or 0):
            self.session.pool.forget(self.primary, kill=False)
        self.session.move_ended(None)

    def is_void(self) -> bool:
        session = self.session
        return (
            session.closed
            or session.primary is not self.primary
            or session.commands_sent != self.commands_sent
        )

    def _state_reported(self, report: StateReport | None) -> None:
        if report is None or self.session.move is not self:
            return  # the primary shell died, or the session has dropped this attempt
        if self.is_void():
            self.abandon()
            self.session.move_ended(None)
            return
        try:
            # The cwd of this very shell; a shell that is gone has none.
            text = reload_text(report, os.readlink("/proc/%d/cwd" % (self.primary.pid or 0)))
            if text is None:
                self._fail()
                return
            self.state_fd = sealed(text)
            self.shell = self.session.spawn(False, self.state_fd)
            self.shell.held_traps, self.shell.statuses = (
                self.primary.held_traps,
                self.primary.statuses,
            )
        except OSError:  # no descriptor, no process, or no directory
            self._fail()

    def arrived(self) -> None:
        """The fresh bash has loaded the state."""
        shell = None if self.is_void() else self.shell
        if shell is not None:
            self.shell = None
        self.abandon()
        self.session.move_ended(shell)

    def abandon(self) -> None:
        """Releases what the attempt holds."""
        self.timer.cancel()
        if self.shell is not None:
            self.session.pool.forget(self.shell)
            self.shell = None
        if self.state_fd is not None:
            os.close(self.state_fd)
            self.state_fd = None
