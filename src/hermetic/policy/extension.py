"""Rows and rules of a user or a project, in the form of programs/rows/*.toml. They add findings to what
is known anyway.

A row tightens: it is judged beside what Hermetic knows of the program, never instead of it. A
pattern without a rule spares: it takes back what the generic rule has reported of a program that
Hermetic does not know.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from hermetic.contract.errors import ConfigError

from .call import Call
from .programs.interpret import ROLES, judge_by_row, matched
from .programs.table import TABLE, Row, Table
from .programs.texts import is_action
from .rules import Rule

SETTING = "approvals.programs"
_ONLY_OURS = frozenset({"lists", "texts"})


class Extension:
    """Tables of rows, each by itself: what one says does not change another."""

    def __init__(self, layers: Sequence[Mapping[str, Any]]) -> None:
        self._tables = tuple(_table(layer) for layer in layers)

    def __repr__(self) -> str:
        return f"<Extension: {' '.join(program for table in self._tables for program in table)}>"

    def __contains__(self, program: str) -> bool:
        return any(program in table for table in self._tables)

    @property
    def rules(self) -> Iterator[Rule]:
        """Its rules, with their examples."""
        for table in self._tables:
            yield from table.rules.values()

    def judge(self, call: Call) -> None:
        """Report what its rows say of a program."""
        for table in self._tables:
            if call.name in table:
                judge_by_row(_own(call, table))

    def spares(self, call: Call) -> bool:
        """True when the first entry that matches has no rule."""
        for table in self._tables:
            own = _own(call, table)
            found = (entry for entry in own.row.rules if matched(own, entry) is not None)
            entry = next(found, None)
            if entry is not None and not entry.rule:
                return True
        return False


def _own(call: Call, table: Table) -> Call:
    """A call that is judged by the row and the rules of another table."""
    own = call.named(call.name, call.args)
    own.table = table
    return own


def _table(layer: Mapping[str, Any]) -> Table:
    """Raises ConfigError for a row that says nothing, or something that rows do not know."""
    for name, fields in layer.items():
        if name in _ONLY_OURS or not isinstance(fields, dict):
            raise ConfigError(
                f"{SETTING}: {name} is no table of a program; its fields are in docs/policy.md",
                setting=SETTING,
            )
    try:
        table = Table({"": {name: dict(fields) for name, fields in layer.items()}})
        rows = {program: table.row(program) for program in table}
    except (msgspec.ValidationError, AttributeError, TypeError) as error:
        raise ConfigError(
            f"{SETTING}: {error}; the fields of a row are in docs/policy.md", setting=SETTING
        ) from None
    for program, row in rows.items():
        if problem := _problem(row, table):
            raise ConfigError(f"{SETTING}.{program}: {problem}", setting=SETTING)
    return table


def _problem(row: Row, table: Table) -> str:
    if row.hook:
        return "a row of yours has no hook; say what it does by its other fields"
    if unknown := {role.rstrip("*") for role in row.operands.split()} - ROLES:
        return f"operands has no role {min(unknown)}; there are: {', '.join(sorted(ROLES))}"
    for entry in (*row.rules, *row.checks):
        known = is_action(entry.rule) or entry.rule in table.rules or entry.rule in TABLE.rules
        if entry.rule and not known:
            return f"there is no rule {entry.rule}; define it as [{SETTING}.rules.{entry.rule}]"
        try:
            re.compile(entry.pattern.removeprefix("!"))
        except re.error as error:
            return f"the pattern {entry.pattern!r} cannot be read: {error}"
    return ""
