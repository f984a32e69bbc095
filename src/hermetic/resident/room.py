"""Whether another process can be had: a shell that cannot fork tries again for many seconds and then ends."""

from __future__ import annotations

SPARE = 8  # a copy takes two at once, and the command beside it wants some too


class ProcessRoom:
    """The limit of our cgroup, if it has one. A limit a user sets with `ulimit -u` is not seen here."""

    def __init__(self, groups: str = "/proc/self/cgroup", mounted: str = "/sys/fs/cgroup") -> None:
        self.current: str | None = None
        self.most = 0
        for folder in _folders(groups, mounted):
            most = _read(folder + "/pids.max")
            if most is not None and (self.current is None or most < self.most):
                self.most, self.current = most, folder + "/pids.current"

    def has_room(self) -> bool:
        if self.current is None:
            return True
        count = _read(self.current)
        return count is None or count + SPARE <= self.most


def _folders(groups: str, mounted: str) -> list[str]:
    """Our cgroup and those above it, as this place has them mounted."""
    found = []
    try:
        with open(groups) as file:
            lines = file.read().splitlines()
    except OSError:
        return []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "pids" not in controllers.split(","):
            continue
        root = mounted + ("/pids" if controllers else "")
        parts = [part for part in path.split("/") if part]
        found += [root + "".join("/" + part for part in parts[:count]) for count in range(len(parts), -1, -1)]
    return found


def _read(path: str) -> int | None:
    """The number in a file; None for "max", or where it cannot be read."""
    try:
        with open(path) as file:
            text = file.read().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
