"""Files whose writing always needs an approval: credentials, control sockets, and our own
settings.
"""

from __future__ import annotations

from hermetic.policy.programs.table import alternatives, rule

from .call import Call
from .marks import shown
from .paths import follow, is_records, is_secret, resolve

PROTECTED_WRITE = rule("write-protected")
_SOCKETS, _OURS = map(alternatives, ("engine-sockets", "our-files"))


def protect(call: Call, path: str) -> None:
    """Report a path that holds credentials, or leads to an engine."""
    full = follow(resolve(path, call.shell), call.shell)
    if is_secret(full, call.shell):
        call.report(PROTECTED_WRITE, f"changes credentials: {shown(path)}", full)
    elif _SOCKETS.search(full):
        call.report(
            PROTECTED_WRITE, f"changes the socket of a container engine: {shown(path)}", full
        )


def protect_ours(call: Call, full: str, name: str) -> None:
    """Report a path that says what Hermetic itself may do."""
    if ("herme" in full and _OURS.search(full)) or is_records(full):
        call.report(PROTECTED_WRITE, f"changes what Hermetic itself may do: {name}", full)
