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


async def begin(session: hermetic.Session, command: str) -> "asyncio.Task[hermetic.Result]":
    """Runs a command; returns when it has said that it is up."""
    up = asyncio.Event()
    running = asyncio.create_task(session.run(command, on_output=lambda _: up.set()))
    async with asyncio.timeout(20):
        await up.wait()
    return running
