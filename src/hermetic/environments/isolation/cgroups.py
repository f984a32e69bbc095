"""Limits of one environment: a cgroup if one can be created, else limits of single processes."""

import os
import platform
import re
import shutil
import signal
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from hermetic.registry.host_process import ended

PROCS = "cgroup.procs"


class Cgroup(msgspec.Struct, frozen=True):
    """The cgroup directories of one environment, and their limits."""

    directories: tuple[str, ...] = ()
    memory: str | None = None  # the one that counts memory
    limits: tuple[str, ...] = ()  # of "memory", "swap", "pids"


def make_cgroup(name: str, *, memory_bytes: int, pids: int) -> Cgroup:
    """A cgroup with as many of these limits as can be set here: version 2, version 1, or none."""
    tree = _Tree()
    made = _make_unified(tree, name, memory_bytes, pids)
    return made or _make_by_controller(tree, name, memory_bytes, pids)


async def remove_cgroup(directories: Iterable[str]) -> None:
    """Kills the processes of a cgroup and removes it."""
    for directory in directories:
        for pid in members(directory):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            await ended(pid)
        with suppress(OSError):
            os.rmdir(directory)


def members(directory: str) -> list[int]:
    """The processes in a cgroup."""
    try:
        return [int(line) for line in Path(directory, PROCS).read_text().split()]
    except OSError:
        return []


class _Tree:
    """The mounted cgroup hierarchies, and this process' cgroup in each."""

    def __init__(self) -> None:
        self.own: dict[str, str] = {}  # controller → path; "" is the unified tree
        for line in _lines("/proc/self/cgroup"):
            _, controllers, path = line.split(":", 2)
            self.own.update(dict.fromkeys(controllers.split(","), path))
        self.mounts: dict[str, str] = {}  # controller → where its tree is mounted
        for line in _lines("/proc/self/mountinfo"):
            front, _, back = line.partition(" - ")
            kind, _, options = back.split(" ", 2)
            if kind in ("cgroup", "cgroup2"):
                named = [""] if kind == "cgroup2" else options.split(",")
                self.mounts.update(dict.fromkeys(named, front.split(" ")[4]))

    def ours(self, controller: str) -> Path | None:
        """The directory of the cgroup that this process is in."""
        mount, own = self.mounts.get(controller), self.own.get(controller)
        if mount is None or own is None:
            return None
        inside = Path(mount, own.lstrip("/"))
        # the path may be one of another namespace
        return inside if inside.is_dir() else Path(mount)


def _make_unified(tree: _Tree, name: str, memory_bytes: int, pids: int) -> Cgroup | None:
    for parent in _parents(tree):
        try:
            handed_down = Path(parent, "cgroup.subtree_control").read_text().split()
        except OSError:
            continue
        if not {"memory", "pids"} <= set(handed_down):
            continue
        directory = Path(parent, name)
        limits = {"memory.max": memory_bytes, "pids.max": pids}
        if _make(directory, limits):
            swap = _write(directory / "memory.swap.max", 0)
            kept = ("memory", "pids", *(["swap"] if swap else []))
            return Cgroup((str(directory),), str(directory), kept)
    return None


def _parents(tree: _Tree) -> Iterator[Path]:
    """A cgroup with processes of its own hands no limits down, so its neighbours come before its
    children.
    """
    own = tree.ours("")
    if own is not None:
        if own != Path(tree.mounts[""]):
            yield own.parent
        yield own


def _make_by_controller(tree: _Tree, name: str, memory_bytes: int, pids: int) -> Cgroup:
    wanted = {"memory": {"memory.limit_in_bytes": memory_bytes}, "pids": {"pids.max": pids}}
    directories: list[str] = []
    memory, limits = None, []
    for controller, values in wanted.items():
        parent = tree.ours(controller)
        if parent is None or not _make(parent / name, values):
            continue
        directories.append(str(parent / name))
        limits.append(controller)
        if controller == "memory":
            memory = str(parent / name)
            if _write(parent / name / "memory.memsw.limit_in_bytes", memory_bytes):
                limits.append("swap")
    return Cgroup(tuple(directories), memory, tuple(limits))


def _make(directory: Path, values: dict[str, int]) -> bool:
    """True when the cgroup was made with these limits and can be joined; else it is removed."""
    # Moving a process takes write access to the common ancestor of both cgroups.
    if not os.access(directory.parent / PROCS, os.W_OK):
        return False
    try:
        directory.mkdir()
    except OSError:
        return False
    if all(_write(directory / file, value) for file, value in values.items()):
        return True
    with suppress(OSError):
        directory.rmdir()
    return False


def _write(path: Path, value: int) -> bool:
    try:
        path.write_text(str(value))
    except OSError:
        return False
    return True


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


_COUNTS_BY_NAMESPACE = (5, 14)  # older kernels count a user's processes over all namespaces


class ProcessLimits(msgspec.Struct, frozen=True):
    """A program that starts the first process with limits, and notes on weaker limits."""

    argv: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()  # options that nothing here enforces


def limits_besides(cgroup: Cgroup, *, memory_bytes: int, pids: int) -> ProcessLimits:
    """Limits for what the cgroup does not limit."""
    program = shutil.which("prlimit", path="/usr/bin:/bin")
    argv, notes, missing = [], [], []
    if "memory" not in cgroup.limits:
        if program:
            argv.append(f"--data={memory_bytes}")
            notes.append(
                f"no cgroup: memory is limited to {memory_bytes} bytes for each process, not for all together"
            )
        else:
            missing.append("memory_bytes")
    elif "swap" not in cgroup.limits:
        notes.append("swap is not limited: memory_bytes counts only what is in memory")
    if "pids" not in cgroup.limits:
        if program and os.geteuid() != 0 and _kernel() >= _COUNTS_BY_NAMESPACE:
            # set inside, it counts the processes of this user namespace alone
            argv.append(f"--nproc={pids}")
        else:
            missing.append("pids")
    notes += [f"no cgroup can be made here, so that nothing enforces {name}" for name in missing]
    return ProcessLimits((program, *argv) if program and argv else (), tuple(notes), tuple(missing))


def _kernel() -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", platform.release())[:2])
