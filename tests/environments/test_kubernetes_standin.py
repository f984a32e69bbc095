"""What the real Kubernetes 1.20 of the tests lacks, on a stand-in for the API server: version 5 of the
exec protocol, runtime classes, and claims of agent-sandbox.
"""

import asyncio
import json
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hermetic
from hermetic.contract.environment import NewEnvironment
from hermetic.contract.errors import ConfigError, EnvironmentUnavailable
from hermetic.environments.kubernetes import Kubernetes
from hermetic.environments.pods.api import connected
from hermetic.environments.pods.manifest import POOL
from hermetic.registry.records import new_id
from tests.cli.program import as_json, eventually, running
from tests.environments.clusters import Standin, standin, until
from tests.environments.test_kubernetes import gc
from tests.fleet.test_batch import results_of, write_tasks

pytestmark = pytest.mark.slow

V5, V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"
SECONDS = 60.0


@pytest.fixture(
    params=[pytest.param((V5, V4), id="v5"), pytest.param((V4,), id="v4", marks=pytest.mark.full)]
)
def protocols(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Standin, str]]:
    """A server that speaks both versions, and one before 1.30."""
    with standin(tmp_path, protocols=request.param) as server:
        yield server, request.param[0]


async def test_bytes_pass_both_ways_by_the_newest_protocol(
    protocols: tuple[Standin, str],
) -> None:
    server, _ = protocols
    async with hermetic.open("kubernetes", image="x", **server.options) as environment:
        data = os.urandom(3 << 20)
        path = f"/tmp/hermetic-{secrets.token_hex(4)}"
        await environment.write_file(path, data)
        assert await environment.read_bytes(path) == data
        assert (await environment.run(f"rm {path}; exit 3")).exit_code == 3


async def test_an_exec_has_output_errors_and_an_exit_code(protocols: tuple[Standin, str]) -> None:
    server, version = protocols
    async with hermetic.open("kubernetes", image="x", **server.options):
        (pod,) = server.objects("pods")
        async with connected(str(server.kubeconfig), None, None) as cluster:
            words = ["sh", "-c", "head -c 3; echo wrong >&2; exit 7"]
            stream = await cluster.stream("exec", pod["metadata"]["name"], "main", words)
            await stream.write(b"abc")
            assert await stream.read() == b"abc"
            assert await stream.read() == b""
            assert (stream.exit_code, stream.errors) == (7, b"wrong\n")
            assert stream.protocol == version
            await stream.close()


async def test_the_input_of_an_exec_ends_with_its_connection(
    protocols: tuple[Standin, str], tmp_path: Path
) -> None:
    server, _ = protocols
    async with hermetic.open("kubernetes", image="x", **server.options):
        (pod,) = server.objects("pods")
        async with connected(str(server.kubeconfig), None, None) as cluster:
            words = ["sh", "-c", f"cat; touch {tmp_path}/ended"]
            stream = await cluster.stream("exec", pod["metadata"]["name"], "main", words)
            await stream.write(b"x")
            assert await stream.read() == b"x"
            await stream.close()
        await until((tmp_path / "ended").exists)


async def test_requests_that_a_busy_server_puts_off_are_made_again(tmp_path: Path) -> None:
    with standin(tmp_path, puts_off=2) as server:
        given: dict[str, Any] = {**server.options, "image": "x", "pool": 1}
        async with hermetic.open("kubernetes", **given) as environment:
            assert (await environment.run("echo on")).output == "on\n"
        await end_waiting(server, 1)


async def end_waiting(server: Standin, count: int) -> None:
    """Deletes the pods of a pool, of which there are so many."""
    waiting = [pod for pod in server.objects("pods") if POOL in pod["metadata"]["labels"]]
    async with connected(str(server.kubeconfig), None, None) as cluster:
        for pod in waiting:
            await cluster.request("DELETE", cluster.path("pods", pod["metadata"]["name"]))
    assert len(waiting) == count


async def test_openings_at_the_same_time_fill_a_pool_once(tmp_path: Path) -> None:
    with standin(tmp_path) as server:
        given: dict[str, Any] = {**server.options, "image": "x", "pool": 2}
        await asyncio.gather(*(_opened(**given) for _ in range(5)))
        await end_waiting(server, 2)


def test_a_batch_in_pods_continues_after_its_caller_was_killed(tmp_path: Path) -> None:
    ran, go = tmp_path / "ran", tmp_path / "go"
    command = f"echo x >> {ran}; while [ ! -e {go} ]; do sleep 0.1; done; echo done"
    tasks = write_tasks(tmp_path, [{"id": f"t{n}", "command": command} for n in range(3)])
    (at := tmp_path / "api").mkdir()
    with standin(at) as server:
        options = {**server.options, "image": "x"}
        given = [
            word
            for name, value in options.items()
            for word in ("-o", f"{name}={json.dumps(value)}")
        ]
        words = ("fleet", "run", "--tasks", tasks, "--env", "kubernetes", *given)
        with running(*words) as caller:
            eventually(lambda: ran.exists() and len(ran.read_text().split()) == 3, SECONDS)
            caller.kill()
            caller.wait(SECONDS)
        go.touch()
        summary = as_json(*words)
        assert (summary["passed"], summary["adopted"], summary["lost"]) == (3, 3, 0)
        assert ran.read_text().split() == ["x"] * 3
        assert [entry["output"] for entry in results_of(tasks)] == ["done\n"] * 3


async def test_a_runtime_class_is_a_request_to_the_cluster(tmp_path: Path) -> None:
    with standin(tmp_path, runtime_classes=["gvisor"]) as server:
        given = {**server.options, "image": "x"}
        async with hermetic.open("kubernetes", **given, runtime_class="gvisor") as environment:
            (pod,) = server.objects("pods")
            assert pod["spec"]["runtimeClassName"] == "gvisor"
            assert not any("shares the kernel" in note for note in environment.isolation.notes)
        with pytest.raises(EnvironmentUnavailable, match='RuntimeClass "kata" not found'):
            await hermetic.open("kubernetes", **given, runtime_class="kata")


@pytest.fixture
def pools(tmp_path: Path) -> Iterator[Standin]:
    """A cluster with agent-sandbox and a pool."""
    with standin(tmp_path, pools={"python": "x", "bare": "nopython"}) as server:
        yield server


async def test_a_claim_gives_a_pod_of_the_pool_and_ends_it(pools: Standin) -> None:
    given: dict[str, Any] = {**pools.options, "claim": "python", "env": {"GIVEN": "1"}}
    async with hermetic.open("kubernetes", **given, lifetime=600) as environment:
        assert (await environment.run("echo $GIVEN; cat /proc/$PPID/comm")).exit_code == 0
        (claim,) = pools.objects("sandboxclaims")
        assert claim["spec"]["warmPoolRef"] == {"name": "python"}
        assert claim["spec"]["lifecycle"]["shutdownPolicy"] == "Delete"
        assert "env" not in claim["spec"]  # it would forbid a warm pod
        assert claim["metadata"]["labels"]["hermetic-id"] == environment.id
        assert any("the template of python" in note for note in environment.isolation.notes)
        other = await hermetic.attach(environment.id)
        assert (await other.run("echo on")).output == "on\n"
        await other.close()


async def test_a_claimed_pod_without_python_gets_the_portable_one(pools: Standin) -> None:
    async with hermetic.open("kubernetes", **pools.options, claim="bare") as environment:
        assert (await environment.info()).runtime.startswith("portable")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"claim": "none"}, 'WarmPoolNotFound: SandboxWarmPool "none" not found'),
        ({"claim": "python", "image": "x"}, "as its template makes it; leave out image"),
        ({"claim": "python", "runtime_class": "gvisor"}, "leave out runtime_class"),
    ],
)
async def test_a_claim_that_cannot_be_says_why(
    pools: Standin, given: dict[str, Any], words: str
) -> None:
    with pytest.raises((EnvironmentUnavailable, ConfigError), match=words):
        await hermetic.open("kubernetes", **pools.options, **given)


async def test_without_agent_sandbox_a_claim_says_what_to_install(tmp_path: Path) -> None:
    with (
        standin(tmp_path) as server,
        pytest.raises(EnvironmentUnavailable, match="install agent-sandbox"),
    ):
        await hermetic.open("kubernetes", **server.options, claim="python")


async def test_a_claimed_pod_that_is_gone_loses_its_commands_and_its_claim(pools: Standin) -> None:
    async with hermetic.open("kubernetes", **pools.options, claim="python") as environment:
        ready = asyncio.Event()
        running = asyncio.ensure_future(
            environment.run("echo ready; sleep 600", on_output=lambda data: ready.set())
        )
        await ready.wait()
        (pod,) = pools.objects("pods")
        async with connected(str(pools.kubeconfig), None, None) as cluster:
            await cluster.request("DELETE", cluster.path("pods", pod["metadata"]["name"]))
        async with asyncio.timeout(SECONDS):
            result = await running
        assert isinstance(result.ending, hermetic.Lost)
        assert "is gone" in result.ending.reason
    await until(lambda: pools.objects("sandboxclaims") == [])


async def test_a_cancelled_claim_is_deleted(tmp_path: Path) -> None:
    with standin(tmp_path, pools={"python": "x"}, binding=600) as server:
        opening = asyncio.ensure_future(_opened(**server.options, claim="python"))
        await until(lambda: bool(server.objects("sandboxclaims")))
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening


async def _opened(**options: Any) -> None:
    async with hermetic.open("kubernetes", **options) as environment:
        await environment.run("true")


async def test_gc_deletes_a_claim_without_a_record(pools: Standin, tmp_path: Path) -> None:
    backend = Kubernetes({**pools.options, "claim": "python"})
    await backend.start(
        NewEnvironment(id=new_id(), directory=str(tmp_path), spool=None, token=b"t" * 32, label="")
    )
    (claim,) = pools.objects("sandboxclaims")
    assert claim["metadata"]["name"] in await asyncio.to_thread(gc)
    assert pools.objects("pods") == []
