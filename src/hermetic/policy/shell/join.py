"""Joins of branches: what a shell may hold when it is unknown which of several was taken."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from hermetic.policy.marks import NUMBER, UNSET, unknown_like
from hermetic.policy.paths import classify

from .elements import Several
from .state import Hidden, Shell, Value, texts_of
from .syntax import If, Seq

MAX_WORLDS = 8


def join(shell: Shell, ends: Sequence[Shell]) -> None:
    """Make `shell` what it may be after any of the ends; a variable they disagree on keeps every
    value it may have.
    """
    for name in _differing(shell, ends):
        values = _distinct(value for end in ends for value in _values(end, name))
        if len(values) > MAX_WORLDS:
            values = [_unknown(values)]
        shell.variables[name] = values[0]
        shell.choices.pop(name, None)
        if len(values) > 1:
            shell.choices[name] = tuple(values)
    _join_functions(shell, ends)
    shell.references = {name: to for end in ends for name, to in end.references.items()}
    shell.hidden = _hidden(ends)
    shell.lastpipe = any(end.lastpipe for end in ends)
    shell.traps = tuple(dict.fromkeys(trap for end in ends for trap in end.traps))
    for end in ends:
        shell.aliases.update(end.aliases)
    exported = [end.exported for end in (shell, *ends) if end.exported is not None]
    shell.exported = frozenset().union(*exported) if len(exported) > len(ends) else None
    first, *others = (end.positional for end in ends)
    shell.positional = first if all(one == first for one in others) else [Several(UNSET)]
    cwds = {end.cwd for end in ends}
    shell.cwd = cwds.pop() if len(cwds) == 1 else _worst_directory(cwds, shell)


def undecided(shell: Shell) -> dict[str, tuple[Value, ...]]:
    """The variables that may have one of several values, as long as nothing was assigned to them
    since.
    """
    return {
        name: values
        for name, values in shell.choices.items()
        if shell.variables.get(name) is values[0]
    }


def worlds(shell: Shell, choices: dict[str, tuple[Value, ...]], names: list[str]) -> list[Shell]:
    """A shell for every way to decide `names`; too many ways are one in which they are unknown."""
    ways = 1
    for name in names:
        ways *= len(choices[name])
    if ways > MAX_WORLDS:
        return [decided(shell, {name: _unknown(choices[name]) for name in names})]
    picks = itertools.product(*(choices[name] for name in names))
    return [decided(shell, dict(zip(names, pick, strict=True))) for pick in picks]


def decided(shell: Shell, values: dict[str, Value]) -> Shell:
    """The same shell where these variables have these values, and nothing is left open."""
    twin = shell.fork()
    twin.choices = {}
    twin.seen = set()
    twin.variables.update(values)
    return twin


def either(outputs: list[str]) -> str:
    """What is printed when one of several ways is taken."""
    printed = list(dict.fromkeys(text for text in outputs if text))
    if len(printed) > 1:
        return unknown_like(*printed)
    return printed[0] if printed else ""


def widen(shell: Shell, before: dict[str, Value]) -> None:
    """Make every variable that changed since `before` unknown."""
    for name, value in shell.variables.items():
        if before.get(name) != value:
            unknown = _unknown([value])
            # a run of numbers
            shell.variables[name] = NUMBER + NUMBER if unknown == NUMBER else unknown


def _differing(shell: Shell, ends: Sequence[Shell]) -> list[str]:
    """The variables that are not in all ends what they are in the shell."""
    names = dict.fromkeys(name for end in ends for name in end.variables)
    found: list[str] = []
    for name in names:
        value, choices = shell.variables.get(name), shell.choices.get(name)
        for end in ends:
            if end.variables.get(name) is not value or end.choices.get(name) is not choices:
                found.append(name)
                break
    return found


def _values(end: Shell, name: str) -> tuple[Value, ...]:
    value = end.variables.get(name)
    if value is None:
        # The text itself sets this variable on another way, so where it does not the variable is
        # empty.
        return (end.get(name) or "",)
    open_values = end.choices.get(name)
    return open_values if open_values is not None and open_values[0] is value else (value,)


def _hidden(ends: Sequence[Shell]) -> dict[str, Hidden] | None:
    """The local variables; not certain where only some ends have made them."""
    if ends[0].hidden is None:
        return None
    found = {name: hidden for end in ends for name, hidden in (end.hidden or {}).items()}
    for name, hidden in found.items():
        certain = all(
            name in (end.hidden or {}) and (end.hidden or {})[name].certain for end in ends
        )
        found[name] = hidden._replace(certain=certain)
    return found


def _distinct(values: Iterable[Value]) -> list[Value]:
    kept: list[Value] = []
    for value in values:
        if value not in kept:
            kept.append(value)
    return kept


def _unknown(values: Sequence[Value]) -> Value:
    """Unknown text, or an unknown number where all values are numbers."""
    texts = [text for value in values for text in texts_of(value)]
    are_texts = [isinstance(value, str) for value in values]
    if texts and all(text.isdigit() for text in texts) and all(are_texts):
        return NUMBER
    unknown = unknown_like(*texts)
    return unknown if any(are_texts) else [Several(unknown)]


def _join_functions(shell: Shell, ends: Sequence[Shell]) -> None:
    for name in {name for end in ends for name in end.functions}:
        found = (end.functions.get(name) for end in ends)
        bodies = {id(body): body for body in found if body is not None}
        first, *others = bodies.values()
        ways: list[tuple[Seq | None, Seq]] = [(None, Seq([(one, ";")])) for one in bodies.values()]
        shell.functions[name] = If(ways, start=first.start, end=first.end) if others else first
        if any(name not in end.functions or name in end.unsure for end in ends):
            shell.unsure |= {name}


def _worst_directory(cwds: set[str], shell: Shell) -> str:
    ours = ("workspace", "workspace root", "temp")
    return min(sorted(cwds), key=lambda cwd: classify(cwd, shell) in ours)
