"""Limits where there is no cgroup, or half of one."""

import asyncio
import os
import shutil
import signal
from pathlib import Path

import pytest

import hermetic
from hermetic.environments import sandbox
from hermetic.environments.isolation.cgroups import (
    Cgroup,
    limits_besides,
    make_cgroup,
    members,
    remove_cgroup,
)
from tests.environments.sandboxes import kept_of
from tests.environments.sandboxes import sandbox as open_sandbox
from tests.programs import need, need_root

GIB = 1 << 30


def test_a_whole_cgroup_needs_nothing_else() -> None:
    cgroup = Cgroup(("/x",), "/x", ("memory", "swap", "pids"))
    limits = limits_besides(cgroup, memory_bytes=GIB, pids=64)
    assert (limits.argv, limits.notes, limits.missing) == ((), (), ())


def test_unlimited_swap_is_told() -> None:
    limits = limits_besides(Cgroup(("/x",), "/x", ("memory", "pids")), memory_bytes=GIB, pids=64)
    assert limits.argv == ()
    assert "swap" in limits.notes[0]


def test_without_a_cgroup_each_process_is_limited_and_the_difference_told() -> None:
    need("prlimit")
    limits = limits_besides(Cgroup(), memory_bytes=GIB, pids=64)
    assert f"--data={GIB}" in limits.argv
    assert "for each process, not for all together" in limits.notes[0]
    # The kernel does not count the processes of root.
    assert ("--nproc=64" in limits.argv) == (os.geteuid() != 0)
    assert ("pids" in limits.missing) == (os.geteuid() == 0)


def test_where_nothing_can_limit_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    limits = limits_besides(Cgroup(), memory_bytes=GIB, pids=64)
    assert limits.argv == ()
    assert limits.missing == ("memory_bytes", "pids")
    assert len(limits.notes) == 2


async def test_a_limit_that_was_asked_for_and_cannot_be_had_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_root("the kernel counts the processes of everybody but root")
    monkeypatch.setattr(sandbox, "make_cgroup", lambda *_, **__: Cgroup())
    with pytest.raises(hermetic.Unsupported, match="nothing here can enforce pids"):
        async with open_sandbox(tmp_path, pids=64):
            pass
    assert os.listdir(tmp_path) == []
    async with open_sandbox(tmp_path) as environment:  # the default is not asked for, but told
        assert any("nothing enforces pids" in note for note in environment.isolation.notes)


async def test_a_cgroup_is_taken_away_with_what_runs_in_it() -> None:
    cgroup = make_cgroup("hermetic-test", memory_bytes=GIB, pids=64)
    if not cgroup.directories:
        pytest.skip("no cgroup can be made here: run the tests as root")
    sleeper = await asyncio.create_subprocess_exec("sleep", "1000")
    for directory in cgroup.directories:
        Path(directory, "cgroup.procs").write_text(str(sleeper.pid))  # noqa: ASYNC240 - a file of the kernel
        assert members(directory) == [sleeper.pid]
    await remove_cgroup(cgroup.directories)
    assert await sleeper.wait() == -signal.SIGKILL
    assert not any(os.path.exists(directory) for directory in cgroup.directories)  # noqa: ASYNC240 - likewise


async def test_a_sandbox_lives_in_its_own_cgroup_from_its_first_process_on(tmp_path: Path) -> None:
    async with open_sandbox(tmp_path) as environment:
        kept = kept_of(environment)
        if not kept.cgroups:
            pytest.skip("no cgroup can be made here: run the tests as root")
        resident, keeper = kept.processes
        for directory in kept.cgroups:
            assert resident.pid in members(directory)
            assert keeper.pid not in members(directory)
        assert (
            await environment.run("cat /proc/self/cgroup | cut -d: -f3 | grep -c hermetic")
        ).output == "0\n"


async def test_doctor_tries_a_sandbox() -> None:
    need("bwrap")
    finding = await sandbox.Sandbox.doctor()
    assert finding.state in ("ok", "weak")
    assert "bwrap" in finding.found


async def test_doctor_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    finding = await sandbox.Sandbox.doctor()
    assert finding.state == "missing"
    assert "bubblewrap" in finding.advice
