"""The limit of processes: where no more can be had, a session goes on without copies instead of
waiting for one.
"""

import errno
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermetic.resident.processes.cgroup import ProcessQuota
from tests.programs import unavailable
from tests.resident.running import running


def test_the_nearest_limit_above_counts(tmp_path: Path) -> None:
    inner = tmp_path / "sys" / "outer" / "inner"
    inner.mkdir(parents=True)
    (inner / "pids.max").write_text("max\n")
    (inner.parent / "pids.max").write_text("100\n")
    (inner.parent / "pids.current").write_text("50\n")
    (tmp_path / "cgroup").write_text("0::/outer/inner\n")
    room = ProcessQuota(str(tmp_path / "cgroup"), str(tmp_path / "sys"))
    assert room.has_headroom()
    (inner.parent / "pids.current").write_text("99\n")
    assert not room.has_headroom()


def test_without_a_limit_there_is_room(tmp_path: Path) -> None:
    assert ProcessQuota(str(tmp_path / "none"), str(tmp_path)).has_headroom()


@pytest.fixture
def group() -> Iterator[Path]:
    """A cgroup with a limit of processes; the test's own process is put back at the end."""
    for folder in (Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup")):
        path = folder / f"hermetic-test-{os.getpid()}"
        try:
            path.mkdir()
            if (path / "pids.max").exists():
                break
            path.rmdir()
        except OSError:
            continue
    else:
        unavailable(
            "no cgroup with a limit of processes can be made; run ./test as root where cgroups are mounted"
        )
    yield path
    (path.parent / "cgroup.procs").write_text(str(os.getpid()))
    remove_group(path)


def remove_group(path: Path) -> None:
    """Takes it away once the last of its processes, which have ended, is collected."""
    deadline = time.monotonic() + 10
    while True:
        try:
            path.rmdir()
            return
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def test_a_session_at_the_limit_of_processes_stays_usable(group: Path) -> None:
    (group / "pids.max").write_text("max")
    (group / "cgroup.procs").write_text(str(os.getpid()))
    (group / "pids.max").write_text("40")
    with running() as resident:
        (group.parent / "cgroup.procs").write_text(str(os.getpid()))
        with resident.client() as client:
            client.run("X=kept; true")
            for i in range(30):
                client.ask("start", b"exec sleep 1000", id=f"p{i}", text=15, stdin="null")
            began = time.monotonic()
            said, output = client.run("echo $X; Y=2")
            assert (said["ending"], output) == (["exited", 0], b"kept\n")
            said, output = client.run("echo $X $Y")
            assert output == b"kept 2\n"
            assert any("limit of processes" in note for note in said["notes"])
            assert time.monotonic() - began < 5
            for i in range(30):
                client.ask("kill", process=f"p{i}", grace=0.0)
            client.run("Z=3")
            client.run("true; exit 1")
            assert client.run("echo $X $Y $Z")[1] == b"kept 2 3\n"
