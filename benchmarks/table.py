"""A report as text: one line per row, figures side by side with their limit."""

from benchmarks.figures import Report, Row

HEADINGS = ("what", "ours (p95)", "limit", "ratio", "target", "met")


def table(report: Report) -> str:
    """The whole report."""
    lines = [HEADINGS, *(cells(row) for row in report.rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
    lines.insert(1, tuple("-" * width for width in widths))
    shown = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    notes = [f"  {row.name}: {row.note}" for row in report.rows if row.note]
    return "\n".join(
        [*shown, "", *notes, *([""] if notes else []), summary(report), machine(report), ""]
    )


def summary(report: Report) -> str:
    """How many targets were met, and which were not."""
    judged = [row for row in report.rows if row.met is not None]
    missed = ", ".join(row.name for row in judged if not row.met)
    return f"{sum(row.met is True for row in judged)} of {len(judged)} targets met" + (
        missed and f"; not: {missed}"
    )


def machine(report: Report) -> str:
    """When and where the figures were taken."""
    at = report.machine
    return (
        f"{report.date}, hermetic {report.version}, {at.cores} cores, {at.memory_bytes / 2**30:.0f} GiB, "
        f"Linux {at.kernel}, Python {at.python}, bash {at.bash}, load before {at.load:.1f}, "
        f"{'quick run' if report.quick else 'full run'} of {report.seconds:.0f} s"
    )


def amount(value: float, unit: str) -> str:
    """A figure with three digits and its unit."""
    digits = 0 if value == 0 or abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    text = f"{value:,.{digits}f}".rstrip("0").rstrip(".") if digits else f"{value:,.0f}"
    return f"{text} {unit}".strip() if not unit.startswith("/") else f"{text}{unit}"


def bound(row: Row) -> str:
    """The target in words: `≤ 0.35 ×`."""
    target = row.target
    if target is None:
        return "–"
    unit = "×" if target.of in ("ratio", "p95-ratio") else row.unit
    sign, value = ("≤", target.most) if target.most is not None else ("≥", target.least)
    plus = "+" if target.of == "difference" else ""
    return f"{sign} {plus}{amount(value or 0.0, unit)}"


def cells(row: Row) -> tuple[str, ...]:
    return (
        row.what,
        _ours(row),
        "–"
        if row.limit is None
        else f"{amount(row.limit.sample.median, row.unit)} {row.limit.what}",
        _ratio(row),
        bound(row),
        {None: "–", True: "yes", False: "NO"}[row.met],
    )


def _ratio(row: Row) -> str:
    if row.ratio is None:
        return "–"
    if row.target is not None and row.target.of == "difference" and row.judged is not None:
        return f"{ratio(row.ratio)} (+{amount(row.judged, row.unit)})"
    if row.target is not None and row.target.of == "p95-ratio" and row.judged is not None:
        return f"{ratio(row.ratio)} (p95 {ratio(row.judged)})"
    return ratio(row.ratio)


def ratio(value: float) -> str:
    """A small one with more digits: a hundredth is a target too."""
    return f"{value:.2f} ×" if value >= 0.1 else f"{value:.4f} ×"


def _ours(row: Row) -> str:
    ours = row.ours
    if ours.count == 1:
        return amount(ours.median, row.unit)
    if row.target is not None and row.target.of == "worst":
        return f"{amount(ours.worst, row.unit)}, worst of {ours.count}"
    return f"{amount(ours.median, row.unit)} ({amount(ours.p95, '')})"
