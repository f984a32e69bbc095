"""The benchmark itself: it runs, measures everything it lists, and every target holds with tenfold
slack.
"""

import math
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import benchmarks as benchmarks_package
from benchmarks.catalog import all_benchmarks
from benchmarks.figures import Report, Row
from benchmarks.picture import picture
from benchmarks.table import table
from tests.programs import need, need_variable

ROOT = Path(__file__).parents[2]
SLACK = 10.0
ROWS = {
    "local.settled",
    "local.back-to-back",
    "local.copies",
    "local.functions",
    "local.functions-copies",
    "local.blocking",
    "local.parallel",
    "local.output",
    "local.output-memory",
    "local.log",
    "local.background",
    "local.background-memory",
    "local.background-threads",
    "local.timeout",
    "local.timeout-worst",
    "local.cancel",
    "local.cancel-worst",
    "local.kill",
    "local.kill-worst",
    "local.survivors",
    "local.jobs",
    "local.open",
    "local.open-first",
    "local.open-profile",
    "local.pool",
    "local.many",
    "local.many-cpu",
    "local.many-memory",
    "local.codemode-call",
    "local.codemode-read",
    "local.codemode-start",
    "local.codemode-warm",
    "local.codemode-row",
    "local.codemode-shim",
    "local.file-first",
    "local.file-page",
    "local.file-memory",
    "local.read-file",
    "local.search",
    "local.search-own",
    "local.judging",
    "local.terminal",
    "local.terminal-true",
    "local.terminal-output",
    "import",
    "import-open",
    "cli",
    "cli-help",
    "mcp.start",
    "mcp.call",
}
ELSEWHERE = {
    "settled",
    "settled-local",
    "parallel",
    "output",
    "output-memory",
    "background",
    "background-memory",
    "background-threads",
    "timeout",
    "timeout-worst",
    "cancel",
    "cancel-worst",
    "kill",
    "kill-worst",
    "survivors",
    "jobs",
    "open",
    "open-first",
    "pool",
}
CONTAINER = {
    *ELSEWHERE,
    "settled-exec",
    "at-once",
    "at-once-memory",
    "codemode-call",
    "codemode-read",
    "codemode-start",
    "codemode-warm",
    "codemode-row",
    "codemode-shim",
    "runtime-settled",
    "runtime-open",
}
# Kind, the variables that scripts/engines/up sets for it, and its rows.
PLACES = (
    ("sandbox", ("BWRAP",), ELSEWHERE),
    ("docker", ("DOCKER_HOST", "IMAGE_BASE"), CONTAINER),
    ("podman", ("PODMAN", "IMAGE_BASE"), CONTAINER),
    ("apptainer", ("APPTAINER", "IMAGE_BASE_SIF"), ELSEWHERE),
    ("ssh", ("SSH_HOST", "SSH_PORT", "SSH_USER", "SSH_KEY", "SSH_KNOWN_HOSTS"), ELSEWHERE),
)


def benchmarks(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.full
@pytest.mark.alone
@pytest.mark.slow
def test_every_target_holds_with_tenfold_slack(tmp_path: Path) -> None:
    need("rg")
    written, drawn = tmp_path / "report.json", tmp_path / "report.svg"
    only = [word for name in ("local", "import", "cli", "mcp") for word in ("--only", name)]
    done = benchmarks(*only, "--json", str(written), "--svg", str(drawn))
    report = judged(done, written)
    assert {row.name for row in report.rows} == ROWS
    assert done.stdout == table(report)
    assert drawn.read_text() == picture(report)


@pytest.mark.full
@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.parametrize(("kind", "variables", "rows"), PLACES, ids=[kind for kind, _, _ in PLACES])
def test_every_target_of_a_place_holds_with_tenfold_slack(
    tmp_path: Path, kind: str, variables: tuple[str, ...], rows: set[str]
) -> None:
    for variable in variables:
        need_variable(variable)
    written = tmp_path / "report.json"
    report = judged(benchmarks("--only", kind, "--json", str(written)), written)
    assert {row.name for row in report.rows} == {f"{kind}.{name}" for name in rows}


def judged(done: subprocess.CompletedProcess[str], written: Path) -> Report:
    """The report of a run, in which nothing is far from its target and nothing is out of all
    proportion.
    """
    assert done.returncode == 0, done.stderr
    report = msgspec.json.decode(written.read_bytes(), type=Report)
    assert [row.name for row in report.rows if not row.holds(slack=SLACK)] == [], done.stdout
    assert [row.name for row in report.rows if row.limit and not _is_sane(row)] == [], done.stdout
    return report


def _is_sane(row: Row) -> bool:
    """A thousandth of the limit means that nothing was done, a thousand times the limit that
    something hung.
    """
    if row.name.endswith("-memory"):
        return True  # the machine's memory moves by what others do
    return row.ratio is not None and math.isfinite(row.ratio) and 0.0005 < row.ratio < 1000


def test_a_place_that_cannot_be_had_is_left_out_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("IMAGE_BASE_SIF", raising=False)
    monkeypatch.setenv("APPTAINER", sys.executable)
    done = benchmarks("--quick", "--only", "apptainer.settled", "--only", "local.back-to-back")
    assert done.returncode == 0, done.stderr
    assert "apptainer.settled: left out: IMAGE_BASE_SIF is not set" in done.stderr
    assert "back to back, local" in done.stdout
    alone = benchmarks("--quick", "--only", "apptainer.settled")
    assert alone.returncode == 1
    assert "nothing of what was asked for can be measured here" in alone.stderr


def test_one_benchmark_can_be_taken_alone_and_shown_again(tmp_path: Path) -> None:
    written, drawn = tmp_path / "folder" / "report.json", tmp_path / "report.svg"
    done = benchmarks("--quick", "--only", "local.back-to-back", "--json", str(written))
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


def test_every_module_loads_with_what_a_plain_checkout_installs(tmp_path: Path) -> None:
    (tmp_path / "msgspec").symlink_to(Path(msgspec.__file__).parent)
    modules = [module.name for module in pkgutil.iter_modules(benchmarks_package.__path__)]
    assert "__main__" in modules
    done = subprocess.run(
        [sys.executable, "-S", "-c", "\n".join(f"import benchmarks.{name}" for name in modules)],
        cwd=tmp_path,
        env={"PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "src", tmp_path)))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_script_takes_the_same_arguments_from_any_directory(tmp_path: Path) -> None:
    done = subprocess.run(
        [ROOT / "benchmarks/run", "--list"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == benchmarks("--list").stdout
    assert os.access(ROOT / "benchmarks/run", os.X_OK)
