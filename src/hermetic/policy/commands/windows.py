"""Shells of Windows: PowerShell and cmd."""

from __future__ import annotations

import re

from hermetic.policy.call import Call, Judge

from .unseen import UNKNOWN_COMMAND


def judge_powershell(call: Call) -> str | None:
    """PowerShell: encoded or downloaded code, and commands that remove or stop things."""
    text = " ".join(call.args)
    if re.search(r"(?i)(^|\s)[-/]e(n|nc|nco|ncodedcommand)?\s", text) or re.search(
        r"(?i)\b(iex|invoke-expression|downloadstring|invoke-webrequest.*\|\s*iex|frombase64string)\b", text
    ):
        call.report(UNKNOWN_COMMAND, "runs PowerShell code that cannot be seen")
    if re.search(
        (
            r"(?i)\b(remove-item|rm|ri|del|rd|rmdir|format-volume|clear-disk|stop-computer|restart-computer|"
            r"stop-service|remove-\w+)\b"
        ),
        text,
    ):
        match = re.search(r"(?i)(remove-item|rm|ri|del|rd|rmdir)\s+(.*)", text)
        if match:
            paths = [word.strip("'\"") for word in match[2].split() if not word.startswith("-")]
            for path in paths[:4]:
                call.run(["rm", "-rf" if re.search(r"(?i)-rec", text) else "-f", path.replace("\\", "/")])
        else:
            call.report(UNKNOWN_COMMAND, "stops or removes parts of the machine with PowerShell")
    return None


def judge_cmd(call: Call) -> str | None:
    """cmd /c TEXT runs a command of Windows."""
    lowered = [arg.lower() for arg in call.args]
    at = next((at for at, arg in enumerate(lowered) if arg in ("/c", "/k")), -1)
    words = " ".join(call.args[at + 1 :]).split() if at >= 0 else []
    return call.run(words) if words else None


JUDGES: dict[str, Judge] = {
    **dict.fromkeys(("pwsh", "powershell"), judge_powershell),
    "cmd": judge_cmd,
}
