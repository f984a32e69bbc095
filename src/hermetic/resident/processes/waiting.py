"""Detects a process that waits for input, from kernel state and not from its output.

A process waits if it, or a descendant, sleeps in a read of the job's terminal or input pipe, or in poll, select or
epoll on it without a timeout. /proc/PID/syscall shows the number and arguments of the system call that a thread is
blocked in.
"""

from __future__ import annotations

import os
import struct

from ..limits import POLLED_DESCRIPTORS
from .tree import stat_fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Call = tuple[str, list[int]]  # name and arguments
    InputIdentity = tuple[int, int]  # device and inode

_X86_64 = {
    0: "read",
    19: "readv",
    7: "poll",
    271: "ppoll",
    23: "select",
    270: "pselect6",
    232: "epoll_wait",
    281: "epoll_pwait",
    441: "epoll_pwait2",
}
_AARCH64 = {63: "read", 65: "readv", 73: "ppoll", 72: "pselect6", 22: "epoll_pwait", 441: "epoll_pwait2"}
_CALLS = {"x86_64": _X86_64, "aarch64": _AARCH64}.get(os.uname().machine, {})
DEV_TTY = os.makedev(5, 0)
_ENDLESS = 0xFFFFFFFF  # -1 as a 32-bit argument


def waits_for_input(pids: Iterable[int], identity: InputIdentity) -> bool | None:
    """True, False, or None if the kernel does not show it. `identity` is the job's terminal or input pipe."""
    if not _CALLS:
        return None
    is_known = False
    for pid in pids:
        for thread in _threads(pid):
            call = _blocked_in(pid, thread)
            if call is None:
                continue
            is_known = True
            if call and _is_input_wait(pid, call, identity):
                return True
    return False if is_known else None


def _threads(pid: int) -> list[str]:
    try:
        return os.listdir("/proc/%d/task" % pid)
    except OSError:
        return []


def _blocked_in(pid: int, thread: str) -> Call | tuple[()] | None:
    """`(name, arguments)`; () if the thread runs or sleeps in another call; None if unreadable."""
    try:
        with open("/proc/%d/task/%s/syscall" % (pid, thread)) as file:
            words = file.read().split()
    except OSError:
        return None
    if len(words) < 7 or words[0] == "-1":
        return ()
    name = _CALLS.get(int(words[0]))
    return (name, [int(word, 16) for word in words[1:7]]) if name else ()


def _is_input_wait(pid: int, call: Call, identity: InputIdentity) -> bool:
    name, arguments = call
    if name in ("read", "readv"):
        return _is_input(pid, arguments[0] & 0xFFFFFFFF, identity)
    if name in ("poll", "ppoll"):
        endless = arguments[2] & 0xFFFFFFFF == _ENDLESS if name == "poll" else arguments[2] == 0
        return endless and any(_is_input(pid, fd, identity) for fd in _polled(pid, arguments[0], arguments[1]))
    if name in ("select", "pselect6"):
        endless = arguments[4] == 0
        return endless and any(_is_input(pid, fd, identity) for fd in _selected(pid, arguments[0], arguments[1]))
    endless = arguments[3] & 0xFFFFFFFF == _ENDLESS if name != "epoll_pwait2" else arguments[3] == 0
    return endless and any(_is_input(pid, fd, identity) for fd in _epolled(pid, arguments[0] & 0xFFFFFFFF))


def _is_input(pid: int, fd: int, identity: InputIdentity) -> bool:
    try:
        status = os.stat("/proc/%d/fd/%d" % (pid, fd))
    except OSError:
        return False
    # A password prompt opens the terminal as /dev/tty.
    return identity_of(status) == identity or (status.st_rdev == DEV_TTY and _has_terminal(pid))


def _has_terminal(pid: int) -> bool:
    """Whether a process has a controlling terminal; below a job it is the job's own."""
    fields = stat_fields(pid)
    return len(fields) > 4 and fields[4] != "0"


def identity_of(status: os.stat_result) -> InputIdentity:
    """Device and inode, which identify a terminal or pipe."""
    return status.st_dev, status.st_ino


def _memory(pid: int, address: int, size: int) -> bytes:
    try:
        with open("/proc/%d/mem" % pid, "rb", 0) as file:
            file.seek(address)
            return file.read(size)
    except (OSError, ValueError, OverflowError):
        return b""


def _polled(pid: int, address: int, count: int) -> Iterator[int]:
    data = _memory(pid, address, 8 * min(count, POLLED_DESCRIPTORS))
    for fd, events, _ in struct.iter_unpack("ihh", data[: len(data) // 8 * 8]):
        if fd >= 0 and events & 1:
            yield fd


def _selected(pid: int, count: int, address: int) -> Iterator[int]:
    if not address:
        return
    data = _memory(pid, address, (min(count, POLLED_DESCRIPTORS) + 7) // 8)
    for fd in range(min(count, len(data) * 8)):
        if data[fd // 8] >> fd % 8 & 1:
            yield fd


def _epolled(pid: int, fd: int) -> Iterator[int]:
    try:
        with open("/proc/%d/fdinfo/%d" % (pid, fd)) as file:
            for line in file:
                if line.startswith("tfd:"):
                    yield int(line.split()[1])
    except OSError:
        return
