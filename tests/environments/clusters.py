"""The Kubernetes cluster that scripts/engines/up has started, as tests look at it from outside, and a
stand-in for another one.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hermetic.environments.clouds.hosted import ROOT
from hermetic.registry.records import runtime_root, tag_of
from tests.programs import need, need_variable
from tests.sizes import is_full

SECONDS, STARTUP = 120.0, 30.0
SERVER = Path(__file__).with_name("api_server.py")


def need_cluster() -> dict[str, Any]:
    """The options of a pod in the test cluster; ends the calling test where there is none."""
    return {"kubeconfig": kubeconfig(), "image": need_variable("IMAGE_BASE")}


def kubeconfig() -> str:
    """Path of the cluster's configuration.

    Kubernetes takes minutes to build, so only `./test --full` must have it.
    """
    if not is_full() and not os.environ.get("TEST_KUBECONFIG"):
        pytest.skip(
            "no Kubernetes runs here; ./test --full and scripts/engines/up kubernetes build it from source"
        )
    return need_variable("TEST_KUBECONFIG")


def kubectl(*words: str, given: str | None = None) -> str:
    """What kubectl answers. Raises CalledProcessError."""
    whole = [need("kubectl"), "--kubeconfig", kubeconfig(), *words]
    done = subprocess.run(
        whole, input=given, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def pods(selector: str = "", namespace: str = "default") -> list[Any]:
    """The pods of this run of the tests, as objects."""
    own = f"{ROOT}={tag_of(runtime_root())}"
    words = [
        "get",
        "pods",
        "--namespace",
        namespace,
        "--output",
        "json",
        "--selector",
        selector or own,
    ]
    found: list[Any] = json.loads(kubectl(*words))["items"]
    return found


async def until(is_so: Callable[[], bool], seconds: float = SECONDS) -> None:
    """Waits for something that the cluster does; fails after these seconds."""
    async with asyncio.timeout(seconds):
        while not await asyncio.to_thread(is_so):  # noqa: ASYNC110  another program's objects
            await asyncio.sleep(0.1)


class Standin:
    """A stand-in that runs."""

    def __init__(self, at: Path, port: int) -> None:
        self._at = at
        self.kubeconfig = at / "kubeconfig"
        settings = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "s", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
            "users": [{"name": "s", "user": {}}],
            "contexts": [{"name": "s", "context": {"cluster": "s", "user": "s"}}],
            "current-context": "s",
        }
        self.kubeconfig.write_text(json.dumps(settings))
        self.options: dict[str, Any] = {
            "kubeconfig": str(self.kubeconfig),
            "login": False,
            "startup": STARTUP,
        }

    def objects(self, kind: str) -> list[Any]:
        """The objects of a kind that there are."""
        try:
            found = json.loads((self._at / "objects").read_text())
        except FileNotFoundError:
            return []
        return [one for path, one in found.items() if f"/{kind}/" in path]


@contextmanager
def standin(at: Path, **settings: Any) -> Iterator[Standin]:
    """One that runs for a block, after which it has no pod and no claim."""
    words = [sys.executable, str(SERVER), str(at)]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(settings) + "\n")
            process.stdin.flush()
            made = Standin(at, int(process.stdout.readline()))
            yield made
            assert made.objects("pods") == made.objects("sandboxclaims") == []
        finally:
            process.stdin.close()
            process.wait(SECONDS)
