"""The processes behind connections from this machine: whether one runs inside an environment.

A command in a local environment can read the user's files and so make a token. It must not drive,
approve or manage with it. Its connection shows it: the kernel's table of connections leads to the
process, and its ancestors and variables to the resident.
"""

import asyncio
import contextlib
import ipaddress
import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from hermetic.registry.host_process import HostProcess
from hermetic.registry.peers import descends_from_resident, is_below_resident
from hermetic.serve.refusals import Refused

TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
CLOSED = "0"  # inode of a socket that no process has
LOOKS = 3
IN_FLIGHT = "scm_fds:"  # descriptors in unread messages of a Unix socket, in its fdinfo
IO_URING = "anon_inode:[io_uring]"
MOST_KNOWN = 1024

Address = tuple[str, int]


class Sender(NamedTuple):
    """The process at the other end of a connection."""

    is_inside: bool
    process: str  # its pid and start time; "": not known


class Peers:
    """Looks each connection of this machine up once."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Sender] = OrderedDict()  # by inode of the client's socket

    def __repr__(self) -> str:
        return f"<Peers: {len(self._known)} known>"

    async def check_outside(self, client: Address | None, server: Address | None) -> str:
        """Raises Refused for a client inside an environment of this machine.

        Returns its process, "" if not known.
        """
        if client is None or server is None or not _is_loopback(client[0]):
            return ""
        inode = _inode(client[1], server[1])
        if inode is not None and inode not in self._known:
            self._known[inode] = await asyncio.to_thread(_sender, inode)
            while len(self._known) > MOST_KNOWN:
                self._known.popitem(last=False)
        # A client that does not wait for its answer cannot be examined.
        if inode is None or _inode(client[1], server[1]) != inode:
            raise Refused(
                403, "sender_gone", "The sender has closed its connection.", "Wait for the answer."
            )
        sender = self._known[inode]
        if sender.is_inside:
            message = "Programs inside an environment may only look."
            raise Refused(403, "from_inside", message, "Do it in the page, or in a shell outside.")
        return sender.process


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _inode(client_port: int, server_port: int) -> str | None:
    """The inode of the client's end of a connection; None when it is closed."""
    # The kernel writes the table in pieces, and a piece can miss an entry when others come and go.
    return next(filter(None, (_listed(client_port, server_port) for _ in range(LOOKS))), None)


def _listed(client_port: int, server_port: int) -> str | None:
    ends = f":{client_port:04X}", f":{server_port:04X}"
    for table in TABLES:
        with open(table) as lines:
            for line in lines:
                words = line.split()
                if words[1].endswith(ends[0]) and words[2].endswith(ends[1]) and words[9] != CLOSED:
                    return words[9]
    return None


def _sender(inode: str) -> Sender:
    target = f"socket:[{inode}]"
    holders, hidden = _holders(target, _descriptors)
    if not holders:  # threads can have descriptors of their own
        holders, hidden = _holders(target, _descriptors_of_threads)
    if not holders:  # a process can hide its descriptors, but not its ancestors
        return Sender(any(map(is_below_resident, hidden)) or _one_inside_may_hold_it(), "")
    # One that has ended meanwhile shared the connection for a moment: a child before its exec.
    is_inside = any(
        descends_from_resident(pid) and os.path.exists(f"/proc/{pid}") for pid in holders
    )
    oldest = min(
        filter(None, map(HostProcess.find, holders)),
        key=lambda process: int(process.born),
        default="",
    )
    return Sender(is_inside, str(oldest))


def _holders(
    target: str, descriptors: Callable[[int], Iterable[str]]
) -> tuple[list[int], list[int]]:
    """Processes that hold a socket open, and those that may: their descriptors are hidden."""
    holders, hidden = list[int](), list[int]()
    for pid in _pids():
        try:
            if any(_leads_to(path, target) for path in descriptors(pid)):
                holders.append(pid)
        except PermissionError:
            if _is_ours(pid):  # others cannot read a token
                hidden.append(pid)
        except OSError:  # it has ended
            continue
    return holders, hidden


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _descriptors(pid: int) -> list[str]:
    """Those of the process's first thread, which all threads share as a rule."""
    return [f"/proc/{pid}/fd/{name}" for name in os.listdir(f"/proc/{pid}/fd")]


def _descriptors_of_threads(pid: int) -> Iterator[str]:
    for thread in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            directory = f"/proc/{pid}/task/{thread}/fd"
            yield from (f"{directory}/{name}" for name in os.listdir(directory))


def _one_inside_may_hold_it() -> bool:
    """Whether a process below a resident keeps descriptors outside every table of descriptors: in a
    message that was not received, or in an io_uring.

    Looks several times, because a descriptor can be moved to and fro.
    """
    return any(
        _is_ours(pid) and is_below_resident(pid) and _keeps_aside(pid)
        for _ in range(LOOKS)
        for pid in _pids()
    )


def _keeps_aside(pid: int) -> bool:
    try:
        for path in _descriptors_of_threads(pid):
            if _leads_to(path, IO_URING):
                return True
            with contextlib.suppress(FileNotFoundError):
                lines = Path(path.replace("/fd/", "/fdinfo/")).read_text().splitlines()
                if any(line.startswith(IN_FLIGHT) and line.split()[1] != "0" for line in lines):
                    return True
        return IO_URING in Path(f"/proc/{pid}/maps").read_text(errors="replace")
    except PermissionError:
        return True  # it hides them
    except OSError:  # it has ended
        return False


def _is_ours(pid: int) -> bool:
    """Whether this user runs the process, also one that hides the rest."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
    except OSError:
        return False
    return any(line.split()[1] == str(os.getuid()) for line in lines if line.startswith("Uid:"))


def _leads_to(path: str, target: str) -> bool:
    try:
        return os.readlink(path) == target
    except OSError:
        return False
