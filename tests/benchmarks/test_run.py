"""The benchmark itself: it runs, measures everything it lists, and every target holds with tenfold slack."""

import math
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from benchmarks.catalog import all_benchmarks
from benchmarks.figures import Report
from benchmarks.picture import picture
from benchmarks.table import table
from tests.sizes import is_full

ROOT = Path(__file__).parents[2]
SLACK = 10.0
ROWS = {
    "local.settled", "local.back-to-back", "local.copies", "local.functions", "local.functions-copies",
    "local.blocking", "local.parallel", "local.output", "local.output-memory", "local.log", "local.background",
    "local.background-memory", "local.background-threads", "local.timeout", "local.timeout-worst", "local.cancel",
    "local.cancel-worst", "local.kill", "local.kill-worst", "local.survivors", "local.jobs", "local.open",
    "local.open-first", "local.open-profile", "import", "import-open", "cli",
}  # fmt: skip


def benchmarks(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_every_target_holds_with_tenfold_slack(tmp_path: Path) -> None:
    written, drawn = tmp_path / "report.json", tmp_path / "report.svg"
    done = benchmarks(*([] if is_full() else ["--quick"]), "--json", str(written), "--svg", str(drawn))
    assert done.returncode == 0, done.stderr
    report = msgspec.json.decode(written.read_bytes(), type=Report)
    assert {row.name for row in report.rows} >= ROWS
    assert [row.name for row in report.rows if not row.holds(slack=SLACK)] == [], done.stdout
    assert [row.name for row in report.rows if row.limit and not _is_sane(row.ratio)] == [], done.stdout
    assert done.stdout == table(report)
    assert drawn.read_text() == picture(report)


def _is_sane(ratio: float | None) -> bool:
    """A hundredth of the limit means that nothing was done, a thousand times the limit that something hung."""
    return ratio is not None and math.isfinite(ratio) and 0.01 < ratio < 1000


def test_one_benchmark_can_be_taken_alone_and_shown_again(tmp_path: Path) -> None:
    written, drawn = tmp_path / "folder" / "report.json", tmp_path / "report.svg"
    done = benchmarks("--quick", "--only", "back-to-back", "--json", str(written))
    assert done.returncode == 0, done.stderr
    (row,) = msgspec.json.decode(written.read_bytes(), type=Report).rows
    assert (row.name, row.unit, row.ours.count) == ("local.back-to-back", "ms", 120)
    again = benchmarks("--read", str(written), "--svg", str(drawn))
    assert (again.returncode, again.stdout) == (0, done.stdout)
    assert "true, back to back" in drawn.read_text()


def test_an_unknown_name_is_told_with_the_known_ones() -> None:
    done = benchmarks("--only", "sideways")
    assert done.returncode == 1
    assert "no benchmark is called 'sideways'; there are: local.settled," in done.stderr


def test_names_are_listed_and_each_is_there_once() -> None:
    names = benchmarks("--list").stdout.split()
    assert names == [benchmark.name for benchmark in all_benchmarks()]
    assert len(set(names)) == len(names)


def test_the_script_takes_the_same_arguments_from_any_directory(tmp_path: Path) -> None:
    done = subprocess.run(
        [ROOT / "benchmarks/run", "--list"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout == benchmarks("--list").stdout
    assert os.access(ROOT / "benchmarks/run", os.X_OK)
