"""The runner of tests: coroutines run, hangs end, what fails unseen is seen."""

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import event_loop

ROOT = Path(__file__).parents[1]

SAMPLE = """
import asyncio, os
import pytest
from hypothesis import given, strategies as st

async def test_passes(tmp_path):
    await asyncio.sleep(0)
    assert tmp_path.is_dir()

async def test_fails():
    await asyncio.sleep(0)
    assert False

@given(st.integers())
async def test_fails_under_hypothesis(n):
    await asyncio.sleep(0)
    assert n < 5

@pytest.mark.slow
def test_comes_last():
    pass

async def test_leaves_a_descriptor():
    os.open("/dev/null", os.O_RDONLY)
"""


def test_the_hooks_run_coroutines_put_slow_tests_last_and_find_leftovers(tmp_path: Path) -> None:
    sample = tmp_path / "test_sample.py"
    sample.write_text(SAMPLE)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-v",
        "-p",
        "tests.conftest",
        "-p",
        "no:cacheprovider",
    ]
    done = subprocess.run(
        [*command, "-c", "/dev/null", "-W", "ignore::pytest.PytestUnknownMarkWarning", str(sample)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    told = [
        line.split("::")[1].split("[")[0].split()
        for line in done.stdout.splitlines()
        if line.endswith("%]")
    ]
    assert told == [
        ["test_passes", "PASSED"],
        ["test_fails", "FAILED"],
        ["test_fails_under_hypothesis", "FAILED"],
        ["test_leaves_a_descriptor", "PASSED"],
        ["test_leaves_a_descriptor", "ERROR"],
        ["test_comes_last", "PASSED"],
    ], done.stdout
    assert "left behind by the test:\n  descriptor" in done.stdout


def test_a_coroutine_that_hangs_is_ended() -> None:
    async def hangs() -> None:
        await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        event_loop.run(hangs, {}, seconds=0.01)


def test_a_test_whose_yardstick_asks_for_more_time_gets_it() -> None:
    async def takes_long() -> None:
        event_loop.allow(60)
        await asyncio.sleep(0.1)

    event_loop.run(takes_long, {}, seconds=0.05)


def test_a_plain_test_that_hangs_is_ended() -> None:
    with pytest.raises(TimeoutError, match="took more than"), event_loop.bounded_in_time(0.01):
        time.sleep(10)


def test_an_exception_in_a_callback_fails_the_test() -> None:
    async def looks_fine() -> None:
        asyncio.get_running_loop().call_soon(lambda: 1 / 0)
        await asyncio.sleep(0.01)

    with pytest.raises(AssertionError, match="failed unseen") as caught:
        event_loop.run(looks_fine, {}, seconds=5)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
