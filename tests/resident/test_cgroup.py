"""What a cgroup allows, read from files laid out as the two versions of cgroups do."""

from pathlib import Path

import pytest

from hermetic.resident.processes.cgroup import processors


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A folder that stands for a machine on which we are in the cgroup /outer/inner."""
    (tmp_path / "cgroup").write_text(
        "3:cpu,cpuacct:/outer/inner\n2:pids:/elsewhere\n0::/outer/inner\n"
    )
    return tmp_path


def allowed(machine: Path) -> float:
    return processors(str(machine / "cgroup"), str(machine / "sys"))


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_the_least_that_a_group_above_us_allows_counts(machine: Path) -> None:
    write(machine / "sys/outer/inner/cpu.max", "400000 100000\n")
    write(machine / "sys/outer/cpu.max", "150000 100000\n")
    assert allowed(machine) == 1.5


def test_so_it_is_where_each_controller_has_a_tree_of_its_own(machine: Path) -> None:
    write(machine / "sys/cpu/cpu.cfs_quota_us", "50000\n")
    write(machine / "sys/cpu/cpu.cfs_period_us", "100000\n")
    assert allowed(machine) == 0.5


@pytest.mark.parametrize(
    ("name", "text"),
    [("outer/cpu.max", "max 100000\n"), ("cpu/cpu.cfs_quota_us", "-1\n"), ("other", "")],
)
def test_without_a_limit_all_are_allowed(machine: Path, name: str, text: str) -> None:
    write(machine / "sys/cpu/cpu.cfs_period_us", "100000\n")
    write(machine / "sys" / name, text)
    assert allowed(machine) == float("inf")


def test_where_nothing_can_be_read_all_are_allowed(tmp_path: Path) -> None:
    assert processors(str(tmp_path / "none"), str(tmp_path)) == float("inf")
