"""The suite itself: it can be aimed at a kind, and it can tell a broken environment from a good
one.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from hermetic import ConfigError
from hermetic.cli.opening import read_option
from tests.conformance.suite import run_suite


def test_an_option_is_json_or_text() -> None:
    assert read_option("lease=5") == ("lease", 5)
    assert read_option("image=debian:12") == ("image", "debian:12")
    assert read_option('volumes=["a:b"]') == ("volumes", ["a:b"])
    with pytest.raises(ConfigError):
        read_option("lease")


def test_options_reach_the_environment(tmp_path: Path) -> None:
    chosen = ["-k", "test_stderr_can_be_kept_apart"]
    assert {case.outcome for case in run_suite("local", tmp_path, ["lease=7"], chosen)} == {
        "passed"
    }
    wrong = run_suite("local", tmp_path, ["leese=7"], chosen)
    assert {case.outcome for case in wrong} == {"failed"}
    assert "leese" in wrong[0].detail


def test_a_kind_that_does_not_exist_fails_every_test(tmp_path: Path) -> None:
    cases = run_suite("nowhere", tmp_path, only=["-k", "test_stderr_can_be_kept_apart"])
    assert {case.outcome for case in cases} == {"failed"}


def test_it_runs_by_its_own_name(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "hermetic.conformance",
            "local",
            "lease=9",
            "--",
            "-q",
            "-p",
            "no:cacheprovider",
            "-k",
            "test_stderr_can_be_kept_apart",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


def test_it_says_how_it_is_used() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hermetic.conformance"], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "KIND" in done.stderr
