"""Which ended commands and processes stay readable: the newest of each kind, within bounds of memory and disk."""

from __future__ import annotations

from .lean import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .job import Job

COMMANDS = 128
PROCESSES = 1024  # their callers come back for them later than a command's
MEMORY_BYTES = 16 * 1024 * 1024
SPOOL_BYTES = 512 * 1024 * 1024


class Retention:
    """Calls `drop(job)` for the oldest when a bound is passed. The newest of each kind always stays."""

    def __init__(self, drop: Callable[[Job], None]) -> None:
        self.drop = drop
        self.kept: dict[str, deque[Job]] = {"command": deque(), "process": deque()}
        self.most = {"command": COMMANDS, "process": PROCESSES}
        self.memory_bytes = self.spool_bytes = 0

    def add(self, job: Job) -> None:
        kept = self.kept[job.kind]
        kept.append(job)
        self._count(job, 1)
        while len(kept) > self.most[job.kind]:
            self._drop_oldest(kept)
        while (self.memory_bytes > MEMORY_BYTES or self.spool_bytes > SPOOL_BYTES) and self._drop_larger():
            pass

    def remove(self, job: Job) -> None:
        """A job that its caller does not want any more."""
        self.kept[job.kind].remove(job)
        self._count(job, -1)

    def _drop_larger(self) -> bool:
        """Drop from the kind that has more; False when only the newest are left."""
        kept = max(self.kept.values(), key=len)
        if len(kept) < 2:
            return False
        self._drop_oldest(kept)
        return True

    def _drop_oldest(self, kept: deque[Job]) -> None:
        job = kept.popleft()
        self._count(job, -1)
        self.drop(job)

    def _count(self, job: Job, sign: int) -> None:
        memory, spool = job.kept_bytes()
        self.memory_bytes += sign * memory
        self.spool_bytes += sign * spool
