"""Ended jobs: which of them stay readable, and the processes that they left running."""

from __future__ import annotations

import os

from ..life.fast_stdlib import deque
from ..limits import KEPT_COMMANDS, KEPT_MEMORY, KEPT_PROCESSES, KEPT_SPOOL
from . import tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..life.resident import Resident
    from .job import Job

SLACK = 128  # jobs beyond either limit, before the oldest are dropped


class Retention:
    """Calls `drop(job)` for the oldest jobs above a limit. The newest of each kind always stays.

    `left()` returns the numbers of ended jobs with live processes. These jobs stay, so that the
    processes can be ended; above a limit of bytes only their output is dropped. The lookup is slow,
    so a few more jobs than the limit are kept and then dropped together.
    """

    def __init__(self, drop: Callable[[Job], None], left: Callable[[], set[int]]) -> None:
        self.drop, self.left = drop, left
        self.kept: dict[str, deque[Job]] = {"command": deque(), "process": deque()}
        self.most = {"command": KEPT_COMMANDS, "process": KEPT_PROCESSES}
        self.trim_at = {kind: most + SLACK for kind, most in self.most.items()}
        self.memory_bytes = self.spool_bytes = 0

    def add(self, job: Job) -> None:
        kept = self.kept[job.kind]
        kept.append(job)
        self._count(job, 1)
        if len(kept) >= self.trim_at[job.kind]:
            self._trim(kept, job.kind)
        if self._has_too_much():
            left = self.left()
            while self._has_too_much() and self._drop_larger(left):
                pass

    def _has_too_much(self) -> bool:
        return self.memory_bytes > KEPT_MEMORY or self.spool_bytes > KEPT_SPOOL

    def _trim(self, kept: deque[Job], kind: str) -> None:
        left = self.left()
        stay: list[Job] = []
        while len(kept) + len(stay) > self.most[kind] and len(kept) > 1:
            if kept[0].number in left:
                stay.append(kept.popleft())
            else:
                self._drop_oldest(kept)
        kept.extendleft(reversed(stay))
        self.trim_at[kind] = max(self.most[kind], len(kept)) + SLACK

    def remove(self, job: Job) -> None:
        """Removes a job that its caller has dropped."""
        self.kept[job.kind].remove(job)
        self._count(job, -1)

    def _drop_larger(self, left: set[int]) -> bool:
        """Drops the oldest with output, from the larger kind. False if only the newest are left."""
        for kept in sorted(self.kept.values(), key=len, reverse=True):
            for at in range(len(kept) - 1):
                job = kept[at]
                if any(job.kept_bytes()):
                    self._count(job, -1)
                    if job.number in left:
                        job.drop_output()
                    else:
                        del kept[at]
                        self.drop(job)
                    return True
        return False

    def _drop_oldest(self, kept: deque[Job]) -> None:
        job = kept.popleft()
        self._count(job, -1)
        self.drop(job)

    def _count(self, job: Job, sign: int) -> None:
        memory, spool = job.kept_bytes()
        self.memory_bytes += sign * memory
        self.spool_bytes += sign * spool


def leftover_counts(resident: Resident, *, with_forks: bool = False) -> dict[int, int]:
    """Number of live processes of each ended job, by job number. Raises OSError without
    descriptors.

    While a standby is being forked, forks of shells are counted only `with_forks`: one of them may
    be that standby, any other is a process of a command.
    """
    known = set(resident.loop.children)
    is_forking = resident.is_forking and not with_forks
    parents = [os.getpid()]
    for session in resident.sessions.values():
        parents += session.pool.pids()
    found: dict[int, list[int]] = {}
    for parent in parents:
        for pid in tree.children(parent):
            is_ours = pid in known or (is_forking and is_fork(resident, pid))
            number = None if is_ours else owner_of(resident, pid)
            if number is not None:
                found.setdefault(number, []).append(pid)
    ended = {job.number for job in resident.jobs.values() if job.has_ended}
    counts = {
        number: len(tree.descendants(pids, known))
        for number, pids in found.items()
        if number in ended
    }
    return {number: count for number, count in counts.items() if count}


def is_fork(resident: Resident, pid: int) -> bool:
    """Whether a process is one of our shells, or a fork of one that started no other program."""
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as file:
            return b"%s=%s.0;" % (tree.TAG_VARIABLE.encode(), resident.id.encode()) in file.read()
    except OSError:
        return False


def owner_of(resident: Resident, pid: int) -> int | None:
    """The number of the job that started a process, from its tags or its open output."""
    number = resident.process_tags.number_of(pid, resident.number)
    if number is not None:
        return number
    tag = tree.tag_of(pid)
    if tag is not None:
        owner, _, number_text = tag.rpartition(".")
        return int(number_text) if owner == resident.id and number_text.isdigit() else None
    for job in resident.jobs.values():
        if job.has_ended and tree.holds_open(pid, job.inodes):
            return job.number
    return None
