"""Limits of the resident's control groups, read from the mounted cgroup file systems."""

from __future__ import annotations

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
