"""Two checkouts measured in turns."""

import stat
import subprocess
import sys
from pathlib import Path

import msgspec

from benchmarks.compare import HERE
from benchmarks.figures import row
from tests.benchmarks.reports import report


def checkout(directory: Path, milliseconds: float, rate: float) -> Path:
    """A checkout whose benchmarks print these figures."""
    rows = [
        row("quick.one", "", "ms", [milliseconds], limit=("bare", [2.0])),
        row("quick.rate", "", "commands/s", [rate]),
    ]
    (directory / "benchmarks").mkdir(parents=True)
    (directory / "report").write_bytes(msgspec.json.encode(report(*rows)))
    script = directory / "benchmarks/run"
    script.write_text('#!/bin/sh\n[ "$1" != --list ] || { echo quick; exit; }\ncp report "$4"\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return directory


def compare(ours: Path, theirs: Path) -> tuple[int, list[str]]:
    code = (
        "import sys, pathlib; from benchmarks import compare; "
        f"compare.HERE = pathlib.Path({str(ours)!r}); sys.exit(compare.main())"
    )
    command = [sys.executable, "-c", code, str(theirs)]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines()


def test_a_row_that_got_worse_is_named(tmp_path: Path) -> None:
    before = checkout(tmp_path / "before", 1.0, 100.0)
    code, said = compare(checkout(tmp_path / "slower", 1.2, 100.0), before)
    assert (code, said[-1]) == (1, "1 of 2 rows are over 1.1 x: quick.one")
    assert said[0].endswith("1.000 -> 1.200 ms: 1.20 x of the limit, 1.20 x plain")
    code, said = compare(checkout(tmp_path / "fewer", 1.0, 80.0), before)
    assert (code, said[-1]) == (1, "1 of 2 rows are over 1.1 x: quick.rate")


def test_noise_and_what_got_better_are_fine(tmp_path: Path) -> None:
    before = checkout(tmp_path / "before", 1.0, 100.0)
    code, said = compare(checkout(tmp_path / "after", 1.05, 130.0), before)
    assert (code, said[-1]) == (0, "0 of 2 rows are over 1.1 x: none")
