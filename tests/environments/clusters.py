"""The Kubernetes cluster that scripts/engines/up has started, as tests look at it from outside."""

import asyncio
import json
import os
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from hermetic.environments.clouds.backend import ROOT
from hermetic.registry.records import runtime_root, tag_of
from tests.programs import need, need_variable
from tests.sizes import is_full

SECONDS = 120.0


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
