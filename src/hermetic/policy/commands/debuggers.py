"""Debuggers: their commands run shells and Python, and reach into other processes."""

from __future__ import annotations

import re

from hermetic.policy.call import Call, Judge
from hermetic.policy.effects import SECRET_READ, read
from hermetic.policy.marks import is_plain, shown
from hermetic.policy.tables import names

from .unseen import OPTION_RUNS, execute, is_wholly_unseen, run_code


def judge_gdb(call: Call) -> str | None:
    """gdb, lldb: commands by -ex; `shell`, `!`, `call` and `python` run things."""
    for flag, value in zip(call.args, [*call.args[1:], ""], strict=False):
        if flag not in names(
            """
-ex --ex -eval-command --eval-command -iex -o --one-line -O -x --command -s --source
"""
        ):
            name, equals, glued = flag.partition("=")
            if not (equals and name.lstrip("-") in ("ex", "eval-command", "command", "one-line")):
                continue
            value = glued
        if flag in ("-x", "--command", "-s", "--source"):
            content = read(call, value)
            if is_plain(content):
                for line in content.split("\n"):
                    _gdb_command(call, line)
            continue
        _gdb_command(call, value)
    if call.stdin is not None and is_plain(call.stdin):
        for line in call.stdin.split("\n"):
            _gdb_command(call, line)
    at = next((n for n, arg in enumerate(call.args) if arg in ("--args", "-args", "--")), -1)
    if at >= 0 and any(arg in ("run", "r", "-ex") for arg in call.args):
        call.run(call.args[at + 1 :])
    return None


def _gdb_command(call: Call, text: str) -> None:
    text = text.strip()
    if is_wholly_unseen(text):
        execute(call, text, "a debugger's command")
    match = re.match(r"(?:shell|!|make|pipe\s+.*?\||platform shell)\s*(.+)", text)
    if match:
        run_code(call, match[1], call.name)
        if "/" in match[1].partition(" ")[0] and not match[1].startswith(("/usr/bin", "/bin")):
            call.report(OPTION_RUNS, f"makes {call.name} run {shown(match[1])}")
    elif text.startswith(("python", "py ", "script")):
        call.run(["python3", "-c", text.partition(" ")[2]])
    elif re.match(r"(dump|generate-core-file|gcore|process save-core|memory read)\b", text):
        call.report(SECRET_READ, "copies the memory of another process, with the credentials in it")
    else:
        match = re.match(r"(?:call|print|p|expr|expression)\s.*\bsystem\s*\(\s*\"([^\"]*)\"", text)
        if match:
            run_code(call, match[1], call.name)


def judge_core(call: Call) -> str | None:
    """gcore writes down what another process holds in memory."""
    if [arg for arg in call.args if arg.isdigit()]:
        call.report(SECRET_READ, "copies the memory of another process, with the credentials in it")
    return None


JUDGES: dict[str, Judge] = {
    **dict.fromkeys(("gdb", "lldb", "cgdb", "rust-gdb", "rust-lldb"), judge_gdb),
    "gcore": judge_core,
}
