"""Small hooks, one function each."""

from __future__ import annotations

import re

from hermetic.policy.call import Call
from hermetic.policy.marks import LOCAL, PIDS, STAR
from hermetic.policy.paths import resolve
from hermetic.policy.programs.texts import judge_patterns


def judge_ls(call: Call) -> str | None:
    """ls prints names: of its operands with -d, else of what is in them."""
    names = call.options.operands or ["."]
    if any(resolve(name, call.shell) == "/proc" for name in names):
        return PIDS + "\n"
    if call.options.has("d", "directory"):
        return "".join(f"{name}\n" for name in names)
    return "".join(
        f"{name}\n" if re.search(rf"\.\w+$|{STAR}\.\w", name) else f"{STAR}\n" for name in names
    )


def judge_fd(call: Call) -> str | None:
    """fd PATTERN ROOT prints what is below the root; -x COMMAND runs it on each match."""
    found = [f"{root.rstrip('/')}/{STAR}" for root in call.options.operands[1:] or ["."]]
    command = [word for word in call.options.rest if word not in (";", "\\;")]
    for path in found[:4] if command else ():
        filled = [part.replace("{}", path) for part in command]
        call.run(filled if filled != command else [*command, path], stdin="")
    return None if command else "".join(f"{path}\n" for path in found)


def judge_words(call: Call) -> str | None:
    """A program whose words as a whole are code of its language, beside what it reads."""
    is_whole = call.row.language == "powershell"  # its options are part of the code
    words = [arg for arg in call.args if is_whole or not arg.startswith("-")]
    judge_patterns(call, " ".join(words), call.row.language)
    if call.stdin is not None:
        judge_patterns(call, call.stdin, call.row.language)
    return LOCAL + "\n"


def judge_windows(call: Call) -> str | None:
    """cmd /c TEXT runs a command of Windows."""
    at = next(
        (at for at, arg in enumerate(call.args) if arg.lower() in ("/c", "/k")), len(call.args)
    )
    return call.run(" ".join(call.args[at + 1 :]).split())
