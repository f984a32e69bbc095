"""Whether the kernel ended a process for want of memory, as the counter of our cgroup proves."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .job import Ending

KILLED = (["signalled", 9], ["exited", 137])  # the second is a shell's word for a child that was killed


class MemoryKills:
    """Counts what the kernel killed in our cgroup; a file is read only when something was killed at all."""

    def __init__(self, groups: str = "/proc/self/cgroup", mounted: str = "/sys/fs/cgroup") -> None:
        self.path = next((path for path in _counters(groups, mounted) if _count(path) is not None), None)
        self.seen = self._count()

    def explain(self, ending: Ending) -> Ending:
        """`["oom"]` for a killed job when the counter has grown since it was read last, else the ending itself."""
        if ending not in KILLED or self.path is None:
            return ending
        before, self.seen = self.seen, self._count()
        return ["oom"] if self.seen > before else ending

    def _count(self) -> int:
        return (_count(self.path) if self.path else None) or 0


def _counters(groups: str, mounted: str) -> list[str]:
    """Where the counter may be: in our cgroup as the host names it, or at the top of what a container has mounted."""
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
    """The number of processes killed; None where there is no such counter."""
    try:
        with open(path) as file:
            for line in file:
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
    except OSError:
        pass
    return None
