"""Unnamed files, in memory or on disk: they leave nothing behind, however the resident ends."""

from __future__ import annotations

import fcntl
import os

F_ADD_SEALS, ALL_SEALS = 1033, 15  # against further seals, shrinking, growing and writing


def write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def in_memory(data: bytes) -> int:
    """The descriptor of an unnamed memory file. Each open by path starts at byte 0."""
    fd = os.memfd_create("hermetic", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    write_all(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def sealed(data: bytes) -> int:
    """The same, sealed: no process can change a text that a shell evaluates, not even through
    /proc.
    """
    fd = in_memory(data)
    try:
        fcntl.fcntl(fd, F_ADD_SEALS, ALL_SEALS)
    except OSError:  # kernel without seals
        pass
    return fd


def open_unnamed(folder: str | None) -> int:
    """The descriptor of an unnamed file on disk. Raises OSError, also without a folder."""
    if folder is None:
        raise FileNotFoundError("no folder on disk for what does not fit into memory")
    try:
        return os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError:
        path = "%s/%d-%s" % (folder, os.getpid(), os.urandom(6).hex())
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        os.unlink(path)
        return fd
