"""What a rule is: a name, what it means when it applies, and examples of both kinds."""

from __future__ import annotations

import msgspec

from hermetic.contract.verdict import Effect, Label, Source


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of finding. `catches` and `spares` are commands that must and must not raise it."""

    name: str
    category: str
    label: Label = "dangerous"
    severity: int = 7
    effects: tuple[Effect, ...] = ()
    hardline: bool = False
    reason: str = ""  # of an entry that gives none
    catches: tuple[str, ...] = ()
    spares: tuple[str, ...] = ()


class Finding(msgspec.Struct, frozen=True):
    """A rule that applied to a place of the text."""

    rule: Rule
    reason: str
    start: int
    end: int
    decoded: str
    path: str | None = None
    inside: bool = False  # concerns another machine or a container, not this host
    argv: tuple[str, ...] = ()  # of the program that does it
    # whether that program does it, a redirection beside it, or the text as a whole
    source: Source = "text"
    exact: str = ""  # what tells it from all other acts; empty when that cannot be known
    around: str = ""  # of directory and variables alone
