"""Writes a report into a Markdown page, between two markers."""

from pathlib import Path

from benchmarks.figures import Report, Row
from benchmarks.table import amount, cells, machine, summary

BEGIN, END = "<!-- figures:begin -->", "<!-- figures:end -->"
HEADINGS = ("what", "ours (p95)", "limit", "ratio", "target", "met")
HEADLINES = {  # row: what it measures, and its baseline, in the README's words
    "docker.settled-exec": ("a command in a docker container", "`docker exec`"),
    "docker.pool": ("a container for a new task, from a warm pool", "a container that is started"),
    "local.parallel": ("commands from 8 callers at once", "8 threads that start bash"),
    "local.output-memory": ("memory growth while a command prints 1 GB", ""),
    "local.survivors": ("processes left after timeouts, cancels and kills", ""),
}


def fill(page: Path, report: Report, *, add: bool = False) -> None:
    """Puts every row of the report between the markers; `add`: below the tables that are there.

    Raises ValueError.
    """
    rows = [
        _line(HEADINGS),
        _line(["---"] * len(HEADINGS)),
        *(_line(cells(row)) for row in report.rows),
    ]
    table = "\n".join([*rows, "", f"{summary(report)}. {machine(report)}."])
    _replace(page, f"{_between(page)}\n\n{table}" if add else table)


def fill_headlines(page: Path, report: Report) -> None:
    """Puts the five rows of the README between the markers.

    Raises ValueError when the report lacks one of them.
    """
    rows = {row.name: row for row in report.rows}
    missing = [name for name in HEADLINES if name not in rows]
    if missing:
        raise ValueError(f"the report lacks {', '.join(missing)}; run all benchmarks")
    headings = ("what", "Hermetic", "baseline")
    lines = [
        _line(headings),
        _line(["---"] * len(headings)),
        *(_line(_headline(rows[name])) for name in HEADLINES),
    ]
    _replace(page, "\n".join([*lines, "", f"{machine(report)}."]))


def _headline(row: Row) -> tuple[str, str, str]:
    what, baseline = HEADLINES[row.name]
    if row.limit is None:
        return what, cells(row)[1], "–"
    return (
        what,
        amount(row.ours.median, row.unit),
        f"{amount(row.limit.sample.median, row.unit)}, {baseline}",
    )


def _replace(page: Path, text: str) -> None:
    before, _, after = _parts(page)
    page.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")


def _between(page: Path) -> str:
    return _parts(page)[1].strip("\n")


def _parts(page: Path) -> tuple[str, str, str]:
    """The page before, between and behind the markers."""
    before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    between, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{page} has no lines {BEGIN} and {END}")
    return before, between, after


def _line(columns: tuple[str, ...] | list[str]) -> str:
    return "| " + " | ".join(column.replace("|", "\\|") for column in columns) + " |"
