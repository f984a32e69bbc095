"""The table of behaviours: every item has a row, and every test that a row names exists."""

import ast
import functools
import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, read, rows

PAGE = "docs/maintainers/behaviours.md"
POLICY = ["S1-27", "S1-28", "S1-29", "R-C4", "R-C5", "R-C6", "R-C7", "W-22", "W-23", "W-26"]
APPROVALS = [
    *(f"S1-{number}" for number in range(30, 38)),
    "R-C1",
    "R-C2",
    "R-C3",
    *(f"R-C{number}" for number in range(8, 18) if number != 16),
    "X-29",
    "W-24",
    "W-25",
    "W-27",
    "W-28",
]
APPTAINER = ["S1-7", "S1-8", "S1-9", "S1-46", "S1-47", "S1-48", "R-J2"]
CONTAINERS = [
    "S1-53",
    *(f"S4-{number}" for number in range(1, 35)),
    "X-13",
    *(f"W-{number}" for number in range(74, 88)),
]
SSH = [*(f"S1-{number}" for number in range(49, 53)), "R-I1", "R-I2", "R-I3", "R-J1", "W-31"]
CLOUDS = ["R-J3", "R-J4", "X-1"]
FLEET = ["S1-16", *(f"S1-{number}" for number in range(54, 62)), "W-38", "W-41", "W-104"]
VARIABLES = [f"R-H{number}" for number in range(1, 9)]
TEXTS = [
    "S1-18",
    "R-E1",
    *(f"R-G{number}" for number in range(1, 5)),
    "X-3",
    "X-4",
    "X-5",
    "X-26",
    "W-40",
    "W-45",
    "W-57",
    "W-101",
    "W-102",
    "W-103",
    "W-105",
]
SETTINGS = [*(f"S1-{number}" for number in range(1, 7)), "S1-10", "X-2", "X-14"]
TOOLS = [
    "S1-11",
    "S1-12",
    "S1-13",
    "S1-14",
    "S1-15",
    "S1-17",
    "S1-19",
    "S1-20",
    "S1-21",
    "S1-22",
    "S1-23",
    "S1-24",
    "S1-25",
    "S1-26",
    "S1-38",
    "S1-39",
    "S1-40",
    "S1-41",
    "S1-42",
    "S1-43",
    "S1-62",
    "S1-63",
    "S1-64",
    "S1-65",
    "S1-66",
    "S1-67",
    "R-A1",
    "R-A2",
    "R-A3",
    "R-A4",
    "R-A5",
    "R-A6",
    "R-A7",
    "R-A8",
    "R-A9",
    "R-A10",
    "R-A11",
    "R-A12",
    "R-A13",
    "R-A14",
    "R-A15",
    "R-A16",
    "R-A17",
    "R-B1",
    "R-B2",
    "R-B3",
    "R-B4",
    "R-B5",
    "R-B6",
    "R-B7",
    "R-D1",
    "R-D2",
    "R-D3",
    "R-D4",
    "R-D5",
    "R-G5",
    "R-L1",
    "R-L2",
    "R-L3",
    "R-M1",
    "X-10",
    "X-16",
    "X-27",
    "W-29",
    "W-30",
    "W-32",
    "W-33",
    "W-34",
    "W-35",
    "W-36",
    "W-37",
    "W-39",
    "W-42",
    "W-43",
    "W-44",
    "W-46",
    "W-47",
    "W-48",
    "W-49",
    "W-50",
    "W-51",
    "W-52",
    "W-53",
    "W-54",
]
CODE = [
    *(f"S2-{number}" for number in range(1, 49)),
    "R-C16",
    "X-28",
    "W-55",
    "W-56",
    *(f"W-{number}" for number in range(58, 74)),
]
FILES = [f"R-F{number}" for number in range(1, 9)]
WEB_TOOLS = ["R-K1", "R-K2"]
WEB = [f"S3-{number}" for number in range(1, 24)]
WEB += [f"W-{number}" for number in (88, 89, 91, 92, 94, 95, 97, 98, 99, 100)]
TERMINALS = [
    *(f"S3-{number}" for number in range(1, 24)),
    *(f"R-N{number}" for number in range(1, 5)),
    "X-18",
    "X-20",
    *(f"W-{number}" for number in range(88, 101)),
]
ITEMS = [
    *(f"S0-{number}" for number in range(1, 47)),
    *(f"W-{number}" for number in range(1, 22)),
    *POLICY,
    *APPROVALS,
    *APPTAINER,
    *CONTAINERS,
    *SSH,
    *CLOUDS,
    *FLEET,
    *VARIABLES,
    *TEXTS,
    *SETTINGS,
    *TOOLS,
    *WEB_TOOLS,
    *CODE,
    *FILES,
    *WEB,
    *TERMINALS,
]
TEST = re.compile(r"`([\w./-]+\.py)::(\w+)(?:\[[^`]*\])?`")
NO_TEST = ("Does not apply", "Later work")


def test_every_item_has_one_row() -> None:
    assert [row[0] for row in rows(PAGE)] == ITEMS


def test_every_row_names_tests_that_exist_or_says_why_there_is_none() -> None:
    assert [fault for row in rows(PAGE) for fault in faults_of(row)] == []


def test_every_promise_of_security_names_tests_that_exist() -> None:
    page = read("docs/security.md")
    sections = {text.partition("\n")[0]: text for text in page.split("\n## ")}
    promises = [
        promise
        for title in ("What is promised", "The console", "The web tools")
        for promise in sections[title].split("\n- ")[1:]
    ]
    assert [promise for promise in promises if not TEST.search(promise)] == []
    assert [
        f"{path}::{name}"
        for path, name in TEST.findall(page)
        if name not in functions_in(ROOT / path)
    ] == []


def faults_of(row: list[str]) -> list[str]:
    """What is wrong with the tests that a row names."""
    named = TEST.findall(row[3])
    faults = [
        f"{row[0]}: {path} has no {name}"
        for path, name in named
        if name not in functions_in(ROOT / path)
    ]
    if not named and not row[2].startswith(NO_TEST):
        faults.append(f"{row[0]} names no test")
    if TEST.sub("", row[3]).strip(" ,"):
        faults.append(f"{row[0]}: not a `path::test`: {row[3]}")
    return faults


@functools.cache
def functions_in(path: Path) -> set[str]:
    """The names of the test functions in a file."""
    assert path.is_file(), f"{path} does not exist"
    return {
        node.name
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
    }


def test_a_missing_test_is_found(tmp_path: Path) -> None:
    file = tmp_path / "test_x.py"
    file.write_text(
        "def helper(): ...\nasync def test_one(): ...\nclass T:\n    def test_two(self): ...\n"
    )
    assert functions_in(file) == {"test_one", "test_two"}
    with pytest.raises(AssertionError, match="does not exist"):
        functions_in(tmp_path / "test_y.py")


def test_a_name_with_parameters_is_read() -> None:
    assert TEST.findall("`tests/a.py::test_b`, `src/c/test_d.py::test_e[a NUL]`") == [
        ("tests/a.py", "test_b"),
        ("src/c/test_d.py", "test_e"),
    ]
