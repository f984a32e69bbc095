"""The soft limit of descriptors: raised for the resident, put back for every child."""

from __future__ import annotations

from ..limits import TREE_TAGS

try:
    import resource
except ImportError:  # Debian's python3-minimal
    resource = None  # type: ignore[assignment]  # looked at before each use

__all__ = ["DescriptorLimit", "ProcessTags", "resource"]


class DescriptorLimit:
    def __init__(self) -> None:
        self.original: tuple[int, int] | None = None
        self.own: tuple[int, int] | None = None
        if resource is None:
            return
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = hard if hard != resource.RLIM_INFINITY else 1 << 20
        if soft == resource.RLIM_INFINITY or soft >= wanted:
            return
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            self.original, self.own = (soft, hard), (wanted, hard)
        except (OSError, ValueError):
            pass

    def restore(self) -> None:
        """For a child, before its program starts."""
        if self.original is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, self.original)

    def widen(self) -> None:
        """For us again, when the child has begun."""
        if self.own is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, self.own)


class ProcessTags:
    """A number that every descendant of a command carries, whatever it does to its environment, parent or session.

    It is the soft limit on POSIX message queues: inherited by fork and exec, changed by nothing but setrlimit, and
    large enough to be of no consequence (a message queue takes 80 kB of 800).
    """

    def __init__(self) -> None:
        self.base = 0  # the largest value used here; 0 where the limit cannot serve
        if resource is None or not hasattr(resource, "RLIMIT_MSGQUEUE"):
            return
        soft, hard = resource.getrlimit(resource.RLIMIT_MSGQUEUE)
        top = min(limit for limit in (soft, hard, 1 << 40) if limit != resource.RLIM_INFINITY)
        self.base = top - 1 if top > 2 * TREE_TAGS else 0
        self.soft, self.hard = soft, hard

    soft = hard = 0  # limits of the resident itself

    def set(self, number: int) -> None:
        """For a child, before its program starts: mark it and all that comes of it."""
        if self.base:
            resource.setrlimit(resource.RLIMIT_MSGQUEUE, (self.base - number % TREE_TAGS, self.hard))

    def apply_to(self, pid: int | None, number: int) -> bool:
        """Mark another process and all that comes of it from now on; False where only it can do that itself."""
        if not self.base:
            return True
        if pid is None:
            return False
        try:
            _, hard = resource.prlimit(pid, resource.RLIMIT_MSGQUEUE)
            resource.prlimit(pid, resource.RLIMIT_MSGQUEUE, (self.base - number % TREE_TAGS, hard))
        except (OSError, ValueError, AttributeError):  # another user's; lowered by itself; a C library without it
            return False
        return True

    def unset(self) -> None:
        """For us again, when the child has begun."""
        if self.base:
            resource.setrlimit(resource.RLIMIT_MSGQUEUE, (self.soft, self.hard))

    def number_of(self, pid: int, latest: int) -> int | None:
        """The number that a process carries, at most `latest`; None where it carries none of ours."""
        value = _message_queue_limit(pid)
        if not self.base or value is None or not 0 < self.base - value < TREE_TAGS:
            return None
        number = latest - (latest - (self.base - value)) % TREE_TAGS
        return number if number > 0 else None


def _message_queue_limit(pid: int) -> int | None:
    try:
        with open("/proc/%d/limits" % pid) as file:
            for line in file:
                if line.startswith("Max msgqueue size"):
                    soft = line.split()[3]
                    return int(soft) if soft.isdigit() else None
    except OSError:
        pass
    return None
