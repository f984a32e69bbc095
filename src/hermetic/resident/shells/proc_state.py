"""A shell's cwd and stdin, read from /proc."""

from __future__ import annotations

import os

DELETED = " (deleted)"  # the kernel's suffix for a removed directory


def existing_cwd(cwd: str, pid: int | None) -> tuple[str, str | None]:
    """A shell's cwd; if that was removed, its nearest existing ancestor and the removed path."""
    if not cwd.endswith(DELETED) or pid is None or not _is_gone(pid):
        return cwd, None
    lost = cwd[: -len(DELETED)]
    return nearest_existing(lost), lost


def _is_gone(pid: int) -> bool:
    """Whether the cwd was removed. The suffix alone does not show it: a name may end with it."""
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
    """Whether a shell's stdin is the null device.

    While it reads an order, its channel replaces stdin.
    """
    try:
        is_reading = _reads_from(pid, channel)
        fd = _saved_stdin(pid) if is_reading else 0
        is_null = (
            os.readlink("/proc/%d/fd/%d" % (pid, fd)) == "/dev/null"
            and _flags(pid, fd) & 3 != os.O_WRONLY
        )
        # the saved descriptor of a report is not stdin
        return is_null and _reads_from(pid, channel) == is_reading
    except (OSError, StopIteration):
        return False


def _reads_from(pid: int, channel: int) -> bool:
    return os.path.samestat(os.stat("/proc/%d/fd/0" % pid), os.fstat(channel))


def _saved_stdin(pid: int) -> int:
    """The descriptor where bash saves stdin during a redirection: 10 or higher, and close-on-exec
    unlike a user's.
    """
    descriptors = sorted(fd for fd in map(int, os.listdir("/proc/%d/fd" % pid)) if fd >= 10)
    return next(fd for fd in descriptors if is_closed_on_exec(pid, fd))


def is_closed_on_exec(pid: int, fd: int) -> bool:
    return bool(_flags(pid, fd) & os.O_CLOEXEC)


def _flags(pid: int, fd: int) -> int:
    with open("/proc/%d/fdinfo/%d" % (pid, fd)) as file:
        return int(next(line for line in file if line.startswith("flags:")).split()[1], 8)
