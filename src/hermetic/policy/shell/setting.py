"""What sets a variable goes this way, whether an assignment, a builtin, a loop or an expansion."""

from __future__ import annotations

import re

from hermetic.policy.budget import joined
from hermetic.policy.call import Call, Machine
from hermetic.policy.marks import NUMBER
from hermetic.policy.variables import judge_variable

from .elements import numbered
from .state import Shell, Value, texts_of

# An index is arithmetic, and commands in it run, wherever the text is taken for a variable's name
# or a number.
HIDDEN_INDEX = re.compile(r"\s*[A-Za-z_]\w*\[.*(\$\(|`)", re.DOTALL)


def set_variable(machine: Machine, shell: Shell, name: str, value: Value) -> None:
    """Set a variable, or the one that a nameref leads to, and judge what the value does."""
    target = shell.reference(name)
    if "[" in target:  # which element an index leads to is not known here
        texts = joined(texts_of(value), " ")
        shell.variables[shell.resolve(name)] = {**numbered(shell.get(name)), NUMBER: texts}
    else:
        shell.set(name, value)
    judge_value(machine, shell, name, value)


def judge_value(machine: Machine, shell: Shell, name: str, value: Value) -> None:
    """Judge a variable's value: commands in an index, and what other programs do with it."""
    texts = texts_of(value)
    for text in texts:
        if "[" in text and HIDDEN_INDEX.match(text):
            machine.fold_text(text, shell)
    name, text = shell.resolve(name), texts[0] if texts else ""
    judge_variable(Call([f"{name}={text}"], shell, None, {}, machine), name, text, temporary=False)
