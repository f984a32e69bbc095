"""The watch over leftovers sees what tests can leave, and nothing else."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests import leftovers

ORPHAN = """
import os, sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve("/bin/sleep", ["sleep", "600"], {})
    os._exit(0)
os.wait()
"""


def test_a_test_that_leaves_nothing_passes(tmp_path: Path) -> None:
    before = leftovers.take_stock(tmp_path)
    subprocess.run(["true"], check=True)
    assert leftovers.left_since(before, patience=5) == []


def test_a_child_left_running_is_named_and_ended(tmp_path: Path) -> None:
    before = leftovers.take_stock(tmp_path)
    child = subprocess.Popen(["sleep", "600"])
    (line,) = leftovers.left_since(before, patience=0.05)
    assert line.endswith("sleep 600")
    assert leftovers.left_since(before, patience=0) == []
    child.returncode = 0  # collected above


def test_an_orphan_in_a_session_of_its_own_with_no_environment_is_found(tmp_path: Path) -> None:
    before = leftovers.take_stock(tmp_path)
    subprocess.run([sys.executable, "-c", ORPHAN], check=True)
    (line,) = leftovers.left_since(before, patience=0.05)
    assert line.endswith("sleep 600")


def test_a_child_that_ends_in_time_is_waited_for_and_collected(tmp_path: Path) -> None:
    before = leftovers.take_stock(tmp_path)
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    assert child.stdin is not None
    threading.Timer(0.1, child.stdin.close).start()
    assert leftovers.left_since(before, patience=50) == []
    with pytest.raises(ProcessLookupError):
        os.kill(child.pid, 0)
    child.returncode = 0  # collected above


def test_a_thread_left_running_is_named(tmp_path: Path) -> None:
    before = leftovers.take_stock(tmp_path)
    go = threading.Event()
    thread = threading.Thread(target=go.wait, name="forgotten")
    thread.start()
    assert leftovers.left_since(before, patience=0.05) == ["thread forgotten"]
    go.set()
    thread.join()


def test_an_open_descriptor_is_named(tmp_path: Path) -> None:
    before = leftovers.take_stock(tmp_path)
    reading, writing = os.pipe()
    lines = leftovers.left_since(before, patience=0)
    assert [line.split(":")[0] for line in lines] == [
        f"descriptor {reading}",
        f"descriptor {writing}",
    ]
    os.close(reading)
    os.close(writing)


def test_a_descriptor_that_points_elsewhere_than_before_is_named(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    before = leftovers.take_stock(tmp_path)
    other = os.open("/dev/null", os.O_RDONLY)
    os.dup2(other, reading)
    os.close(other)
    assert leftovers.left_since(before, patience=0) == [f"descriptor {reading}: /dev/null"]
    os.close(reading)
    os.close(writing)


def test_files_of_an_environment_are_named_and_taken_away(tmp_path: Path) -> None:
    (tmp_path / "known").touch()
    before = leftovers.take_stock(tmp_path)
    (tmp_path / "e-1").mkdir()
    (tmp_path / "e-1.lock").touch()
    lines = leftovers.left_since(before, patience=0.05)
    assert lines == [f"{tmp_path}/e-1", f"{tmp_path}/e-1.lock"]
    assert os.listdir(tmp_path) == ["known"]


def test_an_orphan_that_ended_after_its_test_is_collected(tmp_path: Path) -> None:
    read_end, write_end = os.pipe()
    subprocess.run(["sh", "-c", "sleep 600 & echo $!"], check=True, stdout=write_end)
    orphan = int(os.read(read_end, 100))
    os.close(read_end)
    os.close(write_end)
    os.kill(orphan, 9)
    os.waitid(os.P_PID, orphan, os.WEXITED | os.WNOWAIT)
    leftovers.take_stock(tmp_path)
    assert leftovers.descendants() == []
