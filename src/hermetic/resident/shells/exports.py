"""State reports of a session's shell: exported variables and all definitions."""

from __future__ import annotations

import os

from .orders import DEFINITIONS, EXPORTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .orders import StateReport
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
