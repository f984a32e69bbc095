"""The first page: a newcomer's two commands come first, and every figure has the command that
measures it.
"""

import re

from tests.docs.pages import ROOT, read

FIGURE = re.compile(r"\d (ms|s|MiB|GB)\b|\d/s\b|\d %")


def test_the_two_commands_are_on_the_first_screen_and_exist() -> None:
    first = read("README.md").splitlines()[:15]
    commands = [line.split()[0] for line in first if line.startswith("    ./")]
    assert commands == ["./start", "./test"]
    assert all((ROOT / command).stat().st_mode & 0o111 for command in commands)


def test_the_page_is_short() -> None:
    assert len(read("README.md").splitlines()) <= 120


def test_every_figure_has_its_command() -> None:
    text = re.sub(r"^```.*?^```$", "", read("README.md"), flags=re.MULTILINE | re.DOTALL)
    figures, rest = (
        text.partition("## Figures")[2].partition("\n## ")[0],
        text.partition("## Figures")[0],
    )
    assert FIGURE.search(figures)
    assert "`benchmarks/run`" in figures
    unproven = [
        part for part in rest.split("\n\n") if FIGURE.search(part) and "benchmarks" not in part
    ]
    assert unproven == []
