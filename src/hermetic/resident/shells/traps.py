"""Traps of a session's shells: which shell sets them, and which reports are trusted."""

from __future__ import annotations

from ..life.fast_stdlib import signal
from ..processes.tree import send
from ..wire.fields import advised
from .orders import HELD_TRAPS, short_order

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .command import Command
    from .reports import Report
    from .session import Session
    from .shell import Shell

UNREADABLE = "state restored: a function named builtin, builtins switched off or a changed BASHPID hide the shell's state"


def status_at_end(shell: Shell, command: Command, report: Report) -> int | None:
    """The exit code of a command whose text has ended; None while the EXIT trap that it left runs."""
    if command.status_before_trap is not None:
        return command.status_before_trap
    shell.statuses = report.statuses or [report.status]
    traps = command.take_traps()
    if traps is not None:
        body = traps.pop(b"EXIT", None)
        shell.held_traps = {name: traps[name] for name in HELD_TRAPS if name in traps}
        if body:
            try:
                command.run_exit_trap(shell, body, report.status)
                return None
            except OSError as error:  # no descriptor available
                command.notes.append("the EXIT trap did not run: %s" % advised(error))
    return report.status


def reported(session: Session, source: Shell, standby: Shell, traps: dict[bytes, bytes]) -> bool:
    """Stores the traps of a forked shell. The standby sets them before its first command.

    False if the source is busy and has some that are held in an idle shell: its next fork reports
    again.
    """
    held = {name: traps.pop(name) for name in HELD_TRAPS[:-1] if name in traps}
    standby.unset_traps = traps
    if held:  # set by a text that did not show it
        standby.held_traps = {**source.held_traps, **held}
        if source.command is not None:
            return False
        source.held_traps = standby.held_traps
        source.send(
            *short_order(0, session.resident.null, b"\\builtin trap - " + b" ".join(held), [])
        )
    return True


def is_distrusted(session: Session, shell: Shell) -> bool:
    """Kills a distrusted shell whose command has ended. Returns whether it is distrusted."""
    if shell.is_distrusted:
        distrust(session, shell)
    return shell.is_distrusted


def distrust(session: Session, shell: Shell) -> None:
    """Kills a shell that cannot report its state or may forge it; a standby replaces it."""
    shell.is_distrusted = True
    if shell.command is None and shell.pid is not None and shell.fd is not None:
        session.note(UNREADABLE)
        send([shell.pid], signal.SIGKILL)
