"""The kind `ray`: on three raylets with the real Ray at full size, and what is said where Ray is
not installed.
"""

import asyncio
import importlib.util
import os
import subprocess
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest

import hermetic
from hermetic.contract.errors import ConfigError, NotInstalled
from hermetic.fleet.opening import attach_environment
from hermetic.fleet.ray import RayBackend, RayFleet
from hermetic.fleet.ray import host as hosts
from hermetic.fleet.ray.cluster import Node
from hermetic.fleet.ray.host import Host, HostState
from hermetic.link import answers
from hermetic.session.keeping import link_of
from tests.clouds.vendors import installed
from tests.environments.engines import PODMAN, ask, need_engine
from tests.programs import need_variable

CASES = Path(__file__).with_name("ray_cases.py")


@pytest.mark.full
@pytest.mark.slow
def test_environments_on_three_raylets(tmp_path: Path) -> None:
    words = [
        "--noconftest",
        "-q",
        "-c",
        os.devnull,
        "-p",
        "no:cacheprovider",
        f"--rootdir={CASES.parent}",
    ]
    python = installed("ray")
    done = subprocess.run(
        [python, "-m", "pytest", *words, CASES],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]


async def test_without_ray_it_says_what_to_install() -> None:
    assert importlib.util.find_spec("ray") is None, "the environment of the tests has no Ray"
    with pytest.raises(NotInstalled, match=r"pip install 'hermetic\[ray\]'"):
        await hermetic.open("ray")
    finding = await RayBackend.doctor()
    assert (finding.state, "hermetic[ray]" in finding.advice) == ("missing", True)


def test_options_of_the_kind_inside_are_checked_here() -> None:
    with pytest.raises(ConfigError, match="'local' has no option 'imagee'"):
        RayFleet("local", imagee="x")
    with pytest.raises(ConfigError, match="ray cannot run inside ray"):
        RayBackend({"inside": "ray"})


async def test_a_short_lease_begins_with_the_callers_first_connection() -> None:
    host = Host("node", "127.0.0.1", 1)
    record, problem = await host.open("name", "local", {"login": False, "lease": 0.1}, b"t" * 32)
    assert record is not None, problem
    await asyncio.sleep(1)
    assert await host.is_living("name")
    assert await host.end("name")


async def test_a_stream_by_calls_ends_when_its_caller_makes_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hosts, "SILENCE", 2.0)
    monkeypatch.setattr(hosts, "PULL_SECONDS", 0.1)
    host = Host("node", "127.0.0.1", 1)  # the actor without Ray
    record, problem = await host.open("name", "local", {"login": False}, b"t" * 32)
    assert record is not None, problem
    kept, left = await host.connect("name"), await host.connect("name")
    async with asyncio.timeout(60):
        while await host.pull(kept) is not None:
            if left not in host.streams:
                break
    assert kept in host.streams
    assert not await host.push(left, b"x")
    await host.drop(kept)
    assert await host.end("name")


async def test_nothing_is_left_of_an_environment_that_its_caller_has_ended() -> None:
    """A caller ends the resident by its stream, then asks the host, which does not wait for the janitor."""
    host = Host("node", "127.0.0.1", 1)
    for _ in range(3):
        record, problem = await host.open("name", "local", {"login": False}, b"t" * 32)
        assert record is not None, problem
        environment = await attach_environment(str(record["task"]))
        link = link_of(environment)
        await link.ask("shutdown", answers.done)
        await link.wait_closed()
        await host.end("name")
        assert await host.names() == []
        await environment.close()


@pytest.mark.parametrize("engine", ["docker", PODMAN])
async def test_a_host_knows_the_images_of_its_engine(engine: str) -> None:
    need_engine(engine)
    host, image = Host("node", "127.0.0.1", 4), f"hermetic-test-placed-{os.getpid()}"
    assert await host.state(engine, {"image": image}) == HostState(free=4, has_image=False)
    ask(engine, ["tag", need_variable("IMAGE_SCRATCH"), image])
    try:
        assert not (await host.state(engine, {"image": image})).has_image  # by the last look
        assert (await Host("node", "127.0.0.1", 4).state(engine, {"image": image})).has_image
        record, problem = await host.open("name", engine, {"image": image}, b"t" * 32)
        assert record is not None, problem
        assert await host.state(engine, {"image": image}) == HostState(free=3, has_image=True)
        assert await host.end("name")
    finally:
        ask(engine, ["rmi", image])


async def test_a_host_knows_the_images_that_apptainer_need_not_build() -> None:
    host = Host("node", "127.0.0.1", 4)
    for image, is_there in (
        (need_variable("IMAGE_SCRATCH_SIF"), True),
        (need_variable("IMAGE_SCRATCH_TAR") + ".none", False),
        ("docker://none", False),
    ):
        assert (await host.state("apptainer", {"image": image})).has_image is is_there


class Actor:
    """A host as Ray shows it, with this state."""

    def __init__(self, state: HostState) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self._state, self.state = state, self

    async def remote(self, *arguments: Any) -> HostState:
        """The call of its only method."""
        self.asked.append(arguments)
        return self._state


class Actors:
    """A cluster of such hosts, by the ids of their nodes."""

    def __init__(self, **states: HostState) -> None:
        self.actors = {id: Actor(state) for id, state in states.items()}

    async def nodes(self) -> list[Node]:
        """As a cluster of Ray."""
        return [Node(id, "127.0.0.1", 8) for id in self.actors]

    async def host(self, node: Node) -> Actor:
        """As a cluster of Ray."""
        return self.actors[node.id]

    async def ask(self, what: Awaitable[HostState]) -> HostState:
        """As a cluster of Ray."""
        return await what


async def test_an_environment_goes_to_a_node_that_has_its_image_then_to_one_with_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    actors = Actors(
        full=HostState(0, True),
        has=HostState(1, True),
        much=HostState(8, False),
        some=HostState(2, False),
    )
    backend = RayBackend({"inside": "docker", "options": {"image": "x"}})
    monkeypatch.setattr(backend, "_cluster", actors)
    orders = [[node.id for node, _ in await backend._hosts()] for _ in range(200)]
    assert {order[0] for order in orders} == {"has"}
    assert {frozenset(order[1:]) for order in orders} == {frozenset(("much", "some"))}
    # by chance, weighed by room: callers at the same moment spread
    assert 100 < sum(order[1] == "much" for order in orders) < 200
    asked = [question for actor in actors.actors.values() for question in actor.asked]
    assert all((kind, options["image"]) == ("docker", "x") for kind, options in asked)
