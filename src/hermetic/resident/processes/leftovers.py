"""Processes that ended jobs left running: background jobs and orphans, by the job that started them."""

from __future__ import annotations

import os

from . import tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..life.resident import Resident


def leftover_counts(resident: Resident) -> dict[int, int]:
    """Number of live processes of each ended job, by job number. Raises OSError without descriptors.

    While a standby is being forked, forks of shells are not counted: one of them may be that standby.
    """
    known = set(resident.loop.children)
    is_forking = any(session.pool.has_unreported() for session in resident.sessions.values())
    parents = [os.getpid()]
    for session in resident.sessions.values():
        parents += session.pool.pids()
    found: dict[int, list[int]] = {}
    for parent in parents:
        for pid in tree.children(parent):
            is_ours = pid in known or (is_forking and _is_fork(resident, pid))
            number = None if is_ours else owner_of(resident, pid)
            if number is not None:
                found.setdefault(number, []).append(pid)
    ended = {job.number for job in resident.jobs.values() if job.has_ended}
    counts = {number: len(tree.descendants(pids, known)) for number, pids in found.items() if number in ended}
    return {number: count for number, count in counts.items() if count}


def _is_fork(resident: Resident, pid: int) -> bool:
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as file:
            return resident.id.encode() in file.read().split(b"\0")
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
