"""Engine scripts end only what they started, and say which names they know."""

import os
import subprocess
from pathlib import Path

ENGINES = Path(__file__).parents[2] / "scripts" / "engines"


def run_with_processes(script: str) -> subprocess.CompletedProcess[str]:
    """Runs `script` with the functions of process.sh at hand."""
    prelude = f'set -euo pipefail; say() {{ echo "$*"; }}; . {ENGINES}/process.sh\n'
    return subprocess.run(
        ["bash", "-c", prelude + script], capture_output=True, text=True, timeout=60, check=False
    )


def test_a_started_process_is_remembered_and_ended(tmp_path: Path) -> None:
    done = run_with_processes(
        f"""
        start_ours {tmp_path}/id {tmp_path}/log sleep 600
        is_ours {tmp_path}/id && echo alive
        end_ours {tmp_path}/id 10
        is_ours {tmp_path}/id || echo gone
        """
    )
    assert done.stdout.split() == ["alive", "ended", "gone"], done.stderr


def test_another_process_with_the_same_number_is_left_alone(tmp_path: Path) -> None:
    remembered = tmp_path / "id"
    remembered.write_text(f"{os.getpid()} 1\n")
    done = run_with_processes(f"is_ours {remembered} || echo not ours; end_ours {remembered} 1")
    assert (done.returncode, done.stdout) == (0, "not ours\n")
    assert not remembered.exists()


def test_a_pid_file_of_a_dead_daemon_is_removed_though_its_number_lives(tmp_path: Path) -> None:
    for pid in ("", "4194305", str(os.getpid())):
        pid_file = tmp_path / "docker.pid"
        pid_file.write_text(pid)
        assert run_with_processes(f"forget_dead {pid_file} dockerd").returncode == 0
        assert not pid_file.exists()
    assert run_with_processes(f"forget_dead {tmp_path}/none dockerd").returncode == 0


def test_a_pid_file_of_a_living_daemon_is_kept(tmp_path: Path) -> None:
    pid_file = tmp_path / "daemon.pid"
    pid_file.write_text(str(os.getpid()))
    name = Path("/proc/self/comm").read_text().strip()
    assert run_with_processes(f"forget_dead {pid_file} '{name}'").returncode == 0
    assert pid_file.exists()


def test_waiting_ends_when_the_process_does(tmp_path: Path) -> None:
    done = run_with_processes(
        f"start_ours {tmp_path}/id {tmp_path}/log false; await 600 {tmp_path}/id false || echo over"
    )
    assert done.stdout == "over\n"


def test_an_unknown_engine_is_answered_with_the_known_ones() -> None:
    done = subprocess.run(
        [ENGINES / "up", "dcoker"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert "no engine is called dcoker; there are programs, bubblewrap, chromium, " in done.stderr
