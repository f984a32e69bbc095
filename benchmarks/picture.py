"""A report as a picture: bars against the physical limit, bars against what is allowed; for light
and dark pages.
"""

from html import escape

from benchmarks.figures import Report, Row
from benchmarks.table import amount, bound, machine, ratio, summary

WIDTH = 860
LABELS = 350  # room for the names at the left
BARS = 300
LINE = 24
EDGE = 24
WIDEST = 4.0  # times the limit; a longer bar ends there, its figure stands beside it

STYLE = """
  .card { fill: #ffffff; stroke: #d0d7de }
  text { font: 13px system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif; fill: #1f2328 }
  .title { font-size: 15px; font-weight: 600 }
  .small { font-size: 11px; fill: #59636e }
  .value { font-variant-numeric: tabular-nums }
  .room { fill: #eaeef2 }
  .met { fill: #2da44e }
  .missed { fill: #cf222e }
  .plain { fill: #8c959f }
  .mark { stroke: #1f2328; stroke-width: 2 }
  .line { stroke: #59636e; stroke-dasharray: 3 3 }
  @media (prefers-color-scheme: dark) {
    .card { fill: #0d1117; stroke: #3d444d }
    text { fill: #f0f6fc }
    .small { fill: #9198a1 }
    .room { fill: #212830 }
    .met { fill: #3fb950 }
    .missed { fill: #f85149 }
    .plain { fill: #656c76 }
    .mark { stroke: #f0f6fc }
    .line { stroke: #9198a1 }
  }"""


def picture(report: Report) -> str:
    """The SVG."""
    against_limit = [
        row for row in report.rows if row.target is not None and row.target.of == "ratio"
    ]
    against_bound = [
        row for row in report.rows if row.target is not None and row.target.of != "ratio"
    ]
    canvas = _Canvas()
    if against_limit:
        canvas.heading(
            "Times the physical limit",
            "shorter is better; dashed: the limit itself, mark: our target",
        )
        _draw_ratios(canvas, against_limit)
    if against_bound:
        canvas.heading("Of what is allowed", "shorter is better; a full bar is the target")
        _draw_shares(canvas, against_bound)
    canvas.caption(summary(report))
    canvas.caption(machine(report))
    return canvas.finish()


class _Canvas:
    """Lines from top to bottom."""

    def __init__(self) -> None:
        self.y = EDGE
        self._parts: list[str] = []

    def heading(self, title: str, hint: str) -> None:
        self.y += 8
        self.text(EDGE, title, "title")
        self.text(LABELS, hint, "small")
        self.y += LINE + 2

    def caption(self, text: str) -> None:
        self.y += 6
        for piece in _wrapped(text, 130):
            self.text(EDGE, piece, "small")
            self.y += 16

    def text(self, x: float, text: str, kind: str) -> None:
        self._parts.append(
            f'<text class="{kind}" x="{x:g}" y="{self.y + 12:g}">{escape(text)}</text>'
        )

    def bar(self, width: float, kind: str) -> None:
        self._parts.append(
            f'<rect class="{kind}" x="{LABELS}" y="{self.y}" width="{width:.1f}" height="16" rx="3"/>'
        )

    def stroke(self, x: float, kind: str, top: float, bottom: float) -> None:
        self._parts.append(
            f'<line class="{kind}" x1="{x:.1f}" y1="{top:g}" x2="{x:.1f}" y2="{bottom:g}"/>'
        )

    def finish(self) -> str:
        height = self.y + EDGE // 2
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
                'aria-label="Benchmarks of Hermetic">',
                f"<style>{STYLE}\n</style>",
                f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>',
                *self._parts,
                "</svg>",
                "",
            ]
        )


def _draw_ratios(canvas: _Canvas, rows: list[Row]) -> None:
    widest = max(
        1.0, *(max(row.ratio or 0.0, (row.target and row.target.most) or 0.0) for row in rows)
    )
    scale = BARS / min(widest, WIDEST)
    top = canvas.y
    for row in rows:
        canvas.text(EDGE, row.what.replace("`", ""), "label")
        canvas.bar(BARS, "room")
        canvas.bar(min(BARS, (row.ratio or 0.0) * scale), _kind(row))
        if row.target is not None and row.target.most is not None and row.target.most <= WIDEST:
            canvas.stroke(LABELS + row.target.most * scale, "mark", canvas.y - 2, canvas.y + 18)
        canvas.text(
            LABELS + BARS + 12,
            f"{ratio(row.ratio or 0.0)}   ({amount(row.ours.median, row.unit)})",
            "value",
        )
        canvas.y += LINE
    canvas.stroke(LABELS + scale, "line", top - 4, canvas.y - 4)


def _draw_shares(canvas: _Canvas, rows: list[Row]) -> None:
    for row in rows:
        canvas.text(EDGE, row.what.replace("`", ""), "label")
        canvas.bar(BARS, "room")
        canvas.bar(min(1.0, _share(row)) * BARS, _kind(row))
        value = amount(row.judged or 0.0, row.unit)
        canvas.text(LABELS + BARS + 12, f"{value}   ({bound(row)})", "value")
        canvas.y += LINE


def _share(row: Row) -> float:
    """How much of what the target allows is used up."""
    if row.target is None or row.judged is None or row.judged <= 0:
        return 0.0
    if row.target.least is not None:
        return row.target.least / row.judged
    return row.judged / row.target.most if row.target.most else 1.0


def _kind(row: Row) -> str:
    return {None: "plain", True: "met", False: "missed"}[row.met]


def _wrapped(text: str, width: int) -> list[str]:
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) >= width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines
