"""The two clocks: an environment that nobody attends ends by itself, and not before."""

import asyncio
import os
import socket
import subprocess
import sys

import pytest

import hermetic
from hermetic.environments import unix_socket
from hermetic.environments.unix_socket import is_listened_in
from hermetic.registry.host_process import ended as gone
from hermetic.registry.records import runtime_root
from tests.scenarios.living import with_argument

OPENER = """
import asyncio, sys, hermetic
async def main():
    env = await hermetic.open("local", task=sys.argv[1], lease=float(sys.argv[2]), unattended=float(sys.argv[3]))
    await env.run(sys.argv[4])
    info = await env.info()
    print(info.pid, info.guardian, flush=True)
asyncio.run(main())
"""


def open_and_leave(task: str, lease: float, unattended: float, command: str) -> tuple[int, int]:
    """Opens an environment in another process that ends at once; returns the pids of resident and
    guardian.
    """
    said = subprocess.run(
        [sys.executable, "-c", OPENER, task, str(lease), str(unattended), command],
        stdout=subprocess.PIPE,
        check=True,
        timeout=60,
    )
    resident, guardian = map(int, said.stdout.split())
    return resident, guardian


async def test_with_nobody_attached_and_nothing_running_the_lease_ends_it() -> None:
    resident, guardian = open_and_leave(f"lease-{os.getpid()}", 0.3, 600, "true")
    async with asyncio.timeout(30):
        await gone(resident)
        await gone(guardian)


async def test_what_runs_in_the_background_outlives_the_lease() -> None:
    odd = f"9{os.getpid()}.25"
    task = f"unattended-{os.getpid()}"
    resident, _ = open_and_leave(task, 0.1, 600, f"sleep {odd} >/dev/null &")
    ended = asyncio.create_task(gone(resident))
    done, _ = await asyncio.wait([ended], timeout=0.7)
    assert done == set(), "it ended with its lease though something ran"
    assert with_argument(odd) != []
    await (await hermetic.attach(task)).close(remove=True)
    async with asyncio.timeout(30):
        await ended
    assert with_argument(odd) == []


async def test_what_runs_in_the_background_ends_with_the_second_clock() -> None:
    odd = f"9{os.getpid()}.75"
    resident, guardian = open_and_leave(
        f"second-{os.getpid()}", 0.1, 1, f"sleep {odd} >/dev/null &"
    )
    async with asyncio.timeout(30):
        await gone(resident)
        await gone(guardian)
    assert with_argument(odd) == []


async def test_an_attached_caller_stops_both_clocks() -> None:
    async with hermetic.open(
        "local", task=f"attended-{os.getpid()}", lease=0.1, unattended=0.1
    ) as env:
        resident = (await env.info()).pid
        ended = asyncio.create_task(gone(resident))
        done, _ = await asyncio.wait([ended], timeout=0.6)
        assert done == set()
    async with asyncio.timeout(30):
        await ended


async def test_a_lease_waits_for_a_slow_opener(monkeypatch: pytest.MonkeyPatch) -> None:
    async def late(path: str) -> socket.socket:
        await asyncio.sleep(1)  # it is slow
        return await connect(path)

    connect = unix_socket.connect
    monkeypatch.setattr(unix_socket, "connect", late)
    async with hermetic.open("local", task=f"slow-{os.getpid()}", lease=0.1, login=False) as env:
        assert (await env.run("echo there")).output == "there\n"
        await env.close(remove=True)


async def test_looking_for_a_listener_does_not_prolong_the_lease() -> None:
    async with hermetic.open(
        "local", task=f"looked-at-{os.getpid()}", lease=1.0, login=False
    ) as env:
        directory = runtime_root() / env.id
    async with asyncio.timeout(30):
        while await is_listened_in(directory):  # noqa: ASYNC110 (looking is what is tested)
            await asyncio.sleep(0.05)
