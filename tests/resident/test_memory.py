"""A kill for want of memory is told from any other by the counter of the cgroup."""

from pathlib import Path

import pytest

from hermetic.resident.processes.cgroup import MemoryKills

FIRST = "7:blkio:/docker/x\n4:cpu,memory:/docker/x\n0::/system\n"


class Group:
    """A cgroup as a container sees it."""

    def __init__(self, at: Path, groups: str, counter: str) -> None:
        self.groups = at / "cgroup"
        self.groups.write_text(groups)
        self.mounted = at / "mounted"
        self.counter = self.mounted / counter
        self.counter.parent.mkdir(parents=True)
        self.set(0)

    def set(self, count: int) -> None:
        self.counter.write_text(f"low 0\nunder_oom 0\noom {count * 3}\noom_kill {count}\n")

    def kills(self) -> MemoryKills:
        return MemoryKills(str(self.groups), str(self.mounted))


SEEN = [
    (FIRST, "memory/docker/x/memory.oom_control"),
    (FIRST, "memory/memory.oom_control"),
    ("0::/system\n", "system/memory.events"),
    ("0::/system\n", "memory.events"),
]


@pytest.mark.parametrize(("groups", "counter"), SEEN)
def test_a_kill_is_for_memory_when_the_counter_grew(
    tmp_path: Path, groups: str, counter: str
) -> None:
    group = Group(tmp_path, groups, counter)
    group.set(2)
    kills = group.kills()
    assert kills.explain(["signalled", 9]) == ["signalled", 9]
    group.set(3)
    assert kills.explain(["exited", 1]) == ["exited", 1]
    assert kills.explain(["exited", 137]) == ["oom"]
    assert kills.explain(["signalled", 9]) == ["signalled", 9]


def test_without_a_counter_a_kill_is_a_kill(tmp_path: Path) -> None:
    nowhere = MemoryKills(str(tmp_path / "cgroup"), str(tmp_path))
    assert nowhere.explain(["signalled", 9]) == ["signalled", 9]
