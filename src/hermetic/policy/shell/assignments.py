"""Assignments to variables, array elements and whole arrays."""

from __future__ import annotations

import re

from hermetic.policy.budget import copying, joined
from hermetic.policy.call import Call, Machine
from hermetic.policy.marks import unknown_like
from hermetic.policy.variables import judge_variable

from .expansion import MAX_FIELDS, Folder
from .state import Shell, Value, texts_of
from .syntax import Assign

MAX_INDEX = 4096
# An index is arithmetic, and commands in it run, wherever the text is taken for a variable's name
# or a number.
HIDDEN_INDEX = re.compile(r"\s*[A-Za-z_]\w*\[.*(\$\(|`)", re.DOTALL)


def makes_local(argv: list[str]) -> bool:
    """Whether a declaration makes its variables local to the function that runs."""
    flags = "".join(arg for arg in argv[1:] if arg[:1] == "-")
    return argv[:1] in (["local"], ["declare"], ["typeset"]) and not {*"gpfF"}.intersection(flags)


def assign(machine: Machine, assign: Assign, shell: Shell, folder: Folder) -> None:
    """Do what an assignment says, and judge it where the variable changes what programs do."""
    old: Value | None = shell.variables.get(shell.resolve(assign.name))
    if assign.value is None:
        shell.set(assign.name, _array(assign, old, folder))
        return
    text = folder.text(assign.value)
    if assign.index is not None:
        _assign_element(assign, text, shell, folder)
        return
    if assign.append:
        old = shell.get(assign.name)
        if isinstance(old, list):
            machine.spend(len(old))
            shell.set(assign.name, [joined((old[0] if old else "", text)), *old[1:]])
            return
        text = joined((old if isinstance(old, str) else shell.scalar(assign.name), text))
        machine.spend(copying(text))
    shell.set(assign.name, text)
    if HIDDEN_INDEX.match(text):
        machine.fold_text(text, shell)
    name = shell.resolve(assign.name)
    call = Call([f"{name}={text}"], shell, None, {}, machine)
    judge_variable(call, name, text, temporary=False)


def _assign_element(assign: Assign, text: str, shell: Shell, folder: Folder) -> None:
    assert assign.index is not None
    old = shell.get(assign.name)
    if assign.name in ("BASH_ALIASES", "BASH_CMDS"):
        shell.aliases[folder.text(assign.index)] = text
    if isinstance(old, dict):
        shell.set(assign.name, {**old, folder.text(assign.index): text})
        return
    values = texts_of(old) if old is not None else []
    number = folder.arithmetic(assign.index)
    if not number.lstrip("-").isdigit() or abs(int(number)) > MAX_INDEX:
        key = folder.text(assign.index)
        shell.set(assign.name, {**{str(n): v for n, v in enumerate(values)}, key: text})
        return
    at = int(number)
    values += [""] * (at + 1 - len(values))
    values[at] = joined((values[at], text)) if assign.append else text
    shell.set(assign.name, values)


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
