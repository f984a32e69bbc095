"""The page on the architecture names files and packages that exist, and leads to the ones that
newcomers look for.
"""

import re

import pytest

from tests.docs.pages import ROOT, read, rows

PAGE = "docs/architecture.md"
SOURCES = ROOT / "src" / "hermetic"


def test_every_file_and_package_that_is_named_exists() -> None:
    named = re.findall(r"`((?:\w+/)+(?:\w+\.(?:py|toml))?)`", read(PAGE))
    folders = [SOURCES, SOURCES / "resident", SOURCES / "tools", ROOT]
    assert len(named) > 20
    assert [path for path in named if not any((folder / path).exists() for folder in folders)] == []


def test_every_step_of_a_command_is_in_a_file_that_exists() -> None:
    steps = re.findall(r"^      \d (\w+(?:/\w+)*) ", read(PAGE), re.MULTILINE)
    assert len(steps) > 5
    assert [step for step in steps if step != "bash" and not list(SOURCES.glob(f"{step}*"))] == []


@pytest.mark.parametrize(
    ("question", "shows"),
    [
        ("ends a process tree after a timeout", "class Sweep"),
        ("judges `git push --force`", '"git push --force"'),
        ("starts a docker or podman container", "class ContainerStart"),
    ],
)
def test_a_newcomer_finds_the_file(question: str, shows: str) -> None:
    [answer] = [row[1] for row in rows(PAGE) if question in row[0]]
    file = re.findall(r"`([\w/]+\.(?:py|toml))`", answer)[0]
    assert shows in (SOURCES / file).read_text(encoding="utf-8")


def test_the_glossary_is_sorted_and_has_one_line_for_each_word() -> None:
    page = read(PAGE)
    words = re.findall(r"^\| ([a-z][\w, ]*) \|", page[page.index("## Glossary") :], re.MULTILINE)[
        1:
    ]
    assert len(words) > 40
    assert words == sorted(words)
