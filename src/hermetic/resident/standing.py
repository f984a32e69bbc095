"""Where a shell stands and what it reads from, by the kernel's word."""

from __future__ import annotations

import os

DELETED = " (deleted)"  # what the kernel adds to the name of a directory that is gone


def standing(cwd: str, pid: int | None) -> tuple[str, str | None]:
    """A shell's directory; once that is gone its nearest living ancestor, and the path that is gone."""
    if not cwd.endswith(DELETED) or pid is None or not _is_gone(pid):
        return cwd, None
    lost = cwd[: -len(DELETED)]
    return nearest_living(lost), lost


def _is_gone(pid: int) -> bool:
    """Whether it stands in a directory without a name; the kernel's word for that may be part of one."""
    try:
        return os.stat("/proc/%d/cwd" % pid).st_nlink == 0
    except OSError:
        return False


def nearest_living(path: str) -> str:
    """The path itself, or the nearest of its ancestors that is a directory."""
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    return path


def has_null_input(pid: int) -> bool:
    try:
        return os.readlink("/proc/%d/fd/0" % pid) == "/dev/null"
    except OSError:
        return False
