"""The trace: it counts what one call passes through on the caller's side."""

import json
import subprocess
import sys
from pathlib import Path

from benchmarks.trace import Line, table

ROOT = Path(__file__).parents[2]


def traced(folder: Path, *names: str) -> dict[str, Line]:
    """In a process of its own, where no other test has changed or left anything."""
    only = [word for name in names for word in ("--only", name)]
    rows = folder / "rows.json"
    command = [sys.executable, "-m", "benchmarks.trace", "--json", str(rows), *only]
    subprocess.run(command, cwd=ROOT, check=True)
    return {row["name"]: Line(**row) for row in json.loads(rows.read_text())}


def test_a_command_and_a_tool_are_counted_with_their_round_trips(tmp_path: Path) -> None:
    lines = traced(tmp_path, "env.run", "read_file")
    assert set(lines) == {"env.run", 'toolbox.call("read_file")'}
    assert 5 < lines["env.run"].calls < lines['toolbox.call("read_file")'].calls
    assert {line.round_trips for line in lines.values()} == {1}
    assert {line.policy_calls for line in lines.values()} == {0}


def test_the_share_of_the_policy_stands_apart(tmp_path: Path) -> None:
    [line] = traced(tmp_path, "terminal").values()
    assert line.policy_calls > 0
    assert line.policy_files > 0
    assert str(line.policy_calls) in table([line])


def test_a_warm_call_of_a_tool_stays_short(tmp_path: Path) -> None:
    terminal, read = traced(tmp_path, "terminal", "read_file").values()
    assert (terminal.calls <= 150, terminal.files <= 20) == (True, True), terminal
    assert (read.calls <= 70, read.files <= 15) == (True, True), read
