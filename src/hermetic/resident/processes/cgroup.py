"""Limits and counters of the resident's control groups, read from the mounted cgroup file systems."""

from __future__ import annotations

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
        found += [root + "".join("/" + part for part in parts[:count]) for count in range(len(parts), -1, -1)]
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
        quota = words(folder + "/cpu.max") or words(folder + "/cpu.cfs_quota_us", folder + "/cpu.cfs_period_us")
        if len(quota) == 2 and quota[0].isdigit():  # neither "max" nor -1
            least = min(least, int(quota[0]) / int(quota[1]))
    return least


KILLED = (["signalled", 9], ["exited", 137])  # the second is how a shell reports a killed child


class MemoryKills:
    """Counts out-of-memory kills in our cgroup. The file is read only after a job was killed."""

    def __init__(self, groups: str = GROUPS, mounted: str = MOUNTED) -> None:
        above = folders("memory", groups, mounted)
        files = [folder + name for folder in above for name in ("/memory.events", "/memory.oom_control")]
        self.path = next((file for file in files if _kills(file) is not None), "")
        self.seen = _kills(self.path) or 0

    def explain(self, ending: list[Any]) -> list[Any]:
        """`["oom"]` for a killed job if the counter has grown since the last look, else the ending itself."""
        if ending not in KILLED or not self.path:
            return ending
        before, self.seen = self.seen, _kills(self.path) or 0
        return ["oom"] if self.seen > before else ending


def _kills(file: str) -> int | None:
    """Number of processes killed; None without such a counter."""
    found = words(file)
    return int(found[found.index("oom_kill") + 1]) if "oom_kill" in found else None
