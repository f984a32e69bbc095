"""Reports made by hand, for tests of how they are judged and shown."""

from benchmarks.figures import Machine, Report, Row, Target, row


def report(*rows: Row) -> Report:
    """A report of these rows."""
    machine = Machine(
        cores=2, memory_bytes=24 << 30, kernel="6.1", python="3.11.7", bash="5.2.15", load=0.3
    )
    return Report(
        date="2026-01-02", version="0.1.0", quick=False, seconds=61.0, machine=machine, rows=rows
    )


def some_rows() -> tuple[Row, ...]:
    """One row of each kind: met, missed, without a target, with the least instead of the most, a
    count.
    """
    return (
        row(
            "a.met",
            "`true` & co <met>",
            "ms",
            [0.2, 0.3, 0.4],
            limit=("bare", [1.0]),
            target=ratio(0.35),
        ),
        row("a.missed", "slow one", "ms", [3.0], limit=("bare", [1.0]), target=ratio(2.0)),
        row("a.plain", "no target", "MB/s", [10.0, 20.0, 30.0], limit=("pipe", [100.0])),
        row(
            "a.rate",
            "per second",
            "/s",
            [1500.0],
            limit=("threads", [1000.0]),
            target=Target(of="median", least=1000),
        ),
        row(
            "a.extra",
            "on top",
            "ms",
            [1.5],
            limit=("bare", [1.0]),
            target=Target(of="difference", most=0.25),
        ),
        row("a.count", "left over", "", [0], target=Target(of="median", most=0), note="200 tries"),
    )


def ratio(most: float) -> Target:
    """A bound on the ratio to the limit."""
    return Target(of="ratio", most=most)
