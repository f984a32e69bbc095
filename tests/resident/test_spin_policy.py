"""When a resident looks instead of sleeping."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import hermetic
from hermetic.resident.life.loop import SpinPolicy
from hermetic.resident.limits import SPIN, SPIN_BETWEEN
from tests.programs import need_variable, unavailable

BUSY = "import os\nos.sched_setaffinity(0, {%d})\nprint(flush=True)\nwhile True: pass"


@pytest.fixture
def spin_policy() -> SpinPolicy:
    if len(os.sched_getaffinity(0)) < 2:
        unavailable(
            "one processor: nobody looks instead of sleeping there; run the tests on a machine with two"
        )
    return SpinPolicy()


@contextmanager
def crowded() -> Iterator[None]:
    """We and a program that never rests have one processor together."""
    before = os.sched_getaffinity(0)
    processor = min(before)
    program = subprocess.Popen([sys.executable, "-c", BUSY % processor], stdout=subprocess.PIPE)
    assert program.stdout is not None
    try:
        program.stdout.readline()
        os.sched_setaffinity(0, {processor})
        yield
    finally:
        os.sched_setaffinity(0, before)
        program.kill()
        program.communicate()


def looks(spin_policy: SpinPolicy) -> float:
    """How long it goes on looking, in seconds."""
    began = time.monotonic()
    while spin_policy.until and spin_policy.keeps_spinning():
        pass
    return time.monotonic() - began


def test_an_answer_is_looked_for_a_moment(spin_policy: SpinPolicy) -> None:
    began = time.monotonic()
    spin_policy.expect_answer()
    looks(spin_policy)
    assert time.monotonic() - began >= SPIN
    assert not spin_policy.keeps_spinning()


def test_who_thinks_before_asking_again_is_not_waited_for(spin_policy: SpinPolicy) -> None:
    for _ in range(2):
        spin_policy.expect_answer()
        spin_policy.expect_request()
        assert spin_policy.until == 0
        time.sleep(SPIN_BETWEEN)


def test_who_asks_again_at_once_is_waited_for(spin_policy: SpinPolicy) -> None:
    spin_policy.expect_request()
    spin_policy.expect_answer()
    spin_policy.expect_request()
    assert 0 < spin_policy.until - time.monotonic() <= SPIN_BETWEEN


def test_not_where_somebody_else_wants_the_processor(spin_policy: SpinPolicy) -> None:
    spin_policy.expect_request()
    spin_policy.expect_answer()
    with crowded():
        spin_policy.expect_request()
        spin_policy.until += 30
        assert looks(spin_policy) < 10


def test_not_where_a_cgroup_allows_too_little(
    spin_policy: SpinPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hermetic.resident.life.loop.processors", lambda: 1.0)
    limited = SpinPolicy()
    for each in (spin_policy, limited):
        each.expect_request()
        each.expect_answer()
        each.expect_request()
    assert spin_policy.until > 0
    assert limited.until == 0


async def test_a_row_of_commands_in_a_container_leaves_it_its_share() -> None:
    """Whoever has used up a share of half a processor stands still, and what it runs with it."""
    need_variable("DOCKER_HOST")
    image = need_variable("IMAGE_BASE")
    said = "cat /sys/fs/cgroup/cpu.stat /sys/fs/cgroup/cpu/cpu.stat 2>/dev/null"
    async with (
        asyncio.timeout(120),
        hermetic.open("docker", image=image, cpu=0.5, login=False) as env,
    ):
        for _ in range(3):  # whoever else is busy here may cost a period or two
            before = throttled((await env.run(said)).output)
            for _ in range(250):
                await env.run("true")
                await asyncio.sleep(0.002)
            periods = throttled((await env.run(said)).output) - before
            if periods < 3:
                break
        assert periods < 3


def throttled(told: str) -> int:
    """For how many periods a cgroup has stood still."""
    return int(dict(line.split() for line in told.splitlines())["nr_throttled"])


async def test_output_is_taken_in_while_other_commands_come_without_a_pause() -> None:
    async with asyncio.timeout(60), hermetic.open("local", login=False) as env:
        printing = asyncio.create_task(
            env.session("printing").run("head -c 1000000 /dev/zero | tr '\\0' x")
        )
        while not printing.done():
            await env.run("true")
        assert len(printing.result().output) == 1_000_000
