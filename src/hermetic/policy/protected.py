"""Files that nobody writes without being asked about it: credentials, control sockets, and our own settings."""

from __future__ import annotations

import re

from .call import Call
from .marks import shown
from .paths import follow, is_records, is_secret, resolve
from .rules import Rule

PROTECTED_WRITE = Rule(
    name="write-protected",
    category="protected-path",
    severity=8,
    effects=("writes", "changes shared state"),
    catches=(
        "echo x >> hermetic.toml",
        "rm ~/.local/state/hermetic/approvals.toml",
        "cp a ~/.config/hermetic/config.toml",
    ),
    spares=("cat hermetic.toml", "echo hermetic.toml"),
)
_SOCKETS = re.compile(r"/(var/)?run/(docker|podman/podman|containerd/containerd|crio/crio)\.sock$|/docker\.sock$")
_OURS = re.compile(r"/hermetic\.toml$|/\.config/hermetic(/|$)|/\.local/state/hermetic(/|$)|/(\.hermes)(/|$)")


def protect(call: Call, path: str) -> None:
    """Report a path that holds credentials, or leads to an engine."""
    full = follow(resolve(path, call.shell), call.shell)
    if is_secret(full, call.shell):
        call.report(PROTECTED_WRITE, f"changes credentials: {shown(path)}", full)
    elif _SOCKETS.search(full):
        call.report(PROTECTED_WRITE, f"changes the socket of a container engine: {shown(path)}", full)


def protect_ours(call: Call, full: str, name: str) -> None:
    """Report a path that says what Hermetic itself may do."""
    if ("herme" in full and _OURS.search(full)) or is_records(full):
        call.report(PROTECTED_WRITE, f"changes what Hermetic itself may do: {name}", full)
