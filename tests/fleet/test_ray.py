"""The kind `ray`: on three raylets with the real Ray at full size, and what is said where Ray is
not installed.
"""

import asyncio
import importlib.util
import os
import subprocess
from pathlib import Path

import pytest

import hermetic
from hermetic.contract.errors import ConfigError, NotInstalled
from hermetic.fleet.ray import RayBackend, RayFleet
from hermetic.fleet.ray import host as hosts
from hermetic.fleet.ray.host import Host
from tests.clouds.vendors import installed

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
