"""What processes use, read from /proc: CPU time, memory, and the ports that they listen on."""

from __future__ import annotations

import os

from .tree import stat_fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..life.resident import Resident
    from ..life.server import Request

MOST_MEMBERS = 512  # of a tree that are described
MOST_DESCRIPTORS = 4096  # of one tree that are examined for sockets
MOST_COMMAND = 300  # bytes of a command line
LISTENING = "0A"  # state in /proc/net/tcp

# Of /proc/PID/stat, counted from its third field.
# CPU: own time in user and system mode, then that of reaped children
PARENT, CPU, PAGES = 1, slice(11, 15), 21


def usage(resident: Resident, request: Request) -> None:
    """Replies with CPU seconds of everything that ran here, and memory and number of what runs."""
    ticks, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    cpu, memory, count = sum(os.times()[:4]), 0, 0
    for pid in resident.everything():
        fields = stat_fields(pid)
        if fields:
            cpu += sum(map(int, fields[CPU])) / ticks
            memory += int(fields[PAGES]) * page
            count += 1
    request.reply({"cpu": cpu, "memory": memory, "processes": count})


def tree(resident: Resident, request: Request, process: str = "") -> None:
    """Replies with the processes of a job, parents first, and with the ports that they listen on."""
    pids = resident.job(process).members()[:MOST_MEMBERS]
    members = [member for member in map(_member, pids) if member is not None]
    request.reply({"members": members, "ports": _ports(pids)})


def _member(pid: int) -> dict[str, Any] | None:
    fields = stat_fields(pid)
    if not fields:
        return None
    return {
        "pid": pid,
        "parent": int(fields[PARENT]),
        "command": _command(pid),
        "rss": int(fields[PAGES]) * os.sysconf("SC_PAGE_SIZE"),
        "cpu_seconds": sum(map(int, fields[CPU])) / os.sysconf("SC_CLK_TCK"),
    }


def _command(pid: int) -> str:
    """Its command line, or its name if it has cleared that."""
    for name in ("cmdline", "comm"):
        try:
            with open("/proc/%d/%s" % (pid, name), "rb") as file:
                words = file.read(MOST_COMMAND).strip(b"\0\n")
        except OSError:
            return ""
        if words:
            return words.replace(b"\0", b" ").decode("utf-8", "replace")
    return ""


def _ports(pids: list[int]) -> list[int]:
    inodes = _socket_inodes(pids)
    found = set()
    for name in ("tcp", "tcp6"):
        try:
            with open("/proc/%d/net/%s" % (pids[0], name)) as file:
                lines = file.readlines()[1:]
        except (OSError, IndexError):
            continue
        for line in lines:
            words = line.split()
            if len(words) > 9 and words[3] == LISTENING and words[9] in inodes:
                found.add(int(words[1].rpartition(":")[2], 16))
    return sorted(found)


def _socket_inodes(pids: list[int]) -> set[str]:
    found, left = set(), MOST_DESCRIPTORS
    for pid in pids:
        try:
            names = os.listdir("/proc/%d/fd" % pid)
        except OSError:
            continue
        for name in names[: max(0, left)]:
            try:
                target = os.readlink("/proc/%d/fd/%s" % (pid, name))
            except OSError:
                continue
            if target.startswith("socket:["):
                found.add(target[8:-1])
        left -= len(names)
    return found
