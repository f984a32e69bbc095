"""The bash of an environment: where it is, and whether it is new enough for sessions."""

from __future__ import annotations

import os

from ..processes.posix_spawn import find_program

OLDEST_BASH = (4, 4)
PIECE = 1 << 16  # of a bash that is searched
BASH_VERSION = b"@(#)Bash version "  # stands before its version in a bash
BIN_BASH = "/bin/bash"  # where an opener puts its own if there is none


class NoBash(OSError):
    """There is no bash on PATH."""


class OldBash(OSError):
    """The bash on PATH is too old for our sessions."""


def find_bash(chosen: str, path: str) -> str:
    """The chosen bash, else the one on PATH. Raises NoBash, OldBash: an opener can bring one along."""
    found = find_program("bash", path)
    # An empty file is what an engine left as the mount point of a bash that was brought along.
    if chosen != BIN_BASH and (not os.path.isabs(found) or not os.path.getsize(found)):
        raise NoBash("no bash on PATH there, which is %s" % path)
    if not chosen:
        version = bash_version(found).split(b".")
        if len(version) > 1 and tuple(map(int, version[:2])) < OLDEST_BASH:
            raise OldBash(
                "%s is older than version %d.%d" % (found, OLDEST_BASH[0], OLDEST_BASH[1])
            )
    return chosen or found


def bash_version(path: str) -> bytes:
    """The start of the version that a bash has in its file, empty if it is not found.

    Faster than running it.
    """
    fd, at = os.open(path, os.O_RDONLY | os.O_CLOEXEC), 0
    try:
        while data := os.pread(fd, PIECE, at):  # the whole file at once takes five times as long
            if (found := data.find(BASH_VERSION)) >= 0:
                return os.pread(fd, 8, at + found + len(BASH_VERSION))
            at += PIECE - len(BASH_VERSION)
    finally:
        os.close(fd)
    return b""
