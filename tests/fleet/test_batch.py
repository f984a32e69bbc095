"""A batch is resumed where a killed caller left it: each task has one result, and its command runs
once.
"""

import json
import os
import signal
import subprocess
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hermetic import ConfigError, InvalidArgument
from hermetic.fleet.journal import opened, read_tasks
from hermetic.registry.records import Records, runtime_root
from tests.cli.program import COMMAND, as_json, eventually, running
from tests.cli.program import hermetic as command_line
from tests.programs import need
from tests.sizes import scale


def write_tasks(at: Path, tasks: list[dict[str, Any]]) -> str:
    path = at / "tasks.jsonl"
    path.write_text("".join(f"{json.dumps(task)}\n" for task in tasks))
    return str(path)


def results_of(tasks: str) -> list[dict[str, Any]]:
    lines = Path(f"{tasks}.results.jsonl").read_text().splitlines()
    return [entry for entry in map(json.loads, lines) if entry["type"] == "ended"]


FAST = ("--env", "local", "-o", "login=false")


def test_every_task_has_a_result_and_nothing_is_left(tmp_path: Path) -> None:
    tasks = write_tasks(
        tmp_path,
        [
            {
                "id": "good",
                "command": "echo one; echo $WHO; cat",
                "env": {"WHO": "me"},
                "stdin": "given",
            },
            {"id": "bad", "command": ["bash", "-c", "exit 3"]},
            {"command": "sleep 600", "timeout": 0.3},
            {"id": "long", "command": "seq 100000", "cwd": str(tmp_path)},
        ],
    )
    done = command_line("fleet", "run", "--tasks", tasks, *FAST, "--output-bytes", "1000")
    assert done.returncode == 1, done.stderr
    assert b"2 of 4 passed, 1 failed, 1 timed out" in done.stdout
    found = {entry["task"]: entry for entry in results_of(tasks)}
    assert found["good"]["output"] == "one\nme\ngiven"
    assert (found["bad"]["outcome"], found["bad"]["exit_code"]) == ("failed", 3)
    assert found["3"]["outcome"] == "timed out"
    assert found["long"]["total_bytes"] == 588895
    assert "bytes left out" in found["long"]["output"]
    assert len(found["long"]["output"]) < 1100
    eventually(lambda: os.listdir(runtime_root()) == [])
    again = command_line("fleet", "run", "--tasks", tasks, *FAST, "--json")
    assert json.loads(again.stdout)["earlier"] == 4
    assert len(results_of(tasks)) == 4


@pytest.mark.slow
def test_a_batch_whose_caller_is_killed_twice_finishes_with_each_command_run_once(
    tmp_path: Path,
) -> None:
    count = scale(1000)
    ran = tmp_path / "ran"
    tasks = write_tasks(
        tmp_path,
        [
            {"id": f"t{n}", "command": f"echo {n} >> {ran}; sleep 0.3; echo {n}"}
            for n in range(count)
        ],
    )
    words = ("fleet", "run", "--tasks", tasks, *FAST, "--limit", "8")
    for least in (count // 3, 2 * count // 3):
        with running(*words) as caller:
            eventually(partial(_has_ended, tasks, least), 60 + count)
            caller.send_signal(signal.SIGKILL)
            caller.wait(20)
            assert _ended(tasks) < count
    done = subprocess.run(
        [*COMMAND, *words, "--json"], capture_output=True, timeout=60 + 2 * count, check=False
    )
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert (summary["passed"], summary["lost"], summary["open"]) == (count, 0, 0)
    assert summary["adopted"] >= 1
    assert Counter(entry["task"] for entry in results_of(tasks)) == {
        f"t{n}": 1 for n in range(count)
    }
    assert Counter(ran.read_text().split()) == {str(n): 1 for n in range(count)}
    assert all(entry["output"] == entry["task"][1:] + "\n" for entry in results_of(tasks))
    # an opener that was killed leaves its lock, and a resident without a first client
    eventually(_is_clean, 60)


def _is_clean() -> bool:
    command_line("gc")
    return os.listdir(runtime_root()) == []


def _has_ended(tasks: str, least: int) -> bool:
    return _ended(tasks) >= least


def _ended(tasks: str) -> int:
    try:
        return Path(f"{tasks}.results.jsonl").read_bytes().count(b'"type":"ended"')
    except FileNotFoundError:
        return 0


def test_a_task_whose_environment_is_gone_is_lost_and_run_again_on_request(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    tasks = write_tasks(
        tmp_path,
        [
            {
                "id": "a",
                "command": f"echo x >> {ran}; while [ ! -e {tmp_path}/go ]; do sleep 0.1; done",
            }
        ],
    )
    words = ("fleet", "run", "--tasks", tasks, *FAST)
    with running(*words) as caller:
        eventually(ran.exists)
        caller.send_signal(signal.SIGKILL)
        caller.wait(20)
    record = next(iter(Records(runtime_root()).all()))
    os.kill(record.pid, signal.SIGKILL)  # the guardian ends what ran there
    eventually(lambda: not Path(record.directory).exists())
    (tmp_path / "go").touch()
    lost = command_line(*words)
    assert lost.returncode == 3
    assert b"1 lost" in lost.stdout
    assert b"--rerun-lost" in lost.stderr
    assert ran.read_text() == "x\n"
    again = command_line(*words, "--rerun-lost")
    assert (again.returncode, ran.read_text()) == (0, "x\nx\n"), again.stderr


def test_an_interrupted_batch_ends_its_environments_and_begins_them_anew(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    tasks = write_tasks(
        tmp_path, [{"command": f"echo x >> {ran}; [ -e {tmp_path}/go ] || sleep 600"}]
    )
    words = ("fleet", "run", "--tasks", tasks, *FAST)
    with running(*words) as caller:
        eventually(ran.exists)
        caller.send_signal(signal.SIGINT)
        assert caller.wait(20) == 130
    eventually(lambda: os.listdir(runtime_root()) == [])
    (tmp_path / "go").touch()
    assert as_json(*words)["passed"] == 1
    assert ran.read_text() == "x\nx\n"


def test_a_line_that_was_being_written_is_ignored(tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path, [{"command": "echo 1"}, {"command": "echo 2"}])
    assert command_line("fleet", "run", "--tasks", tasks, *FAST).returncode == 0
    results = Path(f"{tasks}.results.jsonl")
    whole = results.read_bytes().splitlines(keepends=True)
    last = next(line for line in reversed(whole) if b'"ended"' in line)
    kept = b"".join(line for line in whole if line != last)
    results.write_bytes(kept + last[: len(last) // 2])
    assert as_json("fleet", "run", "--tasks", tasks, *FAST, "--rerun-lost")["passed"] == 2
    assert len(results_of(tasks)) == 2


def test_two_callers_do_not_run_one_batch_at_once(tmp_path: Path) -> None:
    path = write_tasks(tmp_path, [{"command": "true"}])
    tasks, results = read_tasks(Path(path)), tmp_path / "results"
    other = opened(results, "local", tasks, "b")
    with (
        opened(results, "local", tasks, "b"),
        pytest.raises(ConfigError, match="another process"),
        other,
    ):
        pass
    with pytest.raises(ConfigError, match="other tasks"), opened(results, "docker", tasks, "b"):
        pass
    results.write_text("{}\n")
    with pytest.raises(ConfigError, match="no result file"), opened(results, "local", tasks, "b"):
        pass


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["", " "], "names no task"),
        (['{"command": "a", "id": "x"}', '{"command": "b", "id": "x"}'], "occurs twice"),
        (['{"comand": "a"}'], "line 1"),
        ([json.dumps({"command": "a", "id": "x" * 300})], "too long"),
    ],
)
def test_wrong_tasks_are_named(tmp_path: Path, lines: list[str], said: str) -> None:
    path = tmp_path / "tasks"
    path.write_text("\n".join(lines))
    with pytest.raises(InvalidArgument, match=said):
        read_tasks(path)
    with pytest.raises(InvalidArgument, match="cannot be read"):
        read_tasks(tmp_path / "missing")


def test_an_environment_that_never_opens_leaves_the_task_open(tmp_path: Path) -> None:
    need("ssh")
    tasks = write_tasks(tmp_path, [{"id": "a", "command": "true"}])
    words = (
        "fleet",
        "run",
        "--tasks",
        tasks,
        "--env",
        "ssh",
        "--host",
        "127.0.0.1",
        "-o",
        "port=1",
    )
    for _ in range(2):
        done = command_line(*words, "--retries", "0")
        assert done.returncode == 3
        assert b"1 without a result" in done.stdout
        assert b"no ssh server listens there" in done.stderr
    assert results_of(tasks) == []
