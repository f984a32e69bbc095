"""Processes that wait for a job's input, and those that read it, from kernel state and not from its
output.

A process waits if it, or a descendant, sleeps in a read, sendfile or splice of the job's terminal
or input pipe, or in poll, select or epoll on it without a timeout. /proc/PID/syscall shows the
number and arguments of the system call that a thread is blocked in.
"""

from __future__ import annotations

import fcntl
import os
import struct

from ..limits import POLLED_DESCRIPTORS
from .tree import stat_fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Call = tuple[str, list[int]]  # name and arguments
    InputIdentity = tuple[int, int]  # device and inode
    Reader = tuple[int, str, list[bytes]]  # pid, program name, arguments

_X86_64 = {
    0: "read",
    19: "readv",
    40: "sendfile",  # busybox cat
    275: "splice",
    7: "poll",
    271: "ppoll",
    23: "select",
    270: "pselect6",
    232: "epoll_wait",
    281: "epoll_pwait",
    441: "epoll_pwait2",
}
_AARCH64 = {
    63: "read",
    65: "readv",
    71: "sendfile",
    76: "splice",
    73: "ppoll",
    72: "pselect6",
    22: "epoll_pwait",
    441: "epoll_pwait2",
}
_CALLS = {"x86_64": _X86_64, "aarch64": _AARCH64}.get(os.uname().machine, {})
TIOCGPGRP = 0x540F
READERS = 32  # reported at most
WORDS = 8  # reported of each
WORD_BYTES = 256
DEV_TTY = os.makedev(5, 0)
_ENDLESS = 0xFFFFFFFF  # -1 as a 32-bit argument


def waits_for_input(pids: Iterable[int], identity: InputIdentity) -> bool | None:
    """True, False, or None if the kernel does not show it.

    `identity` is the job's terminal or input pipe.
    """
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
    if name in ("read", "readv", "sendfile", "splice"):
        return _is_input(pid, arguments[name == "sendfile"] & 0xFFFFFFFF, identity)
    if name in ("poll", "ppoll"):
        endless = arguments[2] & 0xFFFFFFFF == _ENDLESS if name == "poll" else arguments[2] == 0
        return endless and any(
            _is_input(pid, fd, identity) for fd in _polled(pid, arguments[0], arguments[1])
        )
    if name in ("select", "pselect6"):
        endless = arguments[4] == 0
        return endless and any(
            _is_input(pid, fd, identity) for fd in _selected(pid, arguments[0], arguments[1])
        )
    endless = arguments[3] & 0xFFFFFFFF == _ENDLESS if name != "epoll_pwait2" else arguments[3] == 0
    return endless and any(
        _is_input(pid, fd, identity) for fd in _epolled(pid, arguments[0] & 0xFFFFFFFF)
    )


def _is_input(pid: int, fd: int, identity: InputIdentity) -> bool:
    try:
        status = os.stat("/proc/%d/fd/%d" % (pid, fd))
    except OSError:
        return False
    if identity_of(status) == identity:
        return True
    # A password prompt opens the terminal as /dev/tty. The controlling terminal of a process below
    # a job is the job's.
    return status.st_rdev == DEV_TTY and stat_fields(pid)[4:5] not in ([], ["0"])


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


def programs_of(pids: Iterable[int]) -> list[str]:
    """Distinct names of the programs that these processes run."""
    return sorted({_described(pid)[1] for pid in pids})[:READERS]


def commands_of(pids: Iterable[int]) -> list[str]:
    """The command lines of these processes, without those that have executed no program yet."""
    found = [b" ".join(_described(pid)[2]).decode("utf-8", "replace") for pid in pids]
    return [command for command in found if command]


def readers_of(
    pids: Iterable[int], identity: tuple[int, int], terminal: int | None
) -> list[Reader]:
    """Processes that may read the next byte.

    `terminal` is a descriptor of the job's terminal, if it has one.
    """
    group = None if terminal is None else _foreground(terminal)
    found = []
    for pid in pids:
        fields = stat_fields(pid)
        if len(fields) < 3 or fields[0] == "Z":
            continue
        if group is not None and fields[2] != str(group):
            continue
        if terminal is None and not _is_input(pid, 0, identity):
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
