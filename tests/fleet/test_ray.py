"""The kind `ray`: on three raylets with the real Ray at full size, and what is said where Ray is
not installed.
"""

import importlib.util
import os
import subprocess
from pathlib import Path

import pytest

import hermetic
from hermetic.contract.errors import ConfigError, NotInstalled
from hermetic.fleet.ray import RayBackend, RayFleet
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
