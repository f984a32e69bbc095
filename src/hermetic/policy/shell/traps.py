"""Traps: code that may run between any two commands, and change what the next one meets."""

from __future__ import annotations

from typing import Protocol

from hermetic.policy.rules import Finding
from hermetic.policy.tables import names

from .join import join
from .state import Shell

EVENTS = frozenset(names("DEBUG ERR RETURN"))  # traps that commands themselves set off


class Trapped(Protocol):
    """Who evaluates the code of a trap."""

    findings: list[Finding]
    later: list[tuple[str, Shell, tuple[int, int]]]
    probing: int

    def fork(self, shell: Shell) -> Shell: ...
    def run_text(self, text: str, shell: Shell, stdin: str | None) -> str: ...


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


def spring(machine: Trapped, shell: Shell) -> None:
    """Make the shell what it may be before its next command: any of its traps may have run, or
    none.
    """
    ends, kept_for_later = [shell.fork()], len(machine.later)
    for signal, code in shell.traps:
        # what a signal runs is judged at the end
        findings, silent = machine.findings, signal not in EVENTS
        machine.findings = [] if silent else findings
        machine.probing += silent
        twin = machine.fork(shell)
        machine.run_text(code, twin, None)
        ends.append(twin)
        machine.probing -= silent
        machine.findings = findings
    del machine.later[kept_for_later:]
    join(shell, ends)
