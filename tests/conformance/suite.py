"""Runs the behaviour suite as an outsider does: installed package, another directory, nothing of this repository."""

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

import hermetic.conformance

SUITE = Path(hermetic.conformance.__file__).parent
FILES = sorted(path.stem for path in SUITE.glob("test_*.py"))
_ONE = {"test_tasks", "test_commands", "test_output", "test_files", "test_input"}  # about half of the time
PARTS = tuple([file for file in FILES if (file in _ONE) is wanted] for wanted in (True, False))
NO_TESTS = 5  # how pytest ends when `only` leaves none
MAY_LACK = ("has no vim", "has no less", "has no top", "has no python3")  # a machine's programs; in CI they are there


class Case(NamedTuple):
    """One test of the suite and what came of it."""

    file: str
    name: str
    outcome: str  # passed, failed, skipped
    detail: str


def run_suite(kind: str, at: Path, options: Sequence[str] = (), only: Sequence[str] = ()) -> list[Case]:
    """Every test of the suite with its outcome; raises AssertionError when the suite could not be run."""
    with ThreadPoolExecutor(len(PARTS)) as parts:  # most of it waits, so two halves take little more than half the time
        ran = parts.map(lambda files: _run_part(kind, at, files, options, only), PARTS)
        return [case for cases in ran for case in cases]


def _run_part(kind: str, at: Path, files: Sequence[str], options: Sequence[str], only: Sequence[str]) -> list[Case]:
    report = at / f"{files[0]}.xml"
    command = [
        sys.executable, "-m", "pytest", "-p", "hermetic.conformance.plugin", "--pyargs", "hermetic.conformance",
        *(f"--ignore={SUITE / file}.py" for file in FILES if file not in files),
        f"--environment={kind}", *(f"--environment-option={option}" for option in options),
        "-c", os.devnull, f"--rootdir={at}", "-p", "no:cacheprovider", "-q", "-W", "error",
        f"--junitxml={report}", *only,
    ]  # fmt: skip
    done = subprocess.run(command, cwd=at, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode in (0, 1, NO_TESTS), done.stdout + done.stderr
    return [_case(element) for element in ElementTree.parse(report).iter("testcase")]


def assert_passed(cases: Sequence[Case], file: str) -> None:
    """Fails unless every test of one file of the suite passed or was skipped."""
    own = [case for case in cases if case.file == file]
    assert own, f"{file} has no tests"
    if failed := [case for case in own if case.outcome == "failed"]:
        pytest.fail(f"{len(failed)} of {len(own)} failed\n\n{summarize(failed)}", pytrace=False)


def assert_not_skipped(cases: Sequence[Case], *, but_for: Sequence[str] = ()) -> None:
    """Fails when a test was skipped for another reason than those that contain a text of `but_for`."""
    skipped = [case for case in cases if case.outcome == "skipped"]
    unexpected = [case for case in skipped if not any(reason in case.detail for reason in but_for)]
    assert not unexpected, summarize(unexpected)


def assert_whole(cases: Sequence[Case]) -> None:
    """Fails when files or tests of the suite are missing."""
    assert {case.file for case in cases} == set(FILES)
    assert len(cases) > 400


def summarize(cases: Sequence[Case]) -> str:
    """The cases that did not pass, as text for a person."""
    return "\n\n".join(f"{case.file}::{case.name} {case.outcome}\n{case.detail}" for case in cases)


def _case(element: ElementTree.Element) -> Case:
    file = element.get("classname", "").rpartition(".")[2]
    for outcome in ("failure", "error", "skipped"):
        if (found := element.find(outcome)) is not None:
            said = f"{found.get('message', '')}\n{found.text or ''}".strip()
            return Case(file, element.get("name", ""), "skipped" if outcome == "skipped" else "failed", said)
    return Case(file, element.get("name", ""), "passed", "")
