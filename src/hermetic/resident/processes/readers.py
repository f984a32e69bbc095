"""Processes that read a job's input: the terminal's foreground group, or those with the pipe as stdin."""

from __future__ import annotations

import fcntl
import os
import struct

from .tree import stat_fields
from .waiting import identity_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    Reader = tuple[int, str, list[bytes]]  # pid, program name, arguments

TIOCGPGRP = 0x540F
READERS = 32  # reported at most
WORDS = 8  # reported of each
WORD_BYTES = 256


def programs_of(pids: Iterable[int]) -> list[str]:
    """Distinct names of the programs that these processes run."""
    return sorted({_described(pid)[1] for pid in pids})[:READERS]


def readers_of(pids: Iterable[int], identity: tuple[int, int], terminal: int | None) -> list[Reader]:
    """Processes that may read the next byte. `terminal` is a descriptor of the job's terminal, if it has one."""
    group = None if terminal is None else _foreground(terminal)
    found = []
    for pid in pids:
        fields = stat_fields(pid)
        if len(fields) < 3 or fields[0] == "Z":
            continue
        if group is not None and fields[2] != str(group):
            continue
        if terminal is None and not _has_as_input(pid, identity):
            continue
        found.append(_described(pid))
    return found[:READERS]


def _foreground(terminal: int) -> int | None:
    """The foreground process group of the terminal; None if it has none."""
    try:
        group: int = struct.unpack("i", fcntl.ioctl(terminal, TIOCGPGRP, bytes(4)))[0]
    except OSError:
        return None
    return group if group > 0 else None


def _has_as_input(pid: int, identity: tuple[int, int]) -> bool:
    try:
        return identity_of(os.stat("/proc/%d/fd/0" % pid)) == identity
    except OSError:
        return False


def _described(pid: int) -> Reader:
    words = _words(pid)
    if not words or words == _words(os.getpid()):
        return pid, "", []  # forked, but no program executed yet
    try:
        program = os.path.basename(os.readlink("/proc/%d/exe" % pid))
    except OSError:
        program = ""
    return pid, program, [word[:WORD_BYTES] for word in words]


def _words(pid: int) -> list[bytes]:
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as file:
            return [word for word in file.read(WORDS * WORD_BYTES).split(b"\0") if word][:WORDS]
    except OSError:
        return []
