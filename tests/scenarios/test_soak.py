"""Many of everything: no growth in processes, descriptors, threads; memory flat."""

import asyncio
import os
from pathlib import Path

import pytest

import hermetic
from hermetic.contract.environment import EnvironmentInfo
from tests.sizes import scale


def tree_size(pid: int) -> int:
    """Direct children of a process, zombies included."""
    return len(Path(f"/proc/{pid}/task/{pid}/children").read_text().split())


def memory(info: EnvironmentInfo) -> int:
    assert info.rss is not None
    return info.rss


@pytest.mark.slow
async def test_ten_thousand_commands_leave_the_resident_as_it_was() -> None:
    async with hermetic.open("local") as env:
        commands = (
            "true",
            "X=$((X + 1))",
            "echo $X; /bin/true",
            "exit 3",
            "sleep 0 & echo $!",
            "cd /tmp; cd - >/dev/null",
            "nosuch",
        )
        for command in commands * 40:
            await env.run(command)
        before = await env.info()
        children = tree_size(before.pid)
        for i in range(scale(10_000)):
            result = await env.run(commands[i % len(commands)])
            assert result.exit_code is not None
        after = await env.info()
        assert after.descriptors is not None
        assert before.descriptors is not None
        assert abs(after.descriptors - before.descriptors) <= 6  # copies may be on their way
        assert abs(tree_size(after.pid) - children) <= 6
        assert len(os.listdir(f"/proc/{after.pid}/task")) == 1
        assert memory(after) - memory(before) < 2 << 20
        assert int((await env.run("echo $X")).output) > 0


@pytest.mark.slow
async def test_five_hundred_background_processes_need_no_thread_each() -> None:
    async with hermetic.open("local") as env:
        soft_outside = (await env.run("ulimit -Sn")).output
        before = await env.info()
        processes = [await env.start(f"echo {i}; read x; echo $x") for i in range(500)]
        during = await env.info()
        assert len(os.listdir(f"/proc/{during.pid}/task")) == 1
        assert during.processes == before.processes + 500
        assert (memory(during) - memory(before)) / 500 < 64 * 1024
        soft_inside = await env.start("ulimit -Sn")
        await soft_inside.wait()
        assert (await soft_inside.read()).data.decode() == soft_outside
        await asyncio.gather(*(process.submit(f"answer {i}") for i, process in enumerate(processes)))
        endings = await asyncio.gather(*(process.wait(timeout=60) for process in processes))
        assert set(endings) == {hermetic.Exited(0)}
        for i in (372, 499):  # the newest keep their output
            assert (await processes[i].read()).data == f"{i}\nanswer {i}\n".encode()
