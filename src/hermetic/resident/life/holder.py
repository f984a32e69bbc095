"""Descriptor holder: a process that shares our descriptors, so that shells can open them but not
read our memory.

Shells open output, input and texts as /proc/PID/fd/N. The kernel allows that only where it also
allows tracing PID and reading its memory. So PID is not the resident, which makes itself
undumpable, but the holder: a clone with the same descriptor table that has unmapped all its memory,
and may make no system call that a tracer could use. It becomes dumpable only after that, so it
never exposes anything of ours.
"""

from __future__ import annotations

import os
import struct
import time

from .fast_stdlib import ctypes, signal

CLONE_FILES = 0x400
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_NAME, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = (
    1,
    4,
    15,
    22,
    38,
)
SECCOMP_MODE_FILTER = 2
PAGE = 4096
READ_WRITE, READ_EXECUTE = 3, 5
PRIVATE_ANONYMOUS = 0x22
READY_SECONDS = 2.0

# system calls of x86_64
CLONE, PAUSE, RESTART, MUNMAP, PRCTL, ARCH_PRCTL, RSEQ = 56, 34, 219, 11, 157, 158, 334
ARCH_GET_FS, RSEQ_UNREGISTER, RSEQ_SIGNATURE = 0x1003, 1, 0x53053053
RSEQ_SIZES = (32, 20, 28, 24, 40, 48, 64)  # sizes that versions of libc register
# munmap(0, page); munmap(page + size, the rest); prctl(PR_SET_DUMPABLE, 1); for (;;) pause(); The
# code gets the address and size of its own page, and uses no other memory.
EMPTY_AND_WAIT = bytes.fromhex(
    "4989fc 4989f5"  # mov r12, rdi; mov r13, rsi
    "31ff 4c89e6 b80b000000 0f05"  # munmap(0, r12)
    "4b8d3c2c 48be00f0ffffff7f0000 4829fe b80b000000 0f05"  # munmap(r12 + r13, 0x7ffffffff000 - …)
    "bf04000000 be01000000 31d2 4531d2 4531c0 b89d000000 0f05"  # prctl(4, 1, 0, 0, 0)
    "b822000000 0f05 ebf7"  # pause(), again
)


def start_holder(again: bool = False) -> int | None:
    """Makes our memory readable by root alone, and returns the holder's pid; None, with nothing
    changed, on failure.

    The holder takes a while to get ready, in which we can go on: `await_holder` follows before its
    path is used. `again`: the memory is protected already and stays so; the holder was killed.
    """
    if ctypes is None or os.uname().machine != "x86_64":
        return None
    libc = ctypes.PyDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
    page = libc.mmap(None, PAGE, READ_WRITE, PRIVATE_ANONYMOUS, -1, 0)
    if page in (None, ctypes.c_void_p(-1).value):
        return None
    ctypes.memmove(page, EMPTY_AND_WAIT, len(EMPTY_AND_WAIT))
    # Everything that the clone needs is made here: there each touched page is copied first.
    steps = allow_only((PAUSE, RESTART, MUNMAP, PRCTL))
    program = ctypes.create_string_buffer(b"".join(steps))
    description = struct.pack("HP", len(steps), ctypes.addressof(program))
    enter = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t)(page)
    rseq, resident = rseq_area(libc), os.getpid()
    # a handler would need a stack
    mask = signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
    try:
        if libc.mprotect(ctypes.c_void_p(page), PAGE, READ_EXECUTE):
            return None
        libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
        pid: int = libc.syscall(CLONE, CLONE_FILES | signal.SIGCHLD, 0, 0, 0, 0)
        if pid == 0:
            try:
                libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
                if libc.getppid() != resident:  # it ended before the line above took effect
                    os._exit(1)
                libc.prctl(PR_SET_NAME, b"hermetic-holder", 0, 0, 0)
                stop_kernel_writes(libc, rseq)
                libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
                if not libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, description):
                    enter(page, PAGE)
            finally:
                os._exit(1)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        libc.munmap(ctypes.c_void_p(page), PAGE)
    if pid < 0 and not again:
        open_memory(libc)
    return pid if pid > 0 else None


def await_holder(pid: int, again: bool = False) -> bool:
    """Waits until the holder is ready.

    False, with the holder gone and nothing changed, on failure.
    """
    if is_ready(pid):
        return True
    if not again:
        open_memory(ctypes.PyDLL(None))
    os.kill(pid, signal.SIGKILL)
    return False


def open_memory(libc: ctypes.PyDLL) -> None:
    libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)


def rseq_area(libc: ctypes.PyDLL) -> ctypes.c_void_p | None:
    """The area of restartable sequences, where the kernel writes when it moves a thread; None if
    there is none.
    """
    try:
        offset = ctypes.c_ssize_t.in_dll(libc, "__rseq_offset").value
    except ValueError:  # musl, and glibc before 2.35
        return None
    base = ctypes.c_ulong()
    libc.syscall(ARCH_PRCTL, ARCH_GET_FS, ctypes.byref(base))
    return ctypes.c_void_p(base.value + offset)


def stop_kernel_writes(libc: ctypes.PyDLL, area: ctypes.c_void_p | None) -> None:
    """Unregisters the area."""
    for size in RSEQ_SIZES if area is not None else ():
        if libc.syscall(RSEQ, area, size, RSEQ_UNREGISTER, ctypes.c_uint(RSEQ_SIGNATURE)) == 0:
            return


def allow_only(calls: tuple[int, ...]) -> list[bytes]:
    """A seccomp filter: load the number; jump to the end for one of these calls; else EPERM."""
    left = len(calls)
    steps = [struct.pack("=HBBI", 0x20, 0, 0, 0)]
    steps += [struct.pack("=HBBI", 0x15, left - at, 0, number) for at, number in enumerate(calls)]
    return [
        *steps,
        struct.pack("=HBBI", 0x06, 0, 0, 0x00050001),
        struct.pack("=HBBI", 0x06, 0, 0, 0x7FFF0000),
    ]


def is_ready(pid: int) -> bool:
    """Waits until the holder's memory is gone and its descriptors can be opened."""
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        with open("/proc/%d/statm" % pid) as file:
            pages = int(file.read().split()[0])
        if pages == 0:  # it has ended
            return False
        if pages == 1:
            try:
                os.readlink("/proc/%d/fd/0" % pid)
                return True
            except OSError:  # not yet
                pass
        time.sleep(0.0002)
    return False
