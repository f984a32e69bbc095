"""Resource limits that the resident sets: descriptors for itself, and a process tag for its
children.
"""

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
        """Sets a child's limit before its program starts."""
        if self.original is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, self.original)

    def widen(self) -> None:
        """Sets our own limit again after the child has started."""
        if self.own is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, self.own)


class ProcessTags:
    """A number that every descendant of a command carries, regardless of its environment, parent or
    session.

    The number is the soft limit on POSIX message queues. It is inherited by fork and exec, changed
    only by setrlimit, and large enough to have no effect (a message queue takes 80 kB of 800).
    """

    def __init__(self) -> None:
        self.base = 0  # largest value in use; 0 if the limit cannot hold tags
        if resource is None or not hasattr(resource, "RLIMIT_MSGQUEUE"):
            return
        soft, hard = resource.getrlimit(resource.RLIMIT_MSGQUEUE)
        top = min(limit for limit in (soft, hard, 1 << 40) if limit != resource.RLIM_INFINITY)
        self.base = top - 1 if top > 2 * TREE_TAGS else 0
        self.soft, self.hard = soft, hard

    soft = hard = 0  # limits of the resident itself

    def set(self, number: int) -> None:
        """Tags a child and its descendants, before its program starts."""
        if self.base:
            resource.setrlimit(
                resource.RLIMIT_MSGQUEUE, (self.base - number % TREE_TAGS, self.hard)
            )

    def apply_to(self, pid: int | None, number: int) -> bool:
        """Tags another process and its future descendants.

        False if only that process can change its limit.
        """
        if not self.base:
            return True
        if pid is None:
            return False
        try:
            _, hard = resource.prlimit(pid, resource.RLIMIT_MSGQUEUE)
            resource.prlimit(pid, resource.RLIMIT_MSGQUEUE, (self.base - number % TREE_TAGS, hard))
        except (
            OSError,
            ValueError,
            AttributeError,
        ):  # another user's process, an already lower limit, or a C library without prlimit
            return False
        return True

    def unset(self) -> None:
        """Restores our own limit after the child has started."""
        if self.base:
            resource.setrlimit(resource.RLIMIT_MSGQUEUE, (self.soft, self.hard))

    def number_of(self, pid: int, latest: int) -> int | None:
        """The job number that a process carries, at most `latest`; None without a tag of ours."""
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
