"""Figures as data: a sample, what it is held against, and the verdict."""

import math
import statistics
from collections.abc import Sequence
from typing import Literal

import msgspec


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """Repeats of one measurement, in the unit of their row."""

    median: float
    p95: float
    worst: float
    count: int


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """What the machine allows at best, measured between our own repeats."""

    what: str
    sample: Sample


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A bound on one figure of a row.

    `ratio` and `difference` are of our median to the limit's, `p95-ratio` is of the 95th
    percentiles.
    """

    of: Literal["ratio", "p95-ratio", "difference", "median", "worst"]
    most: float | None = None
    least: float | None = None

    def is_met(self, value: float, *, slack: float = 1.0) -> bool:
        """True when the value keeps to the bound, widened `slack` times."""
        return (self.most is None or value <= self.most * slack) and (
            self.least is None or value >= self.least / slack
        )


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table."""

    name: str
    what: str
    unit: str
    ours: Sample
    limit: Limit | None = None
    ratio: float | None = None  # our median to the limit's
    target: Target | None = None
    met: bool | None = None  # None: no target is set
    note: str = ""

    @property
    def judged(self) -> float | None:
        """The figure that the target is about."""
        return None if self.target is None else figure(self.target.of, self.ours, self.limit)

    def holds(self, *, slack: float) -> bool:
        """True when the target is met with `slack`, or when there is none."""
        return self.target is None or (
            self.judged is not None and self.target.is_met(self.judged, slack=slack)
        )


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Where the figures come from."""

    cores: int
    memory_bytes: int
    kernel: str
    python: str
    bash: str
    load: float  # runnable processes in the minute before: others' work shows in the figures


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """One run."""

    date: str  # YYYY-MM-DD, UTC
    version: str
    quick: bool
    seconds: float
    machine: Machine
    rows: tuple[Row, ...]


def sample(values: Sequence[float], *, is_rate: bool = False) -> Sample:
    """Median, 95th percentile and worst of the values; of a rate the low ones are the bad ones."""
    ordered = sorted(values, reverse=is_rate)
    return Sample(
        median=statistics.median(ordered),
        p95=ordered[math.ceil(0.95 * len(ordered)) - 1],
        worst=ordered[-1],
        count=len(ordered),
    )


def figure(of: str, ours: Sample, limit: Limit | None) -> float | None:
    """The figure of a row that a target names; None where it takes a limit and there is none."""
    if of == "worst":
        return ours.worst
    if of == "median":
        return ours.median
    if limit is None:
        return None
    if of == "p95-ratio":
        return ours.p95 / limit.sample.p95
    best = limit.sample.median
    return ours.median - best if of == "difference" else ours.median / best


def row(
    name: str,
    what: str,
    unit: str,
    ours: Sequence[float],
    *,
    limit: tuple[str, Sequence[float]] | None = None,
    target: Target | None = None,
    note: str = "",
) -> Row:
    """A row with its verdict."""
    is_rate = unit.endswith("/s")
    taken = sample(ours, is_rate=is_rate)
    best = None if limit is None else Limit(what=limit[0], sample=sample(limit[1], is_rate=is_rate))
    judged = None if target is None else figure(target.of, taken, best)
    return Row(
        name=name,
        what=what,
        unit=unit,
        ours=taken,
        limit=best,
        ratio=figure("ratio", taken, best),
        target=target,
        met=None if target is None or judged is None else target.is_met(judged),
        note=note,
    )
