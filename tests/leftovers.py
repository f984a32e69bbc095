"""What a test left behind: processes, threads, descriptors, files of environments.

The test process is made a subreaper, so whatever a test starts stays its descendant, also after
`setsid`, a double fork or the death of the process in between.
"""

import contextlib
import ctypes
import os
import select
import shutil
import signal
import threading
import time
from pathlib import Path
from typing import NamedTuple

from hermetic.environments.kubernetes import CLUSTERS
from hermetic.environments.runtime.choice import MEMORY

PR_SET_CHILD_SUBREAPER = 36
SERVERS: set[int] = set()  # pids of processes that live as long as the session of tests


class Seen(NamedTuple):
    """A process as /proc shows it; pid and start time together name it for good."""

    pid: int
    started: int
    parent: int
    state: str

    @property
    def key(self) -> tuple[int, int]:
        """What stays the same as long as it is the same process."""
        return self.pid, self.started

    def describe(self) -> str:
        """Number and command line, for a person."""
        try:
            words = (
                Path(f"/proc/{self.pid}/cmdline")
                .read_bytes()
                .replace(b"\0", b" ")
                .decode(errors="replace")
                .strip()
            )
            words = words or Path(f"/proc/{self.pid}/comm").read_text().strip()
        except OSError:
            words = "ended since"
        return f"process {self.pid} ({self.state}): {words[:200]}"


class Holdings(NamedTuple):
    """What the test process holds at one moment."""

    processes: frozenset[tuple[int, int]]
    threads: frozenset[threading.Thread]
    descriptors: frozenset[tuple[int, str]]
    runtime: Path
    files: frozenset[str]  # in that directory


def adopt_orphans() -> None:
    """Makes this process the new parent of descendants that lose theirs."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def take_stock(runtime: Path) -> Holdings:
    """What is held now. Orphans of earlier tests that have ended since are collected."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
    return Holdings(
        frozenset(seen.key for seen in descendants()),
        frozenset(threading.enumerate()),
        frozenset(descriptors()),
        runtime,
        frozenset(os.listdir(runtime)),
    )


def left_since(before: Holdings, *, patience: float) -> list[str]:
    """One line for each thing that is new since `before` and does not go away within `patience`
    seconds.

    Processes among them are ended, so that they cannot disturb the next test.
    """
    deadline = time.monotonic() + patience
    processes = _wait_for_processes(before, deadline)
    lines = [seen.describe() for seen in processes]
    _end(processes)
    lines += [f"thread {thread.name}" for thread in _wait_for_threads(before, deadline)]
    lines += [
        f"descriptor {fd}: {target}"
        for fd, target in sorted(set(descriptors()) - before.descriptors)
    ]
    lines += [f"{before.runtime}/{name}" for name in _wait_for_files(before, deadline)]
    return lines


def descendants() -> list[Seen]:
    """Every process below this one, ended but uncollected ones included, the servers of the session
    excluded.
    """
    if not any(children_of(pid) - SERVERS for pid in (os.getpid(), *SERVERS)):
        return []  # orphans are adopted: without a child there is nothing below
    children: dict[int, list[Seen]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (seen := _look(int(entry))) is not None:
            children.setdefault(seen.parent, []).append(seen)
    found: list[Seen] = []
    parents = [os.getpid()]
    while parents:
        below = children.get(parents.pop(), [])
        found += below
        parents += [seen.pid for seen in below]
    return [seen for seen in found if seen.pid not in SERVERS]


def await_janitors(seconds: float) -> None:
    """Returns when no janitor below this process runs: with its service gone it could not look
    whether an environment is.
    """
    deadline = time.monotonic() + seconds
    while janitors := [seen for seen in descendants() if "hermetic-janitor" in seen.describe()]:
        if (remaining := deadline - time.monotonic()) <= 0:
            return
        _wait_for_an_end(janitors, remaining)


def descriptors() -> list[tuple[int, str]]:
    """Open descriptors with what they point at."""
    found = []
    for entry in os.listdir("/proc/self/fd"):
        try:
            found.append((int(entry), os.readlink(f"/proc/self/fd/{entry}")))
        except FileNotFoundError:  # the one that listed the directory
            continue
    return found


def children_of(pid: int) -> set[int]:
    """The children of a process; some number for a kernel that does not say."""
    found: set[int] = set()
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
    except FileNotFoundError:  # a server of the session that has ended
        return found
    for task in tasks:
        try:
            found.update(map(int, (task / "children").read_bytes().split()))
        except FileNotFoundError:  # the thread has ended, or no file tells of children
            if task.exists():
                found.add(0)
    return found


def _look(pid: int) -> Seen | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            fields = stat.read().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return Seen(pid, int(fields[19]), int(fields[1]), fields[0].decode())


def _new_living(before: Holdings) -> list[Seen]:
    """New descendants that still run; new children that have ended are collected on the way."""
    living = []
    for seen in descendants():
        if seen.key in before.processes:
            continue
        if seen.state not in "ZX":
            living.append(seen)
        elif seen.parent == os.getpid():
            _collect(seen.pid)
    return living


def _collect(pid: int) -> None:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def _wait_for_processes(before: Holdings, deadline: float) -> list[Seen]:
    while living := _new_living(before):
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            return living
        _wait_for_an_end(living, remaining)
    return []


def _wait_for_an_end(living: list[Seen], seconds: float) -> None:
    """Returns when one of them ends, or after `seconds`."""
    poll = select.poll()
    handles = []
    try:
        for seen in living:
            try:
                handles.append(os.pidfd_open(seen.pid))
            except ProcessLookupError:
                return
            poll.register(handles[-1], select.POLLIN)
        poll.poll(seconds * 1000)
    finally:
        for handle in handles:
            os.close(handle)


def _wait_for_threads(before: Holdings, deadline: float) -> list[threading.Thread]:
    new = [thread for thread in threading.enumerate() if thread not in before.threads]
    for thread in new:
        thread.join(max(0.0, deadline - time.monotonic()))
    return [thread for thread in new if thread.is_alive()]


def _wait_for_files(before: Holdings, deadline: float) -> list[str]:
    """What is new in the runtime directory; taken away, so that the next test does not meet it."""
    _remove(before.runtime / MEMORY)  # what images lack, which is kept for a day
    _remove(before.runtime / CLUSTERS)  # where pods may be
    while new := sorted(set(os.listdir(before.runtime)) - before.files):
        if time.monotonic() > deadline:
            for name in new:
                _remove(before.runtime / name)
            return new
        # a janitor's work is not always a descendant's: a container's end is the engine's doing
        time.sleep(0.02)
    return []


def _remove(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _end(processes: list[Seen]) -> None:
    for seen in processes:
        try:
            os.kill(seen.pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    known = {seen.key for seen in processes}
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        dying = [seen for seen in descendants() if seen.key in known and seen.state not in "ZX"]
        if not dying:
            break
        _wait_for_an_end(dying, deadline - time.monotonic())
    for seen in descendants():
        if seen.key in known and seen.parent == os.getpid():
            _collect(seen.pid)
