"""Whether what was found stays inside the place the command runs in."""

from hermetic.contract.environment import Isolation
from hermetic.policy.programs.table import TABLE

from .rules import Finding

# What a place of its own keeps to itself.
_HOST_ONLY = frozenset(TABLE.words("host-only"))
# Unknown code reaches all that is shared.
_ANYWHERE = frozenset({"remote-code", "opaque-code", "recursive-delete"})
# What cannot happen where there is no network.
_NEEDS_NETWORK = frozenset({"secret-exfil", "reverse-shell", "cloud-destroy", "remote-code"})
# What belongs to the caller only where the caller's files are mounted.
_OF_FILES = frozenset({"secret-read", "protected-path"})
# A real machine, local or remote.
_MACHINES = frozenset({"local", "ssh"})
# Directories that hold the sockets of engines.
_CONTROL = frozenset({"/", "/run", "/var", "/var/run"})
# Directories that belong to the image: a shared path is not expected to appear there under another
# name.
_IMAGE = ("/usr/", "/bin/", "/sbin/", "/lib/", "/lib64/", "/boot/")


def is_contained(finding: Finding, isolation: Isolation) -> bool:
    """True when what was found cannot leave the place, nor reach what it shares with the caller's
    machine.
    """
    category = finding.rule.category
    if not is_apart(isolation):
        return False
    if category in _OF_FILES:
        own = finding.path is not None and not finding.inside
        return own and not shows_host(finding.path or "", isolation)
    if isolation.separate_network and category in _NEEDS_NETWORK:
        return True
    leads_out = any(map(_leads_out, isolation.shared_paths))
    if finding.inside or leads_out or category not in _HOST_ONLY:
        return False
    if not isolation.shared_paths:
        return True
    if finding.path is None:
        return category not in _ANYWHERE
    # A sandbox shows what it shares under its own name, so all else is its own or cannot be
    # written.
    is_own = isolation.kind == "sandbox" or _of_image(finding.path)
    return is_own and not any(_overlaps(finding.path, path) for path in isolation.shared_paths)


def is_apart(isolation: Isolation) -> bool:
    """True for an environment with files and processes of its own that is not a whole machine."""
    separate = isolation.separate_files and isolation.separate_processes
    return separate and isolation.kind not in _MACHINES


def shows_host(path: str, isolation: Isolation) -> bool:
    """True when files of the caller's machine may be seen at, below or above a path there."""
    if any(_leads_out(shared) for shared in isolation.shared_paths):
        return True
    if isolation.mounts is None:
        return bool(isolation.shared_paths)
    return any(_overlaps(path, mount) for mount in isolation.mounts)


def _leads_out(shared: str) -> bool:
    return shared.endswith(".sock") or (shared.rstrip("/") or "/") in _CONTROL


def _of_image(path: str) -> bool:
    return (path.rstrip("/") + "/").startswith(_IMAGE)


def _overlaps(path: str, shared: str) -> bool:
    one, other = path.rstrip("/") + "/", shared.rstrip("/") + "/"
    return one.startswith(other) or other.startswith(one)
