"""Environments on three raylets; run by test_ray.py, with the Python of an environment that has
Ray.
"""

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))
from cutting import Proxy, check_cut  # type: ignore[import-not-found, unused-ignore]
from ray_cluster import SETTINGS, Raylets, raylets  # type: ignore[import-not-found, unused-ignore]

os.environ.update(SETTINGS)

import hermetic
from hermetic.fleet import reaching
from hermetic.fleet.ray import RayBackend, RayFleet, backend
from hermetic.fleet.ray.cluster import Cluster
from hermetic.fleet.ray.streams import by_tcp
from hermetic.session.keeping import record_of

SECONDS = 120.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Raylets]:
    """Three nodes, of which the last test kills one."""
    with raylets() as one:
        yield one


def run(what: Coroutine[Any, Any, None]) -> None:
    """Runs a test, with a bound."""

    async def bounded() -> None:
        async with asyncio.timeout(SECONDS):
            await what

    asyncio.run(bounded())


async def names(address: str) -> list[str]:
    """The environments of all hosts."""
    ray = Cluster(address, "hermetic")
    found = []
    for node in await ray.nodes():
        found += await ray.ask((await ray.host(node)).names.remote())
    return found


async def until(is_so: Callable[[], Coroutine[Any, Any, bool]]) -> None:
    """Waits for something that the cluster does."""
    while not await is_so():  # noqa: ASYNC110  # objects of another program
        await asyncio.sleep(0.2)


async def begun(environment: hermetic.Environment, command: str) -> "asyncio.Task[hermetic.Result]":
    """A command that runs."""
    task = asyncio.ensure_future(environment.run(command))
    process = None
    while process is None:
        process = next(iter(await environment.processes()), None)
        await asyncio.sleep(0.05)
    return task


@pytest.mark.parametrize("stream", ["tcp", "calls"])
def test_bytes_pass_both_ways(cluster: Raylets, stream: str) -> None:
    async def it() -> None:
        async with hermetic.open("ray", address=cluster.address, stream=stream) as environment:
            data = os.urandom(3 << 20)
            path = f"/tmp/hermetic-ray-{os.getpid()}"
            await environment.write_file(path, data)
            assert await environment.read_bytes(path) == data
            await environment.run(f"rm {path}")
        assert await names(cluster.address) == []

    run(it())


def test_a_fleet_spreads_over_the_nodes(cluster: Raylets) -> None:
    async def where(environment: hermetic.Environment, item: int) -> str:
        assert (await environment.run(f"echo {item}")).output == f"{item}\n"
        return record_of(environment).place["address"]

    async def it() -> None:
        async with RayFleet(address=cluster.address, pending=60) as fleet:
            mapped = await fleet.map(where, range(40), limit=16)
            assert len(mapped.values) == 40
            assert set(mapped.values) == {"127.0.0.2", "127.0.0.3", "127.0.0.4"}
        assert await names(cluster.address) == []

    run(it())


def test_no_free_unit_is_said(cluster: Raylets) -> None:
    async def it() -> None:
        opened = [await hermetic.open("ray", address=cluster.address) for _ in range(24)]
        with pytest.raises(
            hermetic.EnvironmentUnavailable, match=r"none of .* nodes has a free unit"
        ):
            await hermetic.open("ray", address=cluster.address)
        await asyncio.gather(*(environment.close() for environment in opened))

    run(it())


def test_a_restarted_actor_adopts_what_lives(cluster: Raylets) -> None:
    async def it() -> None:
        import ray  # type: ignore[import-not-found, unused-ignore]

        async with hermetic.open("ray", address=cluster.address, env={"KEPT": "1"}) as environment:
            record = record_of(environment)
            running = await begun(environment, "sleep 4; echo done $KEPT")
            actor = await asyncio.to_thread(
                ray.get_actor, f"host/{record.place['node']}", "hermetic"
            )
            await asyncio.to_thread(ray.kill, actor, no_restart=False)
            result = await running
            assert result.output == "done 1\n"
            assert record.place["name"] in await names(cluster.address)
        assert await names(cluster.address) == []

    run(it())


def test_a_cut_network_is_noticed_at_both_ends_and_costs_nothing(
    cluster: Raylets, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def it() -> None:
        async with Proxies() as proxies:
            monkeypatch.setattr(backend, "by_tcp", proxies.by_tcp)
            async with hermetic.open("ray", address=cluster.address) as environment:
                await check_cut(environment, proxies.cut, 60)

    monkeypatch.setattr(reaching, "SILENCE", 3.0)
    monkeypatch.setattr(RayBackend, "answers_within", 1.0)
    run(it())


class Proxies(AsyncExitStack):
    """Streams by TCP that pass a proxy each."""

    def __init__(self) -> None:
        super().__init__()
        self._made: list[Any] = []

    async def by_tcp(self, address: str, port: int, ticket: bytes, seconds: float) -> socket.socket:
        """As the real one."""
        proxy = await self.enter_async_context(Proxy(address, port))
        self._made.append(proxy)
        return await by_tcp("127.0.0.1", proxy.port, ticket, seconds)

    def cut(self) -> None:
        """Cuts the connections that there are."""
        for proxy in self._made:
            proxy.cut()


def test_a_killed_caller_leaves_nothing_after_the_lease(cluster: Raylets) -> None:
    code = (
        "import asyncio, hermetic\n"
        "async def main():\n"
        f"    environment = await hermetic.open('ray', address={cluster.address!r}, lease=1)\n"
        "    print('open', flush=True)\n"
        "    await asyncio.sleep(600)\n"
        "asyncio.run(main())\n"
    )

    async def it() -> None:
        assert await names(cluster.address) != []

        async def are_gone() -> bool:
            return await names(cluster.address) == []

        opener.kill()
        await until(are_gone)

    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True
    ) as opener:
        assert opener.stdout is not None
        assert opener.stdout.readline() == "open\n"
        run(it())


def test_a_dead_node_costs_what_ran_there(cluster: Raylets) -> None:
    async def it() -> None:
        opened = [
            await hermetic.open("ray", address=cluster.address, lease=5, unattended=5)
            for _ in range(12)
        ]
        places = [record_of(environment).place["address"] for environment in opened]
        assert {"127.0.0.3"} < set(places)
        running = [await begun(environment, "sleep 30; echo done") for environment in opened]
        began = time.monotonic()
        await asyncio.to_thread(cluster.kill, "127.0.0.3")
        for place, task in zip(places, running, strict=True):
            if place == "127.0.0.3":
                result = await task
                assert isinstance(result.ending, hermetic.Lost)
                assert "127.0.0.3 is dead" in result.ending.reason
        print(f"lost within {time.monotonic() - began:.0f} s")
        for place, task in zip(places, running, strict=True):
            if place != "127.0.0.3":
                assert (await task).output == "done\n"
        async with hermetic.open("ray", address=cluster.address) as environment:
            assert record_of(environment).place["address"] != "127.0.0.3"
        await asyncio.gather(*(environment.close() for environment in opened))

    run(it())


def test_a_cluster_that_is_gone_is_said_at_once() -> None:
    code = (
        "import asyncio, hermetic\n"
        "async def main():\n"
        "    try:\n"
        "        await hermetic.open('ray', address='127.0.0.2:1')\n"
        "    except hermetic.Unreachable as error:\n"
        "        print(error)\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "no cluster answers at 127.0.0.2:1" in done.stdout
