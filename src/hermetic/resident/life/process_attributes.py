"""Attributes of our own process that take a system call: subreaper, signals, seccomp, Landlock,
title.
"""

from __future__ import annotations

import os
import struct

from .fast_stdlib import ctypes, signal

# number of the system call; the C library refuses these signals
RT_SIGACTION = {"x86_64": 13, "aarch64": 134}
GLIBC_SIGNALS = (32, 33)
IGNORED = struct.pack("=Q", 1)
PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_SET_SECCOMP = 22
SECCOMP_MODE_FILTER = 2
FILTER_STEP = 8  # bytes
# Of the shell or prompt that started us; those of apptainer name directories of the host.
CREATE_RULESET, RESTRICT_SELF = 444, 446  # the same on every architecture
ABSTRACT_UNIX_SOCKET = 1

# those that we handle or ignore
OUR_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGUSR1)


def fork() -> int:
    """As `os.fork`, but these signals wait in the child until it unblocks them.

    Before it has their defaults, they would be lost, or run a handler of ours: on TERM the child
    would end the environment.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, OUR_SIGNALS)
    pid = -1
    try:
        pid = os.fork()
    finally:
        if pid:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return pid


def become_subreaper() -> bool:
    if ctypes is None:
        return os.getpid() == 1
    return bool(ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


def close_memory() -> None:
    """Closes our memory to other processes of our user: they can neither read nor trace us."""
    if ctypes is not None:
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def heed_internal_signals() -> None:
    """Resets two signals that glibc's posix_spawn leaves ignored: children would inherit that."""
    call = RT_SIGACTION.get(os.uname().machine)
    if ctypes is None or call is None:
        return
    libc, default = ctypes.CDLL(None), bytes(32)
    for number in GLIBC_SIGNALS:
        found = ctypes.create_string_buffer(32)
        if libc.syscall(call, number, None, found, 8) == 0 and found.raw[:8] == IGNORED:
            libc.syscall(call, number, default, None, 8)


def refuse_calls(program: bytes | None) -> None:
    """Installs a seccomp filter for us and our descendants. It cannot be removed."""
    if program is None or ctypes is None:
        return
    steps = ctypes.create_string_buffer(program, len(program))
    description = struct.pack("HP", len(program) // FILTER_STEP, ctypes.addressof(steps))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(
        PR_SET_SECCOMP, SECCOMP_MODE_FILTER, description
    ):
        raise OSError(ctypes.get_errno(), "the filter of system calls was not accepted")


def hear_of_parents_death(number: int) -> None:
    if ctypes is not None:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)


def set_title(title: bytes) -> None:
    """Sets the title that `ps` shows, over our own arguments.

    This also hides the program text there.
    """
    try:
        with open("/proc/self/stat", "rb") as stat:
            start, end = map(int, stat.read().rpartition(b")")[2].split()[45:47])
        arguments = title[: end - start - 1].ljust(end - start, b"\0")
        if ctypes is not None:  # /proc may be read-only
            ctypes.CDLL(None).prctl(PR_SET_NAME, title, 0, 0, 0)
            ctypes.memmove(start, arguments, len(arguments))
            return
        with open("/proc/self/comm", "wb") as comm:
            comm.write(title)
        with open("/proc/self/mem", "r+b", 0) as memory:
            memory.seek(start)
            memory.write(arguments)
    except (OSError, ValueError):
        pass


def keep_own_sockets() -> None:
    """Restricts us and our descendants to abstract sockets created among them. Raises OSError."""
    if ctypes is None:
        raise OSError(
            "no ctypes here: abstract sockets of others cannot be closed; use a whole python3"
        )
    libc = ctypes.CDLL(None, use_errno=True)
    # no files, no ports, only the scope
    attributes = (ctypes.c_uint64 * 3)(0, 0, ABSTRACT_UNIX_SOCKET)
    ruleset = libc.syscall(CREATE_RULESET, attributes, ctypes.sizeof(attributes), 0)
    if ruleset < 0 or libc.syscall(RESTRICT_SELF, ruleset, 0):
        raise OSError(ctypes.get_errno(), "landlock: %s" % os.strerror(ctypes.get_errno()))
    os.close(ruleset)
