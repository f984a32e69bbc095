"""Landlock: keeps commands in a shared network away from other programs' abstract sockets."""

from __future__ import annotations

import os

from .fast_stdlib import ctypes

CREATE_RULESET, RESTRICT_SELF = 444, 446  # the same on every architecture
ABSTRACT_UNIX_SOCKET = 1


def keep_own_sockets() -> None:
    """Restricts us and our descendants to abstract sockets created among them. Raises OSError."""
    if ctypes is None:
        raise OSError("no ctypes here: abstract sockets of others cannot be closed; use a whole python3")
    libc = ctypes.CDLL(None, use_errno=True)
    attributes = (ctypes.c_uint64 * 3)(0, 0, ABSTRACT_UNIX_SOCKET)  # no files, no ports, only the scope
    ruleset = libc.syscall(CREATE_RULESET, attributes, ctypes.sizeof(attributes), 0)
    if ruleset < 0 or libc.syscall(RESTRICT_SELF, ruleset, 0):
        raise OSError(ctypes.get_errno(), "landlock: %s" % os.strerror(ctypes.get_errno()))
    os.close(ruleset)
