"""Trees of processes that do not want to end, and a look at whether they did."""

import contextlib
import os
import signal
from pathlib import Path
from typing import NamedTuple


class Tree(NamedTuple):
    """A command that starts a tree and prints "ready"; SLEEP in it is a program that tells whose it
    is.
    """

    name: str
    text: str
    ignores_term: bool = False


TREES = (
    Tree("plain", "SLEEP & SLEEP | SLEEP & echo ready; SLEEP"),
    Tree("setsid", "setsid bash -c 'SLEEP & SLEEP' & setsid SLEEP & echo ready; SLEEP"),
    Tree("double fork", "( (setsid SLEEP &) & ); ( (env -i setsid SLEEP &) & ); echo ready; SLEEP"),
    Tree(
        "nohup, disown", "nohup SLEEP >/dev/null 2>&1 & disown; SLEEP & disown; echo ready; SLEEP"
    ),
    Tree(
        "keeps forking",
        "setsid bash -c 'while :; do SLEEP & sleep 0.005; done' &\n"
        "while :; do (SLEEP &); sleep 0.005; done & echo ready; SLEEP",
    ),
    Tree(
        "ignores TERM", "trap '' TERM; setsid SLEEP & SLEEP & echo ready; SLEEP", ignores_term=True
    ),
)


class Try(NamedTuple):
    """One tree, with a number that no other process on this machine has in its arguments."""

    tree: Tree
    mark: str

    @property
    def command(self) -> str:
        """The text that starts it."""
        return self.tree.text.replace("SLEEP", f"sleep {self.mark}")


def new_try(tree: Tree, number: int) -> Try:
    """The tree under a number of this process and this try."""
    return Try(tree, f"{every_mark()}{number:05d}")


def every_mark() -> str:
    """What the marks of all tries of this process begin with."""
    return f"600.{os.getpid():07d}"


def end_survivors(mark: str) -> int:
    """How many processes of a try still live; they are killed now."""
    found = living(mark)
    for pid in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return len(found)


def living(mark: str) -> list[int]:
    """Processes with this mark in their arguments.

    One that has ended has none, nor one in the middle of its exec.
    """
    return [
        int(entry)
        for entry in os.listdir("/proc")
        if entry.isdigit() and mark.encode() in _arguments(int(entry))
    ]


def _arguments(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
