"""A report as the table between two markers of a Markdown page."""

from pathlib import Path

from benchmarks.figures import Report, Row
from benchmarks.table import cells, machine, summary

BEGIN, END = "<!-- figures:begin -->", "<!-- figures:end -->"
HEADINGS = ("what", "ours (p95)", "limit", "ratio", "target", "met")


def fill(page: Path, report: Report, picture: str | None = None) -> None:
    """Puts the report between the markers: with a picture what has a target, else all of it. Raises ValueError."""
    before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{page} has no lines {BEGIN} and {END}")
    page.write_text(f"{before}{BEGIN}\n{markdown(report, picture)}\n{END}{after}", encoding="utf-8")


def markdown(report: Report, picture: str | None) -> str:
    """The picture, the table, and where the figures come from."""
    above = [] if picture is None else [f"![{summary(report)}]({picture})", ""]
    told = report.rows if picture is None else _told(report)
    rows = [_line(HEADINGS), _line(["---"] * len(HEADINGS)), *(_line(cells(row)) for row in told)]
    return "\n".join([*above, *rows, "", f"{summary(report)}. {machine(report)}."])


def _told(report: Report) -> list[Row]:
    return [row for row in report.rows if row.target is not None]


def _line(columns: tuple[str, ...] | list[str]) -> str:
    return "| " + " | ".join(column.replace("|", "\\|") for column in columns) + " |"
