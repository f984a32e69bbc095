"""Assignments to variables, array elements and whole arrays."""

from __future__ import annotations

import re

from hermetic.policy.budget import copying, joined
from hermetic.policy.call import Machine
from hermetic.policy.marks import unknown_like

from .expansion import MAX_FIELDS, Folder
from .setting import set_variable
from .state import Shell, Value, texts_of
from .syntax import Assign, Lit, Word

MAX_INDEX = 4096
# Their operands of the form of an assignment are not split.
DECLARING = frozenset({"alias", "declare", "export", "local", "readonly", "typeset"})
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(\[.*\])?\+?=", re.DOTALL)


def is_assignment(word: Word) -> bool:
    """Whether an operand of a declaration has the form of an assignment."""
    first = word.pieces[0] if word.pieces else None
    return isinstance(first, Lit) and not first.quoted and bool(_ASSIGNMENT.match(first.text))


def makes_local(argv: list[str]) -> bool:
    """Whether a declaration makes its variables local to the function that runs."""
    flags = "".join(arg for arg in argv[1:] if arg[:1] == "-")
    return argv[:1] in (["local"], ["declare"], ["typeset"]) and not {*"gpfF"}.intersection(flags)


def assign(machine: Machine, assign: Assign, shell: Shell, folder: Folder) -> None:
    """Do what an assignment says, and judge it where the variable changes what programs do."""
    old: Value | None = shell.variables.get(shell.resolve(assign.name))
    if assign.value is None:
        set_variable(machine, shell, assign.name, _array(assign, old, folder))
        return
    text = folder.text(assign.value)
    if assign.index is not None:
        _assign_element(machine, assign, text, shell, folder)
        return
    if assign.append:
        old = shell.get(assign.name)
        if isinstance(old, list):
            machine.spend(len(old))
            first = joined((old[0] if old else "", text))
            set_variable(machine, shell, assign.name, [first, *old[1:]])
            return
        text = joined((old if isinstance(old, str) else shell.scalar(assign.name), text))
        machine.spend(copying(text))
    set_variable(machine, shell, assign.name, text)


def _assign_element(
    machine: Machine, assign: Assign, text: str, shell: Shell, folder: Folder
) -> None:
    assert assign.index is not None
    old = shell.get(assign.name)
    if assign.name in ("BASH_ALIASES", "BASH_CMDS"):
        shell.aliases[folder.text(assign.index)] = text
    if isinstance(old, dict):
        set_variable(machine, shell, assign.name, {**old, folder.text(assign.index): text})
        return
    values = texts_of(old) if old is not None else []
    number = folder.arithmetic(assign.index)
    if not number.lstrip("-").isdigit() or abs(int(number)) > MAX_INDEX:
        key = folder.text(assign.index)
        numbered = {str(n): v for n, v in enumerate(values)}
        set_variable(machine, shell, assign.name, {**numbered, key: text})
        return
    at = int(number)
    values += [""] * (at + 1 - len(values))
    values[at] = joined((values[at], text)) if assign.append else text
    set_variable(machine, shell, assign.name, values)


def _array(assign: Assign, old: Value | None, folder: Folder) -> Value:
    if any(index is not None for index, _ in assign.items) or isinstance(old, dict):
        pairs: dict[str, str] = dict(old) if isinstance(old, dict) and assign.append else {}
        for number, (index, word) in enumerate(assign.items):
            pairs[folder.text(index) if index is not None else str(number)] = folder.text(word)
        if all(key.isdigit() for key in pairs) and not isinstance(old, dict):
            return [pairs[key] for key in sorted(pairs, key=lambda text: int(text[:9]))]
        return pairs
    values = folder.fields([word for _, word in assign.items])
    if assign.append:
        values = [*(texts_of(old) if old is not None else []), *values]
        folder.runner.spend(len(values))
        return (
            values if len(values) <= MAX_FIELDS else [*values[:MAX_FIELDS], unknown_like(*values)]
        )
    return values
