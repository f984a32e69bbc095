"""The process at the other end of a Unix socket, and whether it runs inside an environment of this
machine.
"""

import os
import socket
import struct
from pathlib import Path
from typing import NamedTuple

from hermetic.registry.host_process import comm_of, parent_of

# Titles of residents and guardians, as long as the kernel keeps them.
RESIDENTS = ("hermetic-reside", "hermetic-guardi")
# Those from a resident or guardian upwards. A command that takes such a title has more of them
# above it.
_THEMSELVES = ((RESIDENTS[1],), (RESIDENTS[0],), RESIDENTS)
TAG = b"HERMETIC_COMMAND="  # a variable of every command; its value begins with the resident's id


class Peer(NamedTuple):
    """A process that has connected."""

    pid: int  # 0: in a PID namespace that this process does not see
    uid: int


def peer_of(connection: socket.socket) -> Peer:
    """By the kernel's account, at the time of the connection."""
    pid, uid, _ = struct.unpack(
        "3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    )
    return Peer(pid, uid)


def is_inside(pid: int) -> bool:
    """Whether a process belongs to an environment to which this process does not belong.

    It does if a resident is among its ancestors, if it carries the tag of a command, or if it is in
    another PID namespace. A process that has ended or cannot be examined counts as inside.
    """
    try:
        if pid <= 0 or os.readlink(f"/proc/{pid}/ns/pid") != os.readlink("/proc/self/ns/pid"):
            return True
    except OSError:
        return True
    return descends_from_resident(pid)


def descends_from_resident(pid: int) -> bool:
    """The same without a look at PID namespaces, which browsers may have of their own."""
    own = os.getpid()
    try:
        around, ours = _residents_above(pid), _residents_above(own) or {}
        return around is None or not around.keys() <= ours.keys() or not _tags(pid) <= _tags(own)
    except OSError:
        return True


def is_below_resident(pid: int) -> bool:
    """The same by its ancestors alone, which no process can hide.

    False for residents and guardians themselves.
    """
    around = _residents_above(pid)
    if not around or around.keys() <= (_residents_above(os.getpid()) or {}).keys():
        return False
    return pid not in around or tuple(around.values()) not in _THEMSELVES


def _residents_above(pid: int) -> dict[int, str] | None:
    """Residents and guardians from the process upwards, by pid, with their titles; None if the
    process has ended.
    """
    found = dict[int, str]()
    while pid > 0:
        if (title := comm_of(pid)) in RESIDENTS:
            found[pid] = title
        if (parent := parent_of(pid)) is None:
            return None
        pid = parent
    return found


def _tags(pid: int) -> set[bytes]:
    """Ids of the residents whose tags the process was started with."""
    variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return {
        variable.removeprefix(TAG).rpartition(b".")[0]
        for variable in variables
        if variable.startswith(TAG)
    }
