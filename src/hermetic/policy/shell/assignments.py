"""Assignments to variables, array elements and whole arrays."""

from __future__ import annotations

import re

from hermetic.policy.budget import copying, joined
from hermetic.policy.call import Machine
from hermetic.policy.marks import NUMBER, unknown_like

from .elements import Several, is_indexed, listed, numbered
from .expansion import MAX_FIELDS, Folder
from .setting import set_variable
from .state import Shell, Value, texts_of
from .syntax import Assign, Lit, Word

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


def makes_map(argv: list[str]) -> bool:
    """Whether a declaration makes its variables associative arrays."""
    return (
        argv[:1] != []
        and argv[0] in DECLARING
        and any(arg[:1] == "-" and "A" in arg for arg in argv[1:])
    )


def become_map(shell: Shell, name: str, *, is_new: bool) -> bool:
    """Make a variable an associative array; False where bash refuses, as it is an indexed one."""
    old = None if is_new else shell.get(name)
    if isinstance(old, list) or (isinstance(old, dict) and old and is_indexed(old)):
        if isinstance(old, dict):  # which of the two it is cannot be told
            shell.variables[name] = {**old, NUMBER: unknown_like(*old.values())}
        return False
    if not isinstance(old, dict):
        shell.variables[name] = {}
    return True


def assign(machine: Machine, assign: Assign, shell: Shell, folder: Folder) -> None:
    """Do what an assignment says, and judge it where the variable changes what programs do."""
    old: Value | None = shell.variables.get(shell.resolve(assign.name))
    if assign.value is None:
        set_variable(machine, shell, assign.name, _array(assign, old, folder))
        return
    text = folder.text(assign.value)
    if assign.index is not None:
        folder.set_element(assign.name, folder.text(assign.index), text, append=assign.append)
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


def _array(assign: Assign, old: Value | None, folder: Folder) -> Value:
    if isinstance(old, dict) and not is_indexed(old):
        pairs = dict(old) if assign.append else {}
        for index, word in assign.items:
            pairs[folder.text(index) if index is not None else str(len(pairs))] = folder.text(word)
        return pairs
    values = [*texts_of(old)] if assign.append and isinstance(old, str | list) else []
    if any(index is not None for index, _ in assign.items) or (
        assign.append and isinstance(old, dict)
    ):
        return _sparse(assign, numbered(old) if assign.append else {}, folder)
    values += folder.fields([word for _, word in assign.items])
    folder.runner.spend(len(values) if assign.append else 0)
    if len(values) > MAX_FIELDS:
        return [*values[:MAX_FIELDS], Several(unknown_like(*values))]
    return values


def _sparse(assign: Assign, pairs: dict[str, str], folder: Folder) -> Value:
    """An indexed array of which some elements name their index."""
    following = str(max((int(key) for key in pairs if key.isdigit()), default=-1) + 1)
    for index, word in assign.items:
        key = folder.calculate(folder.text(index)) if index is not None else following
        for text in [folder.text(word)] if index is not None else folder.fields([word]):
            key = NUMBER if isinstance(text, Several) else key
            pairs = {**pairs, key: text}
            key = str(int(key) + 1) if key.isdigit() else NUMBER
        following = key
    return listed(pairs)
