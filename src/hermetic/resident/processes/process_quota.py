"""Headroom under the process limits. bash retries a failing fork for seconds, then exits."""

from __future__ import annotations

import errno
import os

from ..limits import SPARE_PROCESSES
from .cgroup import GROUPS, MOUNTED, folders, words
from .descriptor_limit import resource


class ProcessQuota:
    """The limits of our cgroup and of our user. A limit that a command sets with `ulimit -u` is not seen here."""

    def __init__(self, groups: str = GROUPS, mounted: str = MOUNTED) -> None:
        self.current: str | None = None
        self.most = 0
        self.users_most: int | None = None
        if resource is not None and os.getuid() != 0:
            soft = resource.getrlimit(resource.RLIMIT_NPROC)[0]
            self.users_most = None if soft == resource.RLIM_INFINITY else soft
        for folder in folders("pids", groups, mounted):
            most = _read(folder + "/pids.max")
            if most is not None and (self.current is None or most < self.most):
                self.most, self.current = most, folder + "/pids.current"

    def has_headroom(self) -> bool:
        try:
            self.check()
        except OSError:
            return False
        return True

    def check(self) -> None:
        """Raises OSError near the limit, and also without a descriptor to read it: a shell could not start either."""
        count = None if self.current is None else _read(self.current)
        if not self._user_has_room() or (count is not None and count + SPARE_PROCESSES > self.most):
            raise BlockingIOError(errno.EAGAIN, "the limit of processes is near")

    def _user_has_room(self) -> bool:
        """The user's own limit. Processes are counted only if the whole machine has that many threads."""
        if self.users_most is None or _threads_in_all() + SPARE_PROCESSES <= self.users_most:
            return True
        uid, count = os.getuid(), 0
        for name in os.listdir("/proc"):
            if name.isdigit():
                try:
                    count += os.stat("/proc/" + name).st_uid == uid
                except OSError:
                    pass
        return count + SPARE_PROCESSES <= self.users_most


def _threads_in_all() -> int:
    with open("/proc/loadavg") as file:
        return int(file.read().split()[3].partition("/")[2])


def _read(path: str) -> int | None:
    """The number in a file; None for "max" or an unreadable file."""
    said = words(path)
    return int(said[0]) if said and said[0].isdigit() else None
