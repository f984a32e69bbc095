"""Traps: code that may run between any two commands, and change what the next one meets."""

from __future__ import annotations

from hermetic.policy.tables import names

from .state import Shell

EVENTS = frozenset(names("DEBUG ERR RETURN"))  # traps that commands themselves set off


def keep(shell: Shell, code: str, signals: list[str]) -> None:
    """Set or, with `-` or nothing as code, forget traps; the one on EXIT changes nothing that a
    command meets.
    """
    kept = tuple(trap for trap in shell.traps if trap[0] not in signals)
    added = (
        () if code in ("-", "") else tuple((signal, code) for signal in signals if signal != "EXIT")
    )
    shell.traps = kept + added


def signal_name(word: str) -> str:
    """The name of a signal without its prefix."""
    name = word.upper().removeprefix("SIG")
    return "EXIT" if name == "0" else name
