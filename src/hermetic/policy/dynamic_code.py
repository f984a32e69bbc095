"""Code that is not visible before it runs, and its verdict."""

from __future__ import annotations

import re

from hermetic.policy.call import Call
from hermetic.policy.marks import DECODED, FILE, INPUT, LOCAL, NET, SECRET, UNSET, marks_in, shown
from hermetic.policy.programs.table import rule
from hermetic.policy.shell import Shell

REMOTE_CODE = rule("run-download")
OPAQUE_CODE = rule("run-decoded")
UNKNOWN_COMMAND = rule("run-unknown")
DYNAMIC_CODE = rule("run-local-output")
OPTION_RUNS = rule("option-runs-program")
FORK_BOMB = rule("fork-bomb")
EXHAUSTION = rule("use-everything-up")


def execute(call: Call, text: str, how: str, *, piped: bool = False) -> bool:
    """Judge code of which a part is not known; True when that was reported."""
    marks = marks_in(text)
    if not marks:
        return False
    if NET in marks:
        call.report(REMOTE_CODE, f"runs what another machine sends, as {how}")
    elif DECODED in marks:
        call.report(OPAQUE_CODE, f"runs text that only a decoder shows, as {how}")
    elif piped and marks.strip(FILE) == "":
        call.report(DYNAMIC_CODE, f"runs a file's content, as {how}")
    elif piped and (LOCAL in marks or FILE in marks):
        call.report(OPAQUE_CODE, f"runs text made by another program, as {how}")
    elif LOCAL in marks and how != "a program's name" and UNSET not in marks:
        call.report(DYNAMIC_CODE, f"runs what a local program prints, as {how}")
    elif piped and marks == INPUT:
        return False
    else:
        reason = f"runs text that cannot be known beforehand, as {how}: {shown(text[:120])}"
        call.report(UNKNOWN_COMMAND, reason)
    return True


def is_wholly_unseen(text: str) -> bool:
    """True for text of which nothing is known but that an unknown variable holds it."""
    return UNSET in text and not text.strip("".join(marks_in(text)) + " \n\"'")


def run_program(call: Call, text: str, how: str) -> str:
    """Evaluate a command that an option hands to another program; a script of unknown content is
    reported.
    """
    words = text.split()
    if words and "/" in words[0] and not re.match(r"/(usr/(local/)?)?s?bin/", words[0]):
        call.report(OPTION_RUNS, f"makes {call.name} run {shown(words[0])}, as {how}")
    return run_code(call, text, how)


def run_code(call: Call, text: str, how: str, shell: Shell | None = None) -> str:
    """Evaluate shell code given as text; unknown text where a command stands is reported there."""
    marks = marks_in(text)
    if NET in marks or DECODED in marks or SECRET in marks:
        execute(call, text, how)
        return call.shell_text(text, shell=shell) if text.strip("".join(marks) + " \n") else ""
    if marks and not text.strip("".join(marks) + " \n\"'"):
        execute(call, text, how)
        return LOCAL
    return call.shell_text(text, shell=shell)
