"""Faults of the real cluster: commands end as lost with the reason, or go on; nothing is run twice,
nothing is left.
"""

import asyncio
import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hermetic
from tests.environments.clusters import kubectl, need_cluster, pods, until
from tests.leftovers import SERVERS, children_of
from tests.programs import need, need_variable

pytestmark = [pytest.mark.slow, pytest.mark.full, pytest.mark.alone]

START = Path(__file__).parents[2] / "scripts/engines/start-kubernetes.sh"
BOUND = 120.0  # seconds; the cluster counts a silent node as lost after 12


@pytest.fixture
def options() -> Iterator[dict[str, Any]]:
    """Options of a pod in the test cluster; no pod is left afterwards, and no container of one."""
    found = need_cluster()
    yield found
    deadline = time.monotonic() + BOUND
    while (left := [*pods(), *containers()]) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not left


def containers() -> list[str]:
    """The containers of all nodes: a kubelet removes them after it has deleted their pod."""
    found = []
    for engine in Path(need_variable("KUBERNETES_STATE")).glob("n*/s"):
        words = [need("docker"), "-H", f"unix://{engine}", "ps", "--quiet"]
        found += subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    return found


def kill(name: str) -> None:
    """Kills a daemon of the cluster."""
    pid = int(Path(need_variable("KUBERNETES_STATE"), f"{name}.id").read_text().split()[0])
    SERVERS.discard(pid)
    os.kill(pid, signal.SIGKILL)


def mend() -> None:
    """Starts again what was killed.

    Those daemons are then descendants of this process, and stay.
    """
    subprocess.run([START], check=True, capture_output=True, timeout=300)
    for path in Path(need_variable("KUBERNETES_STATE")).glob("*.id"):
        pid = int(path.read_text().split()[0])
        SERVERS.add(pid)
        for child in children_of(pid):
            with contextlib.suppress(FileNotFoundError):  # others end meanwhile
                if Path(f"/proc/{child}/comm").read_text() == "containerd\n":
                    SERVERS.add(child)


async def begun(environment: hermetic.Environment, command: str) -> "asyncio.Task[hermetic.Result]":
    """A command that runs."""
    ready = asyncio.Event()
    task = asyncio.ensure_future(
        environment.run(f"echo ready; {command}", on_output=lambda data: ready.set())
    )
    await ready.wait()
    return task


async def lost(task: "asyncio.Task[hermetic.Result]", *words: str) -> None:
    """The command ends as lost, in time, with one of the reasons."""
    async with asyncio.timeout(BOUND):
        result = await task
    assert isinstance(result.ending, hermetic.Lost), result
    assert any(word in result.ending.reason for word in words), result.ending


async def test_a_deleted_pod_loses_its_commands(options: dict[str, Any]) -> None:
    async with hermetic.open("kubernetes", **options) as environment:
        task = await begun(environment, "sleep 600")
        (pod,) = pods()
        await asyncio.to_thread(kubectl, "delete", "pod", pod["metadata"]["name"], "--wait=false")
        await lost(task, "is gone", "evicted")


async def test_an_evicted_pod_loses_its_commands(options: dict[str, Any]) -> None:
    async with hermetic.open("kubernetes", **options) as environment:
        task = await begun(environment, "sleep 600")
        (pod,) = pods()
        name = pod["metadata"]["name"]
        eviction = (
            '{"apiVersion": "policy/v1beta1", "kind": "Eviction", '
            f'"metadata": {{"name": "{name}", "namespace": "default"}}}}'
        )
        path = f"/api/v1/namespaces/default/pods/{name}/eviction"
        await asyncio.to_thread(kubectl, "create", "--raw", path, "-f", "-", given=eviction)
        await lost(task, "is gone", "evicted")


async def test_a_lifetime_that_is_over_loses_its_commands(options: dict[str, Any]) -> None:
    async with hermetic.open("kubernetes", **options, lifetime=60, startup=30) as environment:
        task = await begun(environment, "sleep 600")
        async with asyncio.timeout(BOUND + 120):
            result = await task
        assert isinstance(result.ending, hermetic.Lost), result
        assert (
            "lifetime is over" in result.ending.reason
            or "its time was over" in result.ending.reason
        )


async def test_a_restarted_api_server_costs_nothing(options: dict[str, Any]) -> None:
    async with hermetic.open("kubernetes", **options) as environment:
        counter = f"/tmp/{secrets.token_hex(4)}"
        task = await begun(environment, f"echo once >> {counter}; sleep 20; cat {counter}")
        kill("apiserver")
        try:
            await asyncio.to_thread(mend)
        finally:
            async with asyncio.timeout(BOUND):
                result = await task
        assert result.output == "ready\nonce\n"


async def test_a_lost_node_loses_its_commands(options: dict[str, Any]) -> None:
    chosen = {**options, "node_selector": {"kubernetes.io/hostname": "node2"}}
    try:
        async with hermetic.open("kubernetes", **chosen, lease=5, unattended=5) as environment:
            task = await begun(environment, "sleep 600")
            for name in ("kubelet2", "dockerd2"):
                kill(name)
            await lost(task, "node2 is lost")
    finally:
        await asyncio.to_thread(mend)


async def test_a_killed_kubelet_is_a_lost_node_for_new_streams(options: dict[str, Any]) -> None:
    chosen = {**options, "node_selector": {"kubernetes.io/hostname": "node2"}}
    try:
        async with hermetic.open("kubernetes", **chosen, lease=5, unattended=5) as environment:
            task = await begun(environment, "sleep 600")
            kill("kubelet2")  # the stream goes through it
            await lost(task, "node2 is lost")
    finally:
        await asyncio.to_thread(mend)


OPENER = """
import asyncio, json, sys, hermetic
async def main():
    await hermetic.open("kubernetes", lease=1, **json.loads(sys.argv[1]))
    print("open", flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""


async def test_a_killed_caller_leaves_no_pod_after_the_lease(options: dict[str, Any]) -> None:
    words = [sys.executable, "-c", OPENER, json.dumps(options)]
    opener = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
    assert opener.stdout is not None
    assert await opener.stdout.readline() == b"open\n"
    opener.kill()
    await opener.wait()
    await until(lambda: not pods(), BOUND)
