"""The first shell of a session: a bash that reads the login profile within a time limit."""

from __future__ import annotations

from ..life.fast_stdlib import signal
from ..processes.tree import children, descendants, send

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..life.loop import Timer
    from .session import Session
    from .shell import Shell

STARTS = 5  # attempts in a row that end by KILL, which is not the profile's own doing


class FirstShell:
    """Starts the primary shell.

    If the profile exits, hangs or replaces the shell, bash starts again without it.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.timer: Timer | None = None  # runs until the shell has reported
        self.killed = 0

    def start(self, login: bool) -> None:
        session = self.session
        session.has_standby = session.has_null_stdin = False
        try:
            session.primary = shell = session.spawn(login)
        except OSError as error:
            session.give_up("bash cannot be started here: %s" % error.strerror)
            return
        shell.starting = login
        seconds = session.resident.login_timeout
        too_late = "did not finish within %g s" % seconds
        self.timer = session.loop.call_later(seconds, lambda: self.failed(shell, too_late))

    def done(self) -> None:
        """Stops the timer: the shell has reported, or the session is closed."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        self.killed = 0

    def failed(self, shell: Shell, why: str, killed: bool = False) -> None:
        session, before = self.session, self.killed
        try:
            # the programs that the profile waits for
            send(descendants(children(shell.pid or 0)), signal.SIGKILL)
        except OSError:  # no descriptor available
            pass
        session.pool.forget(shell)
        self.done()
        if killed and before + 1 < STARTS:
            self.killed = before + 1
            self.start(shell.starting)
        elif shell.starting:
            session.note("the login profile %s: the session was started without it" % why)
            self.start(login=False)
        else:
            session.give_up("bash cannot be started here: it %s" % why)
