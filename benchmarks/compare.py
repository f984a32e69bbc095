"""`python -m benchmarks.compare DIRECTORY`: this checkout's figures beside those of another one.

Both run in turns, benchmark by benchmark, so that a slow minute of the machine costs both the same.
The median of the rounds counts. A row's figure is its ratio to the limit of its own run, or the
plain figure where it has no limit.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parents[1]
WORSE = 1.1  # times the other checkout's figure: worth a look


class Figures(NamedTuple):
    """The figures of one row, a value per round."""

    ratios: list[float]
    medians: list[float]
    unit: str


Rows = dict[str, Figures]


def main() -> int:
    """Prints a line per row; 1 when a row is worse by more than a tenth."""
    arguments = _parser().parse_args()
    other = Path(arguments.directory).resolve()
    shared = _names(other)
    chosen = [name for name in _names(HERE) if name in shared and _is_chosen(name, arguments.only)]
    if not chosen:
        raise SystemExit(
            "both checkouts have no such benchmark; `benchmarks/run --list` prints the names"
        )
    ours, theirs = _empty(), _empty()
    for name in chosen:
        for number in range(arguments.rounds):
            sides = [(other, theirs), (HERE, ours)]
            for checkout, rows in sides if number % 2 == 0 else reversed(sides):
                _measure(checkout, name, rows, is_full=arguments.full)
        print(f"{name}: done", file=sys.stderr, flush=True)
    worse = [name for name in ours if name in theirs and _print(name, theirs[name], ours[name])]
    print(f"{len(worse)} of {len(ours)} rows are over {WORSE} x: {', '.join(worse) or 'none'}")
    return 1 if worse else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__)
    parser.add_argument(
        "directory", help="a checkout of the other state, for example made by `git worktree add`"
    )
    parser.add_argument("--rounds", type=int, default=3, help="of each benchmark on both sides (3)")
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="as for `benchmarks/run`"
    )
    parser.add_argument(
        "--full", action="store_true", help="all repeats instead of those of --quick"
    )
    return parser


def _is_chosen(name: str, only: Iterable[str]) -> bool:
    return not only or any(one == name or one in name.split(".") for one in only)


def _names(checkout: Path) -> list[str]:
    return _run(checkout, "--list").split()


def _run(checkout: Path, *options: str) -> str:
    command = ["benchmarks/run", *options]
    done = subprocess.run(command, cwd=checkout, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def _empty() -> Rows:
    return defaultdict(lambda: Figures([], [], ""))


def _measure(checkout: Path, name: str, rows: Rows, *, is_full: bool) -> None:
    repeats = [] if is_full else ["--quick"]
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        _run(checkout, "--only", name, "--json", report.name, *repeats)
        found: list[dict[str, Any]] = json.loads(report.read())["rows"]
    for row in found:
        before = rows[row["name"]]
        before.medians.append(row["ours"]["median"])
        if row.get("ratio"):
            before.ratios.append(row["ratio"])
        rows[row["name"]] = before._replace(unit=row["unit"])


def _print(name: str, theirs: Figures, ours: Figures) -> bool:
    """Prints both sides of a row; True when ours is worse by more than a tenth."""
    before, after = statistics.median(theirs.medians), statistics.median(ours.medians)
    change = _change(before, after, ours.unit)
    if ours.ratios and theirs.ratios:
        of_limit = _change(
            statistics.median(theirs.ratios), statistics.median(ours.ratios), ours.unit
        )
        text = f"{of_limit:.2f} x of the limit, {change:.2f} x plain"
    else:
        of_limit, text = change, f"{change:.2f} x plain"
    is_worse = of_limit > WORSE
    print(
        f"{'WORSE' if is_worse else 'ok':5}  {name:34} {before:.3f} -> {after:.3f} {ours.unit}: {text}"
    )
    return is_worse


def _change(before: float, after: float, unit: str) -> float:
    """How many times worse; of a rate the lower value is."""
    if unit.endswith("/s"):
        before, after = after, before
    return after / before if before else float(after > 0) + 1.0


if __name__ == "__main__":
    sys.exit(main())
