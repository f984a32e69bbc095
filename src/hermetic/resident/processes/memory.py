"""Detects out-of-memory kills by the counter of our cgroup."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .job import Ending

KILLED = (["signalled", 9], ["exited", 137])  # the second is how a shell reports a killed child


class MemoryKills:
    """Counts out-of-memory kills in our cgroup. The file is read only after a job was killed."""

    def __init__(self, groups: str = "/proc/self/cgroup", mounted: str = "/sys/fs/cgroup") -> None:
        self.path = next((path for path in _counters(groups, mounted) if _count(path) is not None), None)
        self.seen = self._count()

    def explain(self, ending: Ending) -> Ending:
        """`["oom"]` for a killed job if the counter has grown since the last look, else the ending itself."""
        if ending not in KILLED or self.path is None:
            return ending
        before, self.seen = self.seen, self._count()
        return ["oom"] if self.seen > before else ending

    def _count(self) -> int:
        return (_count(self.path) if self.path else None) or 0


def _counters(groups: str, mounted: str) -> list[str]:
    """Candidate paths: our cgroup as the host names it, or the root of a container's mount."""
    try:
        with open(groups) as file:
            lines = [line.split(":", 2) for line in file.read().splitlines()]
    except OSError:
        return []
    found = []
    for _, controllers, path in lines:
        if "memory" in controllers.split(","):
            found += [mounted + "/memory" + path + "/memory.oom_control", mounted + "/memory/memory.oom_control"]
        elif not controllers:
            found += [mounted + path + "/memory.events", mounted + "/memory.events"]
    return found


def _count(path: str) -> int | None:
    """Number of processes killed; None without such a counter."""
    try:
        with open(path) as file:
            for line in file:
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
    except OSError:
        pass
    return None
