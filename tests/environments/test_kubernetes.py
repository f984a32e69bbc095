"""Pods of the real cluster: their life, their limits, and what is said where one does not come up."""

import asyncio
import base64
import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

import pytest

import hermetic
from hermetic.contract.environment import NewEnvironment
from hermetic.contract.errors import ConfigError, EnvironmentUnavailable
from hermetic.environments.clouds.hosted import ID
from hermetic.environments.containers.arguments import ROOT_CAPABILITIES
from hermetic.environments.kubernetes import Kubernetes
from hermetic.environments.pods.manifest import POOL
from hermetic.environments.pods.states import state_of
from hermetic.registry.records import new_id
from hermetic.session.keeping import record_of
from tests.docs.pages import blocks
from tests.environments.clusters import kubectl, need_cluster, pods, until
from tests.programs import need_root, need_variable

pytestmark = pytest.mark.slow


@pytest.fixture
def options() -> Iterator[dict[str, Any]]:
    """Options of a pod in the test cluster; no pod is left afterwards."""
    found = need_cluster()
    yield found
    assert not pods()


@pytest.fixture
def namespace() -> Iterator[str]:
    """A namespace of its own."""
    need_cluster()
    name = f"hermetic-{secrets.token_hex(4)}"
    kubectl("create", "namespace", name)
    yield name
    kubectl("delete", "namespace", name, "--wait=false")


async def test_a_pod_lives_as_long_as_its_environment(options: dict[str, Any]) -> None:
    async with hermetic.open("kubernetes", **options, env={"GIVEN": "1"}) as environment:
        result = await environment.run("cd /; echo $GIVEN; export SET=2")
        assert (result.output, result.exit_code) == ("1\n", 0)
        assert (
            await environment.run("echo $SET $PWD; cat /proc/1/comm")
        ).output == "2 /\nhermetic-reside\n"
        data = os.urandom(3 << 20)
        await environment.write_file("noise", data)
        assert await environment.read_bytes("noise") == data
        (pod,) = pods()
        assert pod["metadata"]["labels"][ID] == environment.id
    assert not pods()


async def test_another_caller_attaches_to_a_task(options: dict[str, Any]) -> None:
    task = secrets.token_hex(4)
    async with hermetic.open("kubernetes", task=task, **options) as first:
        await first.run("KEPT=1")
        second = await hermetic.attach(task)
        assert (await second.run("echo $KEPT")).output == "1\n"
        await second.close()
        await first.close(remove=True)


async def test_a_pod_is_hardened_and_keeps_no_secret(options: dict[str, Any]) -> None:
    given: dict[str, Any] = {"lifetime": 600, "cpu": 0.1, "memory_bytes": 256 << 20}
    async with hermetic.open(
        "kubernetes", **options, **given, env={"SECRET": "s3cr3t"}
    ) as environment:
        text = "ls /var/run/secrets 2>&1; grep -h NoNewPrivs /proc/self/status; cat /proc/1/cmdline"
        said = (await environment.run(text)).output
        assert "No such file" in said
        assert "NoNewPrivs:\t1" in said
        (pod,) = pods()
        (container,) = pod["spec"]["containers"]
        security = container["securityContext"]
        assert security["allowPrivilegeEscalation"] is False
        assert security["capabilities"] == {"drop": ["ALL"], "add": list(ROOT_CAPABILITIES)}
        assert pod["spec"]["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["spec"]["automountServiceAccountToken"] is False
        assert pod["spec"]["restartPolicy"] == "Never"
        assert pod["spec"]["activeDeadlineSeconds"] >= 600
        amounts = {"cpu": "100m", "memory": str(256 << 20)}
        assert container["resources"] == {"limits": amounts, "requests": amounts}
        assert "s3cr3t" not in str(pod)


async def test_a_user_of_ones_own_has_no_capabilities(options: dict[str, Any]) -> None:
    async with hermetic.open("kubernetes", **options, user=1234) as environment:
        said = (
            await environment.run("id -u; grep CapBnd /proc/self/status; cd && touch here && pwd")
        ).output
        assert said.split() == ["1234", "CapBnd:", "0" * 16, "/tmp"]


@pytest.mark.parametrize("image", ["nopython", "nobash"])
async def test_an_image_that_lacks_a_program_gets_the_portable_one(
    options: dict[str, Any], image: str
) -> None:
    given = {**options, "image": need_variable(f"IMAGE_{image.upper()}")}
    async with hermetic.open("kubernetes", **given) as environment:
        assert (await environment.info()).runtime.startswith("portable")
        assert (await environment.run("cat /proc/1/comm")).output == "hermetic-reside\n"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"image": "hermetic-test:none", "pull_policy": "Never"}, "is not on the node"),
        ({"image": "hermetic-test:none"}, "cannot be pulled.*ErrImagePull"),
        ({"image": "Not A Name"}, "the name of the image is not valid"),
        ({"cpu": 64}, "no node takes the pod.*Insufficient cpu"),
        ({"node_selector": {"disk": "none"}}, "no node takes the pod.*didn't match"),
        ({"runtime_class": "none"}, 'RuntimeClass "none" not found'),
        ({"service_account": "none"}, 'serviceaccount "none" not found'),
        ({"namespace": "none"}, 'namespaces "none" not found'),
        ({"volumes": {"/data": "none"}}, 'persistentvolumeclaim "none" not found'),
    ],
)
async def test_a_pod_that_cannot_come_up_fails_at_once_and_in_words(
    options: dict[str, Any], given: dict[str, Any], words: str
) -> None:
    async with asyncio.timeout(60):
        with pytest.raises(EnvironmentUnavailable, match=words):
            await hermetic.open("kubernetes", **{**options, **given})


async def test_a_namespace_without_quota_says_so(options: dict[str, Any], namespace: str) -> None:
    kubectl("create", "quota", "none", "--hard=pods=0", "--namespace", namespace)
    await until(
        lambda: (
            "pods"
            in kubectl("get", "quota", "none", "-n", namespace, "-o", "jsonpath={.status.hard}")
        )
    )
    with pytest.raises(EnvironmentUnavailable, match=r"its quota is used up.*exceeded quota"):
        await hermetic.open("kubernetes", **options, namespace=namespace)


async def test_an_unschedulable_pod_may_wait_for_a_node(options: dict[str, Any]) -> None:
    label = secrets.token_hex(4)
    opening = asyncio.ensure_future(
        # as while an autoscaler works
        _opened(**options, node_selector={"hermetic-test": label}, pending=60)
    )
    await until(lambda: bool(pods()))
    assert not opening.done()
    await asyncio.to_thread(
        kubectl, "label", "node", "node1", f"hermetic-test={label}", "--overwrite"
    )
    try:
        await opening
    finally:
        await asyncio.to_thread(kubectl, "label", "node", "node1", "hermetic-test-")


async def _opened(**options: Any) -> None:
    async with hermetic.open("kubernetes", **options):
        pass


async def test_no_network_needs_a_policy(options: dict[str, Any], namespace: str) -> None:
    with pytest.raises(ConfigError, match="needs a NetworkPolicy"):
        await hermetic.open("kubernetes", **options, namespace=namespace, network=False)


@pytest.fixture
def caller(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """Options of a pod for the service account of the documented manifest."""
    found = need_cluster()
    (manifest,) = (
        block.text for block in blocks("docs/how-to/run-on-kubernetes.md", "yaml", "What to apply")
    )
    kubectl("apply", "--filename", "-", given=manifest)
    try:
        settings = json.loads(kubectl("config", "view", "--raw", "--output", "json"))
        settings["users"][0]["user"] = {"token": secret_of("hermetic-caller")["token"]}
        (tmp_path / "kubeconfig").write_text(json.dumps(settings))
        yield {**found, "kubeconfig": str(tmp_path / "kubeconfig"), "namespace": "hermetic"}
        assert not pods(namespace="hermetic")
    finally:
        kubectl("delete", "--filename", "-", given=manifest)  # returns when it is gone


def secret_of(account: str) -> dict[str, str]:
    """The token and more of a service account, once the cluster has made it, and the default one."""
    words = ["get", "serviceaccounts", "--namespace", "hermetic", "--output", "json"]
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = {one["metadata"]["name"]: one for one in json.loads(kubectl(*words))["items"]}
        if all(found.get(name, {}).get("secrets") for name in (account, "default")):
            name = found[account]["secrets"][0]["name"]
            words = ["get", "secret", name, "--namespace", "hermetic", "--output", "json"]
            data = json.loads(kubectl(*words))["data"]
            return {name: base64.b64decode(value).decode() for name, value in data.items()}
        time.sleep(0.1)
    raise AssertionError(f"{account} has no token")


async def test_the_documented_manifest_allows_what_is_needed_and_no_more(
    caller: dict[str, Any],
) -> None:
    label = secrets.token_hex(4)
    given = {**caller, "pool": 1, "network": False, "labels": {"hermetic-test": label}}
    try:
        async with hermetic.open("kubernetes", **given) as environment:
            assert (await environment.run("echo on")).output == "on\n"
            await environment.write_file("kept", "kept")
            other = await hermetic.attach(environment.id)
            assert await other.read_file("kept") == "kept"
            await other.close()
            record = record_of(environment)
            assert not await Kubernetes(given).is_gone(record)
            (pod,) = pods(namespace="hermetic")
        await until(lambda: bool(running(f"hermetic-test={label},{POOL}", "hermetic")))
        (waiting,) = running(f"hermetic-test={label},{POOL}", "hermetic")
        async with hermetic.open("kubernetes", **given):  # takes the one that waits
            (taken,) = pods(namespace="hermetic")
            assert taken["metadata"]["name"] == waiting != pod["metadata"]["name"]
        with pytest.raises(EnvironmentUnavailable, match=r"it refuses the pod.*is forbidden"):
            await hermetic.open("kubernetes", **{**caller, "namespace": "default"})
        account = "--as=system:serviceaccount:hermetic:hermetic-caller"
        assert kubectl("auth", "can-i", "get", "nodes", account) == "yes\n"
        for forbidden in ("get secrets", "list secrets", "create deployments", "delete nodes"):
            words = ["auth", "can-i", *forbidden.split(), account, "-n", "hermetic"]
            with pytest.raises(AssertionError):  # kubectl fails where the answer is no
                kubectl(*words)
    finally:
        await asyncio.to_thread(
            kubectl,
            *("delete", "pods", "-n", "hermetic", "-l", f"hermetic-test={label}"),
            *("--wait=false", "--grace-period=0", "--force"),
        )


# Shows the files of a service account where a pod has them, and runs a program.
IN_A_POD = """\
mount -t tmpfs none /run && mkdir -p /run/secrets/kubernetes.io && cp -r "$1" /run/secrets/kubernetes.io/serviceaccount &&
shift && exec "$@"
"""


def test_a_caller_in_a_pod_uses_its_service_account(
    caller: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_root("only root can mount")
    account = tmp_path / "account"
    account.mkdir()
    for name, value in secret_of("hermetic-caller").items():
        (account / name).write_text(value)
    settings = json.loads(Path(caller["kubeconfig"]).read_text())
    server = urlsplit(settings["clusters"][0]["cluster"]["server"])
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", str(server.hostname))
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(server.port))
    words = ["unshare", "--mount", "sh", "-c", IN_A_POD, "sh", str(account), sys.executable, "-m"]
    words += ["hermetic", "run", "--env", "kubernetes", "-o", f"image={caller['image']}", "--"]
    done = subprocess.run(
        [*words, "echo", "in"], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout) == (0, "in\n"), done.stderr


async def test_a_cancelled_start_leaves_nothing(options: dict[str, Any]) -> None:
    opening = asyncio.ensure_future(_opened(**options))
    await until(lambda: bool(pods()) or opening.done())
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening


def running(selector: str, namespace: str = "default") -> list[str]:
    """The names of these pods that run."""
    found = pods(selector, namespace)
    return [pod["metadata"]["name"] for pod in found if state_of(pod).state == "running"]


async def test_warm_pods_are_taken_once_each(options: dict[str, Any]) -> None:
    given = {**options, "pool": 2, "labels": {"hermetic-test": secrets.token_hex(4)}}
    selector = f"hermetic-test={given['labels']['hermetic-test']}"

    def waiting() -> list[str]:
        return running(f"{selector},{POOL}")

    try:
        await _opened(**given)  # finds none, and fills the pool
        await until(lambda: len(waiting()) == 2)
        ahead = set(waiting())
        async with AsyncExitStack() as opened:
            both = [
                hermetic.open("kubernetes", **given, env={"N": str(number)}) for number in range(2)
            ]
            first, second = await asyncio.gather(*map(opened.enter_async_context, both))
            assert {pod["metadata"]["name"] for pod in pods()} == ahead
            assert ((await first.run("echo $N")).output, (await second.run("echo $N")).output) == (
                "0\n",
                "1\n",
            )
            await until(lambda: len(waiting()) == 2)
            assert not ahead & set(waiting())
    finally:
        await asyncio.to_thread(
            kubectl, "delete", "pods", "-l", selector, "--wait=false", "--grace-period=0", "--force"
        )


async def test_gc_deletes_a_pod_without_a_record(options: dict[str, Any], tmp_path: Path) -> None:
    backend = Kubernetes(options)
    await backend.start(
        NewEnvironment(id=new_id(), directory=str(tmp_path), spool=None, token=b"t" * 32, label="")
    )
    (pod,) = pods()
    said = await asyncio.to_thread(gc)
    assert f"kubernetes sandbox default/{pod['metadata']['name']}/" in said
    assert not pods()


async def test_gc_of_another_machine_deletes_only_what_is_left_of_ended_pods(
    options: dict[str, Any], tmp_path: Path
) -> None:
    async with AsyncExitStack() as opened:
        other = opened.enter_context(TemporaryDirectory(prefix="hm-", dir="/tmp"))
        elsewhere = {"HERMETIC_RUNTIME_DIR": other, "KUBECONFIG": options["kubeconfig"]}
        environment = await opened.enter_async_context(hermetic.open("kubernetes", **options))
        started = await Kubernetes(options).start(  # of which no janitor knows
            NewEnvironment(
                id=new_id(), directory=str(tmp_path), spool=None, token=b"t" * 32, label=""
            )
        )
        name = started.place["sandbox"].split("/")[1]
        await asyncio.to_thread(kubectl, "exec", name, "--", "sh", "-c", "kill 1")
        await until(lambda: name not in running(f"{ID}"))
        said = await asyncio.to_thread(gc, **elsewhere)
        assert f"default/{name}/" in said
        (living,) = pods()
        assert living["metadata"]["labels"][ID] == environment.id
        assert (await environment.run("echo on")).output == "on\n"


async def test_a_command_that_uses_more_memory_than_the_pod_has_is_told_so(
    options: dict[str, Any],
) -> None:
    async with hermetic.open("kubernetes", **options, memory_bytes=96 << 20) as environment:
        result = await environment.run("python3 -c 'print(len(bytes([1]) * (1 << 30)))'")
        assert isinstance(result.ending, hermetic.OutOfMemory), result
        assert (await environment.run("echo on")).output == "on\n"


def gc(**variables: str) -> str:
    """What `hermetic gc` prints."""
    words = [sys.executable, "-m", "hermetic", "gc"]
    done = subprocess.run(
        words,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        env={**os.environ, **variables},
    )
    return done.stdout
