"""Runs the behaviour suite as an outsider does: installed package, another directory, nothing of this repository."""

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple


class Case(NamedTuple):
    """One test of the suite and what came of it."""

    file: str
    name: str
    outcome: str  # passed, failed, skipped
    detail: str


def run_suite(kind: str, at: Path, options: Sequence[str] = (), only: Sequence[str] = ()) -> list[Case]:
    """Every test of the suite with its outcome; raises AssertionError when the suite could not be run."""
    report = at / "report.xml"
    command = [
        sys.executable, "-m", "pytest", "-p", "hermetic.conformance.plugin", "--pyargs", "hermetic.conformance",
        f"--environment={kind}", *(f"--environment-option={option}" for option in options),
        "-c", os.devnull, f"--rootdir={at}", "-p", "no:cacheprovider", "-q", "-W", "error",
        f"--junitxml={report}", *only,
    ]  # fmt: skip
    done = subprocess.run(command, cwd=at, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return [_case(element) for element in ElementTree.parse(report).iter("testcase")]


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
