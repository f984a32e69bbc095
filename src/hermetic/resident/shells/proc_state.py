"""Where a shell stands and what it reads from, by the kernel's word."""

from __future__ import annotations

import os

DELETED = " (deleted)"  # what the kernel adds to the name of a directory that is gone


def existing_cwd(cwd: str, pid: int | None) -> tuple[str, str | None]:
    """A shell's directory; once that is gone its nearest living ancestor, and the path that is gone."""
    if not cwd.endswith(DELETED) or pid is None or not _is_gone(pid):
        return cwd, None
    lost = cwd[: -len(DELETED)]
    return nearest_existing(lost), lost


def _is_gone(pid: int) -> bool:
    """Whether it stands in a directory without a name; the kernel's word for that may be part of one."""
    try:
        return os.stat("/proc/%d/cwd" % pid).st_nlink == 0
    except OSError:
        return False


def nearest_existing(path: str) -> str:
    """The path itself, or the nearest of its ancestors that is a directory."""
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    return path


def has_null_stdin(pid: int, channel: int) -> bool:
    """Whether a shell's own standard input is the null device; while it reads an order, its channel is in the place."""
    try:
        is_reading = _reads_from(pid, channel)
        fd = _saved_stdin(pid) if is_reading else 0
        is_null = os.readlink("/proc/%d/fd/%d" % (pid, fd)) == "/dev/null" and _flags(pid, fd) & 3 != os.O_WRONLY
        return is_null and _reads_from(pid, channel) == is_reading  # what is put aside to report is no input
    except (OSError, StopIteration):
        return False


def _reads_from(pid: int, channel: int) -> bool:
    return os.path.samestat(os.stat("/proc/%d/fd/0" % pid), os.fstat(channel))


def _saved_stdin(pid: int) -> int:
    """Where bash keeps its standard input while a redirection holds: from 10 on, and closed on exec unlike a user's."""
    descriptors = sorted(fd for fd in map(int, os.listdir("/proc/%d/fd" % pid)) if fd >= 10)
    return next(fd for fd in descriptors if is_closed_on_exec(pid, fd))


def is_closed_on_exec(pid: int, fd: int) -> bool:
    return bool(_flags(pid, fd) & os.O_CLOEXEC)


def _flags(pid: int, fd: int) -> int:
    with open("/proc/%d/fdinfo/%d" % (pid, fd)) as file:
        return int(next(line for line in file if line.startswith("flags:")).split()[1], 8)
