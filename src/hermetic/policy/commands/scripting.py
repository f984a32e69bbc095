"""AppleScript: what it tells applications to do."""

from __future__ import annotations

import re

from hermetic.policy.call import Call
from hermetic.policy.effects import OUTSIDE_DELETE

from .services import POWER, SERVICE_ENABLE
from .unseen import UNKNOWN_COMMAND, run_code

_POWER = re.compile(r"(?i)\b(shut ?down|restart|sleep|log ?out)\b(?!\s*\")")
_TELLS = re.compile(r"(?i)\btell\s+(app|application)\b")
_SHELL = re.compile(r'(?i)do (?:shell )?script\s+"((?:[^"\\]|\\.)*)"')


def judge_applescript(call: Call, text: str) -> None:
    """Report what a text tells the Finder, System Events or a terminal to do."""
    for match in _SHELL.finditer(text):
        run_code(call, match[1].replace('\\"', '"'), "a script")
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', '""', text)
    if not _TELLS.search(text):
        return
    if _POWER.search(bare):
        call.report(POWER, "stops or restarts the machine")
    if re.search(r"(?i)\bmake\b.*\blogin item\b", bare):
        call.report(SERVICE_ENABLE, "makes something start by itself")
    if re.search(r"(?i)\b(delete|empty)\b.*\b(trash|item|items|file|files|folder|folders|disk|home)\b", bare):
        call.report(OUTSIDE_DELETE, "deletes files by the Finder")
    if re.search(r"(?i)\b(keystroke|key code)\b", bare):
        call.report(UNKNOWN_COMMAND, "types into other windows")
