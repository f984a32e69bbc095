"""One environment for each task: made once, kept while it is used, let go of when idle, and nobody
else's touched.
"""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

import hermetic
from hermetic import ConfigError, EnvironmentUnavailable, Fleet, InvalidArgument
from hermetic.registry.host_process import ended as gone
from hermetic.registry.records import Records, runtime_root
from tests.cli.program import eventually
from tests.scenarios.living import begin
from tests.sizes import scale

FAST: dict[str, Any] = {"login": False}

OPENER = """
import asyncio, sys, hermetic
async def main():
    async with hermetic.Fleet("local", login=False, lease=float(sys.argv[2])) as fleet:
        env = await fleet.get(sys.argv[1])
        print((await env.info()).pid, flush=True)
        sys.stdin.read()
asyncio.run(main())
"""


@asynccontextmanager
async def ended_fleet(*words: Any, **options: Any) -> AsyncIterator[Fleet]:
    """A fleet of local environments, all of which are ended at the end."""
    fleet = Fleet("local", *words, **{**FAST, **options})
    async with asyncio.timeout(60), fleet:
        try:
            yield fleet
        finally:
            await fleet.close(remove=True)


def opener(task: str, lease: str = "300") -> "subprocess.Popen[bytes]":
    words = [sys.executable, "-c", OPENER, task, lease]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def leftovers() -> list[str]:
    return sorted(os.listdir(runtime_root()))


async def test_a_task_gets_its_environment_on_first_use_and_keeps_it() -> None:
    async with ended_fleet() as fleet:
        first = await fleet.get("a")
        await first.run("X=1")
        assert await fleet.get("a") is first
        other = await fleet.get("b")
        assert (await other.run("echo ${X-none}")).output == "none\n"
        assert fleet.tasks == ["a", "b"]
        async with hermetic.attach("a") as attached:
            assert (await attached.run("echo $X")).output == "1\n"
    assert leftovers() == []


async def test_many_callers_of_one_task_start_one_environment() -> None:
    async with ended_fleet() as fleet:
        environments = await asyncio.gather(*(fleet.get("a") for _ in range(20)))
        assert len(set(map(id, environments))) == 1
        assert len(Records(runtime_root()).all()) == 1


async def test_two_processes_share_a_task_and_neither_ends_the_others() -> None:
    task = f"shared-{os.getpid()}"
    with opener(task) as other:
        assert other.stdout is not None
        pid = int(other.stdout.readline())
        async with ended_fleet() as fleet:
            environment = await fleet.get(task)
            assert (await environment.info()).pid == pid
        # the fleet was closed with remove=True, and did not start this one
        async with hermetic.attach(task) as still:
            assert (await still.info()).pid == pid
            other.communicate(b"", timeout=20)
            await still.close(remove=True)
    assert leftovers() == []


async def test_a_task_can_have_options_of_its_own(tmp_path: Path) -> None:
    async with ended_fleet(env={"A": "fleet"}) as fleet:
        fleet.override("special", cwd=tmp_path, env={"A": "own"})
        special, plain = await fleet.get("special"), await fleet.get("plain")
        assert (await special.run("echo $A $PWD")).output == f"own {tmp_path}\n"
        assert (await plain.run("echo $A")).output == "fleet\n"
        with pytest.raises(ConfigError, match="end it first"):
            fleet.override("special", cwd="/")
        await fleet.close_task("special", remove=True)
        fleet.clear_override("special")
        assert (await (await fleet.get("special")).run("echo $A")).output == "fleet\n"
        with pytest.raises(ConfigError, match="no option 'imege'"):
            fleet.override("other", imege="x")


async def test_one_that_is_gone_is_replaced_at_the_next_use() -> None:
    async with ended_fleet() as fleet:
        first = await fleet.get("a")
        info = await first.info()
        os.kill(info.pid, 9)
        with pytest.raises(EnvironmentUnavailable):
            await first.processes()
        second = await fleet.get("a")
        assert second is not first
        assert (await second.info()).pid != info.pid


async def test_an_idle_environment_is_let_go_of_and_ends_with_its_lease() -> None:
    async with ended_fleet(idle=0.2, lease=0.1) as fleet:
        info = await (await fleet.get("a")).info()
        await gone(info.pid)
        assert fleet.tasks == []
        assert (await (await fleet.get("a")).info()).pid != info.pid


@pytest.mark.parametrize("way", ["call", "process", "use", "often", "job"])
async def test_an_environment_in_use_is_never_closed(way: str) -> None:
    async with ended_fleet(idle=0.5, lease=0.1, unattended=60) as fleet:
        environment = await fleet.get("a")
        pid = (await environment.info()).pid
        ended = asyncio.create_task(gone(pid))
        if way == "call":  # longer than the idle time, and only one
            assert (await environment.run("sleep 1.5; echo done")).output == "done\n"
        elif way == "process":
            process = await environment.start("sleep 1.5")
            await asyncio.wait([ended], timeout=1.2)
            assert await process.wait() == hermetic.Exited(0)
        elif way == "use":
            async with fleet.use("a") as same:
                assert same is environment
                await asyncio.wait([ended], timeout=1.5)
                assert (await same.run("echo here")).output == "here\n"
        elif way == "often":
            until = time.monotonic() + 1.5
            while time.monotonic() < until:
                await asyncio.sleep(0.02)
                assert (await environment.run("true")).exit_code == 0
        else:  # nothing but a background job of its shell
            await environment.run("sleep 1000 >/dev/null &")
            await asyncio.wait([ended], timeout=1.5)
        assert not ended.done()
        async with hermetic.attach("a") as alive:
            assert (await alive.info()).pid == pid
        ended.cancel()


async def test_a_busy_environment_is_let_go_of_later() -> None:
    async with ended_fleet(idle=0.1, lease=0.1) as fleet:
        environment = await fleet.get("a")
        pid = (await environment.info()).pid
        running = await begin(environment, "echo up; sleep 0.5")
        await running
        await gone(pid)
        assert fleet.tasks == []


async def test_only_so_many_start_at_once() -> None:
    async with ended_fleet(starts=2) as fleet:
        most = 0

        async def watch() -> None:
            nonlocal most
            while True:
                most = max(most, (await fleet.info()).starting)
                await asyncio.sleep(0)

        watching = asyncio.create_task(watch())
        await asyncio.gather(*(fleet.get(f"t{i}") for i in range(6)))
        watching.cancel()
        assert most == 2


async def test_info_tells_tasks_directories_and_disk_use(tmp_path: Path) -> None:
    async with ended_fleet(cwd=tmp_path) as fleet:
        async with fleet.use("a") as environment:
            await environment.run("head -c 3000000 /dev/zero")
            await environment.start("sleep 600")
            info = await fleet.info()
        [task] = info.tasks
        assert (task.task, task.id, task.kind) == ("a", environment.id, "local")
        assert (task.cwd, task.users, task.processes) == (str(tmp_path), 1, 1)
        assert info.disk_bytes == task.disk_bytes
        assert 2_900_000 < info.disk_bytes < 3_500_000


async def test_closing_tells_how_many_there_were_and_a_closed_fleet_says_so() -> None:
    fleet = Fleet("local", login=False)
    await fleet.get("a")
    await fleet.get("b")
    assert await fleet.close_task("c") is False
    assert await fleet.close(remove=True) == 2
    assert await fleet.close() == 0
    with pytest.raises(EnvironmentUnavailable, match="fleet was closed"):
        await fleet.get("a")
    assert leftovers() == []


async def test_a_failing_start_is_told_and_can_be_tried_again(tmp_path: Path) -> None:
    missing = tmp_path / "later"
    async with ended_fleet(cwd=missing) as fleet:
        for _ in range(2):
            with pytest.raises(InvalidArgument):
                await fleet.get("a")
        missing.mkdir()
        assert (await (await fleet.get("a")).run("pwd")).output == f"{missing}\n"


async def test_what_cannot_be_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="unknown environment kind"):
        Fleet("dokcer")
    with pytest.raises(ConfigError, match="no option"):
        Fleet("local", image="x")
    bad: list[tuple[str, Any]] = [
        ("warm", -1),
        ("starts", 0),
        ("idle", 0),
        ("idle", "x"),
        ("warm", True),
    ]
    for name, value in bad:
        with pytest.raises(InvalidArgument) as caught:
            Fleet("local", **{name: value})
        assert caught.value.argument == name
    async with Fleet("local") as fleet:
        with pytest.raises(ConfigError):
            await fleet.get("")


@pytest.mark.slow
async def test_a_hundred_opens_and_twenty_killed_callers_leave_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with TemporaryDirectory(prefix="hm-spool-", dir="/var/tmp") as spool:
        monkeypatch.setenv("HERMETIC_SPOOL_DIR", spool)
        async with ended_fleet(lease=0.3, unattended=0.3) as fleet:
            for turn in range(scale(100)):
                assert (await (await fleet.get(f"t{turn % 7}")).run("echo up")).output == "up\n"
                await fleet.close_task(f"t{turn % 7}", remove=True)
            for turn in range(scale(20)):
                with opener(f"killed-{turn}", "0.3") as caller:
                    assert caller.stdout is not None
                    assert caller.stdout.readline()
                    caller.kill()
        eventually(lambda: leftovers() == os.listdir(spool) == [])
