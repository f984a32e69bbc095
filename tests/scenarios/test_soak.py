"""Many of everything: no growth in processes, descriptors, threads; memory flat."""

import asyncio
import os
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import hermetic
from hermetic.contract.environment import EnvironmentInfo
from tests.environments.engines import eventually
from tests.sizes import scale


def below(pid: int) -> list[int]:
    """All that descends from a process, zombies included."""
    try:
        children = [
            int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        ]
    except FileNotFoundError:  # a copy that was on its way
        return []
    return [pid for child in children for pid in (child, *below(child))]


def rss(pid: int) -> int:
    """The memory of a process, in bytes; none once it is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()
    except (FileNotFoundError, ProcessLookupError):
        return 0


def largest_shell(resident: int) -> int:
    """The memory of the largest bash below a resident.

    A fork of the resident that is to become one is none yet.
    """
    shells = []
    for pid in below(resident):
        with suppress(FileNotFoundError, ProcessLookupError):
            if Path(f"/proc/{pid}/comm").read_text() == "bash\n":
                shells.append(rss(pid))
    return max(shells)


def of_the_caller() -> tuple[int, int]:
    """Descriptors and threads of this process."""
    return len(os.listdir("/proc/self/fd")), threading.active_count()


@contextmanager
def few_descriptors(soft: int) -> Iterator[None]:
    """What is started meanwhile inherits a soft limit that is soon reached."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


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
        for command in commands * max(40, scale(400)):  # fills its tables
            await env.run(command)
        before, callers, callers_memory = await env.info(), of_the_caller(), rss(os.getpid())
        descendants = below(before.pid)
        shells = largest_shell(before.pid)
        for i in range(scale(10_000)):
            result = await env.run(commands[i % len(commands)])
            assert result.exit_code is not None
        after = await env.info()
        assert after.descriptors is not None
        assert before.descriptors is not None
        assert abs(after.descriptors - before.descriptors) <= 6  # copies may be on their way
        assert abs(len(below(after.pid)) - len(descendants)) <= 6
        assert of_the_caller() == callers
        assert len(os.listdir(f"/proc/{after.pid}/task")) == 1
        assert memory(after) - memory(before) < 2 << 20
        # Shells nest and grow with every `exit`; an idle session moves to a fresh bash.
        await eventually(lambda: largest_shell(after.pid) - shells < 2 << 20)
        assert rss(os.getpid()) - callers_memory < 8 << 20
        assert int((await env.run("echo $X")).output) > 0


@pytest.mark.slow
async def test_five_hundred_background_processes_need_no_thread_each() -> None:
    with few_descriptors(256):  # 500 processes have two each
        env = await hermetic.open("local")
    async with env:
        assert (await env.run("ulimit -Sn")).output == "256\n"
        before = await env.info()
        processes = [await env.start(f"echo {i}; read x; echo $x") for i in range(500)]
        during = await env.info()
        assert len(os.listdir(f"/proc/{during.pid}/task")) == 1
        assert during.processes == before.processes + 500
        assert (memory(during) - memory(before)) / 500 < 64 * 1024
        soft_inside = await env.start("ulimit -Sn")
        await soft_inside.wait()
        assert (await soft_inside.read()).data == b"256\n"
        await asyncio.gather(
            *(process.submit(f"answer {i}") for i, process in enumerate(processes))
        )
        endings = await asyncio.gather(*(process.wait(timeout=60) for process in processes))
        assert set(endings) == {hermetic.Exited(0)}
        for i in (372, 499):  # the newest keep their output
            assert (await processes[i].read()).data == f"{i}\nanswer {i}\n".encode()


def page_faults(pid: int) -> int:
    """Pages that the kernel has mapped for a process without reading a disk."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[7])


async def test_large_answers_use_the_memory_of_earlier_ones() -> None:
    async with hermetic.open("local", login=False) as env:
        log = (await env.run("head -c 8000000 /dev/zero")).log
        resident = (await env.info()).pid

        async def read_all() -> int:
            before, offset = page_faults(resident), 0
            while not (chunk := await env.read_log(log, offset)).ended:
                offset = chunk.end
            return page_faults(resident) - before

        await read_all()
        # new memory for each answer would be 500 faults
        assert await read_all() < 200
