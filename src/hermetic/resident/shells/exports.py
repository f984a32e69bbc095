"""What a session's shell has: exported variables, all definitions, its directory and its stdin."""

from __future__ import annotations

import os

from .orders import DEFINITIONS, EXPORTS, short_order
from .proc_state import existing_cwd, has_null_stdin, nearest_existing
from .state import cd_command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .command import Command
    from .reports import StateReport
    from .session import Session
    from .shell import Shell

AGAIN_SECONDS = 0.1  # before the next attempt, if the system refused descriptors


class Exports:
    """Exported variables: requested on demand and cached until a command may have changed them."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.known: dict[str, str] | None = None
        self.changes = session.resident.next_change()  # version of the shell's state

    def changed(self) -> None:
        self.known = None
        self.changes = self.session.resident.next_change()

    def request(self, answer: Callable[[dict[str, str]], None]) -> None:
        """Calls `answer(variables)`. While the primary shell is busy, a standby reports."""
        session = self.session
        if self.known is not None:
            answer(self.known)
            return

        def reported(shell: Shell | None, data: StateReport | None) -> None:
            exports = (parse_exports(data.text) if data is not None else None) or dict(
                session.resident.environ
            )
            exports.pop("HERMETIC_COMMAND", None)
            if shell is not None and shell is session.primary:
                self.known = exports
            answer(exports)

        request_newest(session, EXPORTS, reported)


def request_definitions(session: Session, answer: Callable[[bytes], None]) -> None:
    """Calls `answer` with variables, functions and aliases as bash prints them, then signals and
    their traps.

    Each text ends with NUL.
    """

    def reported(shell: Shell | None, data: StateReport | None) -> None:
        if shell is None or data is None:
            answer(b"")
        else:
            traps = {**shell.held_traps, **shell.unset_traps, **data.traps}
            answer(data.text + b"".join(b"%s\0%s\0" % trap for trap in traps.items()))

    request_newest(session, DEFINITIONS, reported)


def request_newest(
    session: Session,
    words: tuple[bytes, ...],
    answer: Callable[[Shell | None, StateReport | None], None],
) -> None:
    """Calls `answer(shell, report)` with the newest state; while the primary shell is busy, a
    standby reports.
    """

    def again() -> None:
        request_newest(session, words, answer)

    if session.is_starting and not session.closed:
        session.when_started.add(again)
        return
    shell = session.primary
    if shell is None or shell.command is not None:
        # the newest state is in a standby that has not reported yet
        if session.pool.pending and not session.closed:
            session.pool.when_reported.add(again)
            session.await_reports()
            return
        shell = session.pool.standbys[-1] if session.pool.standbys else None
    if shell is None or session.closed:
        answer(None, None)
        return

    def reported(data: StateReport | None) -> None:
        if data is None:
            session.loop.call_soon(again)  # the shell died before it reported
        else:
            answer(shell, data)

    try:
        session.pool.request(shell, words, reported)
    except OSError:  # no descriptor available
        session.loop.call_later(AGAIN_SECONDS, again)


def parse_exports(data: bytes) -> dict[str, str]:
    """The variables in the output of `export -p`: lines `declare -x NAME="value"`, quoted by bash."""
    found: dict[str, str] = {}
    at = 0
    while True:
        at = data.find(b"declare -", at)
        if at < 0:
            return found
        name_at = data.find(b" ", at + 9) + 1
        end = name_at
        while end < len(data) and data[end : end + 1] not in (b"=", b"\n"):
            end += 1
        name = data[name_at:end]
        if data[end : end + 1] != b"=":
            at = end
            continue
        value, at = _unquote(data, end + 1)
        found[os.fsdecode(name)] = os.fsdecode(value)


_ESCAPES = {
    b"n": b"\n",
    b"t": b"\t",
    b"r": b"\r",
    b"a": b"\a",
    b"b": b"\b",
    b"f": b"\f",
    b"v": b"\v",
    b"e": b"\x1b",
    b"E": b"\x1b",
}


def _unquote(data: bytes, at: int) -> tuple[bytes, int]:
    """`(value, end)` of a word as `declare -p` prints it:

    "…" with backslashes, or $'…' with ANSI-C escapes.
    """
    out = bytearray()
    ansi = data[at : at + 2] == b"$'"
    close = b"'" if ansi else b'"'
    at += 2 if ansi else 1
    while at < len(data) and data[at : at + 1] != close:
        byte = data[at : at + 1]
        at += 1
        if byte != b"\\":
            out += byte
            continue
        code = data[at : at + 1]
        at += 1
        if not ansi:
            out += code if code in (b'"', b"\\", b"$", b"`") else b"\\" + code
        elif code in _ESCAPES:
            out += _ESCAPES[code]
        elif code in b"01234567" and code:
            digits = data[at - 1 : at + 2]
            out.append(int(digits, 8) & 255)
            at += 2
        else:
            out += code
    return bytes(out), at + 1


def cwd_of(session: Session) -> str:
    """The primary shell's cwd, read from /proc; without one, where its next shell starts."""
    primary = session.primary
    if primary is not None and primary.pid is not None and not session.is_starting:
        try:
            return os.readlink("/proc/%d/cwd" % primary.pid)
        except OSError:
            pass
    return session.base_cwd


def existing_cwd_of(session: Session) -> tuple[str, str | None]:
    """The next command's cwd; if it was removed, its nearest existing ancestor and the removed
    path.
    """
    primary = session.primary
    return existing_cwd(session.cwd, primary.pid if primary is not None else None)


def leave_removed_cwd(session: Session, command: Command) -> str:
    """The cwd for a command. A removed one is left for its nearest existing ancestor, with a note."""
    cwd, lost = existing_cwd_of(session)
    if lost is not None:
        return_to_existing(session, lost, command.notes)
    return cwd


def return_to_existing(session: Session, lost: str, notes: list[str]) -> None:
    """Moves the primary shell to the nearest existing ancestor of a directory."""
    cwd = nearest_existing(lost)
    if session.primary is not None and cwd != lost:
        session.primary.send(*short_order(0, session.resident.null, cd_command(cwd), []))
        notes.append("cwd fell back to %s: %s no longer exists" % (cwd, lost))


def check_stdin(session: Session) -> None:
    """Checks the idle primary shell's stdin: a command may have changed it, for example with exec in
    a function.
    """
    shell = session.primary
    if shell and shell.pid is not None and shell.fd is not None and shell.command is None:
        session.has_null_stdin = has_null_stdin(shell.pid, shell.fd)
