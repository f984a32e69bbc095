"""Limits and counters of the resident's control groups: processors, memory kills, and headroom for
processes.
"""

from __future__ import annotations

import errno
import os

from ..limits import SPARE_PROCESSES
from .descriptor_limit import resource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

GROUPS, MOUNTED = "/proc/self/cgroup", "/sys/fs/cgroup"


def folders(controller: str, groups: str = GROUPS, mounted: str = MOUNTED) -> list[str]:
    """Paths of our cgroup of a controller and of its ancestors. Some may not exist."""
    found = []
    try:
        with open(groups) as file:
            lines = file.read().splitlines()
    except OSError:
        return []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        root = mounted + ("/" + controller if controllers else "")
        parts = [part for part in path.split("/") if part]
        found += [
            root + "".join("/" + part for part in parts[:count])
            for count in range(len(parts), -1, -1)
        ]
    return found


def words(*paths: str) -> list[str]:
    """Words of these files; [] if one of them cannot be read."""
    found = []
    try:
        for path in paths:
            with open(path) as file:
                found += file.read().split()
    except OSError:
        return []
    return found


def processors(groups: str = GROUPS, mounted: str = MOUNTED) -> float:
    """Number of processors that the cgroup allows; infinity without a limit."""
    least = float("inf")
    for folder in folders("cpu", groups, mounted):
        quota = words(folder + "/cpu.max") or words(
            folder + "/cpu.cfs_quota_us", folder + "/cpu.cfs_period_us"
        )
        if len(quota) == 2 and quota[0].isdigit():  # neither "max" nor -1
            least = min(least, int(quota[0]) / int(quota[1]))
    return least


KILLED = (["signalled", 9], ["exited", 137])  # the second is how a shell reports a killed child


class MemoryKills:
    """Counts out-of-memory kills in our cgroup. The file is read only after a job was killed."""

    def __init__(self, groups: str = GROUPS, mounted: str = MOUNTED) -> None:
        above = folders("memory", groups, mounted)
        files = [
            folder + name for folder in above for name in ("/memory.events", "/memory.oom_control")
        ]
        self.path = next((file for file in files if _kills(file) is not None), "")
        self.seen = _kills(self.path) or 0

    def explain(self, ending: list[Any]) -> list[Any]:
        """`["oom"]` for a killed job if the counter has grown since the last look, else the ending
        itself.
        """
        if ending not in KILLED or not self.path:
            return ending
        before, self.seen = self.seen, _kills(self.path) or 0
        return ["oom"] if self.seen > before else ending


def _kills(file: str) -> int | None:
    """Number of processes killed; None without such a counter."""
    found = words(file)
    return int(found[found.index("oom_kill") + 1]) if "oom_kill" in found else None


class ProcessQuota:
    """Headroom under the limits of our cgroup and of our user: bash retries a failing fork for
    seconds, then exits.

    A limit that a command sets with `ulimit -u` is not seen here.
    """

    def __init__(self, groups: str = GROUPS, mounted: str = MOUNTED) -> None:
        self.current: str | None = None
        self.most = 0
        self.users_most: int | None = None
        if resource is not None and os.getuid() != 0:
            soft = resource.getrlimit(resource.RLIMIT_NPROC)[0]
            self.users_most = None if soft == resource.RLIM_INFINITY else soft
        for folder in folders("pids", groups, mounted):
            most = _number_in(folder + "/pids.max")
            if most is not None and (self.current is None or most < self.most):
                self.most, self.current = most, folder + "/pids.current"

    def has_headroom(self) -> bool:
        try:
            self.check()
        except OSError:
            return False
        return True

    def check(self) -> None:
        """Raises OSError near the limit, and also without a descriptor to read it: a shell could
        not start either.
        """
        count = None if self.current is None else _number_in(self.current)
        if not self._user_has_room() or (count is not None and count + SPARE_PROCESSES > self.most):
            raise BlockingIOError(errno.EAGAIN, "the limit of processes is near")

    def _user_has_room(self) -> bool:
        """The user's own limit.

        Processes are counted only if the whole machine has that many threads.
        """
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


def _number_in(path: str) -> int | None:
    """The number in a file; None for "max" or an unreadable file."""
    said = words(path)
    return int(said[0]) if said and said[0].isdigit() else None
