"""Runs the behaviour suite as an outsider does: installed package, another directory, nothing of
this repository.
"""

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import hermetic.conformance
from tests.environments import ordinary_user
from tests.environments.ordinary_user import OrdinaryUser

_PYTEST = "pytest _pytest py.py pluggy iniconfig packaging pygments pyte wcwidth"
# What another user needs to run it.
PACKAGES = (
    *ordinary_user.PACKAGES,
    *(Path(pytest.__file__).parent.parent / name for name in _PYTEST.split()),
)
SUITE = Path(hermetic.conformance.__file__).parent
FILES = sorted(path.stem for path in SUITE.glob("test_*.py"))
# about half of the time
_ONE = {"test_tasks", "test_commands", "test_output", "test_files", "test_input"}
NO_TESTS = 5  # how pytest ends when `only` leaves none
# a machine's programs; in CI they are there
MAY_LACK = ("has no vim", "has no less", "has no top", "has no python3")


# Some of each file: what most kinds are put to unless at full size.
SHORT = (
    "test_none_is_the_null_device",
    "test_bytes_pass_unchanged",
    "test_an_argv_gets_input_too",
    "test_earlier_jobs",
    "test_a_timeout_keeps_the_output",
    "test_output_is_seen_live",
    "test_without_a_task_leaving",
    "test_there_is_a_terminal",
    "test_a_deleted_cwd",
    "test_ctrl_c_interrupts",
    "test_it_goes_on_as_a_process",
    "test_what_is_written_arrives",
    "test_a_signal_is_told",
    "test_a_separate_stderr",
    "test_what_is_written_is_read_back",
    "test_an_ended_process_does_not_wait",
)


class Case(NamedTuple):
    """One test of the suite and what came of it."""

    file: str
    name: str
    outcome: str  # passed, failed, skipped
    detail: str


def run_suite(
    kind: str,
    at: Path,
    options: Sequence[str] = (),
    only: Sequence[str] = (),
    user: OrdinaryUser | None = None,
    python: str = sys.executable,
) -> list[Case]:
    """Every test of the suite with its outcome; raises AssertionError when the suite could not be
    run.

    `user` is another one than this, who has a copy of PACKAGES; `python` that of an environment
    with further packages.
    """
    # Most of it waits, so two halves at once take little more than half the time; a few tests take
    # less than a start.
    halves = (
        [FILES]
        if only
        else [[file for file in FILES if (file in _ONE) is wanted] for wanted in (True, False)]
    )
    with ThreadPoolExecutor(len(halves)) as parts:
        ran = parts.map(lambda half: _run_part(kind, at, half, options, only, user, python), halves)
        return [case for cases in ran for case in cases]


def _run_part(
    kind: str,
    at: Path,
    files: Sequence[str],
    options: Sequence[str],
    only: Sequence[str],
    user: OrdinaryUser | None,
    python: str,
) -> list[Case]:
    report = at / f"{files[0]}.xml"
    suite = SUITE if user is None else user.home / "packages/hermetic/conformance"
    command = [
        python if user is None else user.python,
        "-m",
        "pytest",
        "-p",
        "hermetic.conformance.plugin",
        "--pyargs",
        "hermetic.conformance",
        *(f"--ignore={suite / file}.py" for file in FILES if file not in files),
        f"--environment={kind}",
        *(f"--environment-option={option}" for option in options),
        "-c",
        os.devnull,
        f"--rootdir={at}",
        "-p",
        "no:cacheprovider",
        "-q",
        "-W",
        "error",
        f"--junitxml={report}",
        *only,
    ]
    as_user: dict[str, Any] = {}
    if user is not None:
        as_user = {
            "user": user.uid,
            "group": user.gid,
            "extra_groups": user.groups,
            "env": user.environ,
        }
    done = subprocess.run(
        command, cwd=at, capture_output=True, text=True, stdin=subprocess.DEVNULL, **as_user
    )
    assert done.returncode in (0, 1, NO_TESTS), done.stdout + done.stderr
    assert report.exists(), done.stdout + done.stderr
    return [_case(element) for element in ElementTree.parse(report).iter("testcase")]


def unexpected_skips(cases: Sequence[Case], may_lack: Sequence[str]) -> list[Case]:
    """The tests that were skipped for another reason than those that contain a text of `may_lack`."""
    skipped = [case for case in cases if case.outcome == "skipped"]
    return [case for case in skipped if not any(reason in case.detail for reason in may_lack)]


def summarize(cases: Sequence[Case]) -> str:
    """The cases that did not pass, as text for a person."""
    return "\n\n".join(f"{case.file}::{case.name} {case.outcome}\n{case.detail}" for case in cases)


def _case(element: ElementTree.Element) -> Case:
    file = element.get("classname", "").rpartition(".")[2]
    for outcome in ("failure", "error", "skipped"):
        if (found := element.find(outcome)) is not None:
            said = f"{found.get('message', '')}\n{found.text or ''}".strip()
            return Case(
                file, element.get("name", ""), "skipped" if outcome == "skipped" else "failed", said
            )
    return Case(file, element.get("name", ""), "passed", "")
