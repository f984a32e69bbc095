"""A network that is cut without a close: the link and the end there both notice it within a bound.

For ssh this is in tests/scenarios/test_ssh_breaks.py, for Modal and Daytona in tests/clouds, for Ray in
tests/fleet.
"""

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import hermetic
from hermetic.environments.clouds.hosted import HostedBackend
from hermetic.environments.slurm import Slurm
from hermetic.fleet import reaching
from tests.cutting import Proxy, check_cut
from tests.environments.clusters import kubectl, need_cluster, standin
from tests.environments.slurm_cluster import jobs, need_slurm

pytestmark = pytest.mark.slow

SILENT = 3.0  # seconds, in place of 30 and 60
BOUND = 60.0


@pytest.fixture(autouse=True)
def short_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Silence is noticed sooner."""
    monkeypatch.setattr(HostedBackend, "silence", SILENT)
    monkeypatch.setattr(reaching, "SILENCE", SILENT)
    monkeypatch.setattr(Slurm, "answers_within", SILENT / 3)


async def cut_off(settings: dict[str, Any], options: dict[str, Any], at: Path) -> None:
    """Cuts the connection to an API server."""
    (cluster,) = settings["clusters"]
    address = urlsplit(cluster["cluster"]["server"])
    assert address.hostname is not None
    assert address.port is not None
    async with Proxy(address.hostname, address.port) as proxy:
        cluster["cluster"]["server"] = f"{address.scheme}://127.0.0.1:{proxy.port}"
        (at / "through-proxy").write_text(json.dumps(settings))
        given = {**options, "kubeconfig": str(at / "through-proxy"), "login": False}
        async with hermetic.open("kubernetes", **given) as environment:
            await check_cut(environment, proxy.cut, BOUND)


async def test_a_pod_of_a_stand_in(tmp_path: Path) -> None:
    with standin(tmp_path) as server:
        settings = json.loads(server.kubeconfig.read_text())
        await cut_off(settings, {**server.options, "image": "x"}, tmp_path)


@pytest.mark.full
async def test_a_pod(tmp_path: Path) -> None:
    options = need_cluster()
    settings = json.loads(kubectl("config", "view", "--raw", "--output", "json"))
    await cut_off(settings, options, tmp_path)


def carriers(job: str) -> Iterator[int]:
    """The processes of this machine that carry streams to a job."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].endswith(b"srun") and f"--jobid={job}".encode() in words:
            yield int(path.parent.name)


@pytest.mark.full
async def test_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_CONF", need_slurm())
    async with hermetic.open("slurm", login=False) as environment:
        (job,) = jobs()
        stopped = list(carriers(job))
        try:
            stop = partial(_send, stopped, signal.SIGSTOP)
            await check_cut(environment, stop, BOUND)
        finally:
            _send(stopped, signal.SIGKILL)
    async with asyncio.timeout(BOUND):
        while jobs():  # noqa: ASYNC110  another program's objects
            await asyncio.sleep(0.1)


def _send(pids: list[int], number: int) -> None:
    assert pids
    for pid in pids:
        os.kill(pid, number)
