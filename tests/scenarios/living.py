"""Looking at processes from outside: who lives, and waiting for an end without sleeping."""

import asyncio
import os
from pathlib import Path

import hermetic


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return False


def with_argument(word: str) -> list[int]:
    """The living processes on this machine that have this word among their arguments."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                words = Path(f"/proc/{entry}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if word.encode() in words and is_alive(int(entry)):
                found.append(int(entry))
    return found


def shells_below(pid: int) -> list[int]:
    """Every living bash that descends from a process."""
    parents: dict[int, list[int]] = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        parents.setdefault(int(fields[1]), []).append(int(entry))
    found, todo = [], [pid]
    while todo:
        below = parents.get(todo.pop(), [])
        todo += below
        found += [one for one in below if name_of(one) == "bash" and is_alive(one)]
    return found


def name_of(pid: int) -> str:
    """The name of the program that a process runs; empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


async def begin(
    session: hermetic.Session | hermetic.Environment, command: str
) -> "asyncio.Task[hermetic.Result]":
    """Runs a command; returns when it has said that it is up."""
    up = asyncio.Event()
    running = asyncio.create_task(session.run(command, on_output=lambda _: up.set()))
    async with asyncio.timeout(20):
        await up.wait()
    return running
