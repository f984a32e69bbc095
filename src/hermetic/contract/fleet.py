"""Many environments: what a keeper of them tells."""

from typing import Any, Literal

import msgspec

from hermetic.contract.brief import Brief

BAR = 20  # characters of a progress bar


class TaskInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A task's environment in a fleet, at this moment."""

    task: str
    id: str
    kind: str
    cwd: str | None  # where its sessions start
    users: int  # blocks of `use` that are open
    processes: int | None  # that run there; None when it does not answer
    disk_bytes: int | None


class FleetInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A fleet at this moment."""

    tasks: tuple[TaskInfo, ...]
    warm: int  # environments that wait for a task
    starting: int  # environments that are starting
    disk_bytes: int  # of all of them, as far as it is known
    problem: str = ""  # why the last environment of a pool did not start


class Removed(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a killed process left, and that was removed."""

    what: Literal["environment", "directory", "spool", "lock", "place", "runtime"]
    name: str


class ItemResult(Brief, frozen=True, kw_only=True):
    """What came of one item of `Fleet.map`."""

    index: int  # of the item
    item: Any
    value: Any = None  # what the function returned
    error: Exception | None = None  # why there is no value
    attempts: int = 1  # environments that were opened for it, or that did not open
    opening_seconds: float = 0.0
    seconds: float = 0.0  # in the function
    environment: str = ""  # id

    @property
    def ok(self) -> bool:
        """True when the function returned."""
        return self.error is None


class MapProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far `Fleet.map` is. As text it is a bar of one line."""

    total: int
    done: int = 0  # the failed ones included
    failed: int = 0
    running: int = 0
    seconds: float = 0.0  # since it began

    @property
    def per_second(self) -> float:
        """Items that are done, per second."""
        return self.done / self.seconds if self.seconds else 0.0

    def __str__(self) -> str:
        filled = BAR * self.done // self.total if self.total else BAR
        parts = [f"[{'#' * filled}{'.' * (BAR - filled)}] {self.done} of {self.total}"]
        parts += [f"{self.failed} failed"] if self.failed else []
        parts += [f"{self.running} running, {self.per_second:.1f}/s"]
        if 0 < self.done < self.total:
            parts.append(f"about {(self.total - self.done) / self.per_second:.0f} s left")
        return ", ".join(parts)


class MapSummary(msgspec.Struct, frozen=True, kw_only=True):
    """All of a `Fleet.map` in figures."""

    total: int
    done: int  # items whose function returned
    failed: int
    retried: int  # items that took more than one environment
    seconds: float
    per_second: float
    opening_seconds: float  # median over the items
    item_seconds: float  # median of the function

    def __str__(self) -> str:
        return (
            f"{self.done} of {self.total} done, {self.failed} failed, {self.retried} retried in "
            f"{self.seconds:.1f} s ({self.per_second:.1f}/s; opening {self.opening_seconds:.2f} s, "
            f"item {self.item_seconds:.2f} s)"
        )


class Mapped(Brief, frozen=True, kw_only=True):
    """The results of `Fleet.map`, in the order of the items."""

    results: tuple[ItemResult, ...]
    summary: MapSummary

    @property
    def values(self) -> list[Any]:
        """What the function returned for each item. Raises the first error."""
        for result in self.results:
            if result.error is not None:
                raise result.error
        return [result.value for result in self.results]
