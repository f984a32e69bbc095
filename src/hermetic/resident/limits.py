"""The soft limit of descriptors: raised for the resident, put back for every child."""

from __future__ import annotations

try:
    import resource
except ImportError:  # Debian's python3-minimal
    resource = None  # type: ignore[assignment]  # looked at before each use

__all__ = ["DescriptorLimit", "SecondMark", "resource"]


class DescriptorLimit:
    def __init__(self) -> None:
        self.original: tuple[int, int] | None = None
        if resource is None:
            return
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = hard if hard != resource.RLIM_INFINITY else 1 << 20
        if soft == resource.RLIM_INFINITY or soft >= wanted:
            return
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            self.original = (soft, hard)
        except (OSError, ValueError):
            pass

    def restore(self) -> None:
        """In a forked child, before its program starts."""
        if self.original is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, self.original)


class SecondMark:
    """A number that every descendant of a command carries, whatever it does to its environment, parent or session.

    It is the soft limit on POSIX message queues: inherited by fork and exec, changed by nothing but setrlimit, and
    large enough to be of no consequence (a message queue takes 80 kB of 800).
    """

    SPAN = 400000

    def __init__(self, base: int, number: int) -> None:
        self.value = base - number % self.SPAN if base else None

    @classmethod
    def base(cls) -> int:
        """The largest value used here, or 0 where the limit cannot serve."""
        if resource is None or not hasattr(resource, "RLIMIT_MSGQUEUE"):
            return 0
        soft, hard = resource.getrlimit(resource.RLIMIT_MSGQUEUE)
        top = min(limit for limit in (soft, hard, 1 << 40) if limit != resource.RLIM_INFINITY)
        return top - 1 if top > 2 * cls.SPAN else 0

    @staticmethod
    def unset(base: int) -> int:
        """What a process has that was never marked."""
        return base + 1

    def set(self) -> None:
        """In a forked child."""
        if self.value:
            hard = resource.getrlimit(resource.RLIMIT_MSGQUEUE)[1]
            resource.setrlimit(resource.RLIMIT_MSGQUEUE, (self.value, hard))

    @staticmethod
    def of(pid: int) -> int | None:
        """The mark of a process, or None where it cannot be read."""
        try:
            with open("/proc/%d/limits" % pid) as file:
                for line in file:
                    if line.startswith("Max msgqueue size"):
                        soft = line.split()[3]
                        return int(soft) if soft.isdigit() else None
        except OSError:
            pass
        return None
