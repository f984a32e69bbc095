"""The code on the pages runs as it stands."""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, Block, blocks
from tests.docs.snippets import run, with_test_image

# its code runs where the frameworks are: tests/adapters/real
FRAMEWORKS = "docs/how-to/use-from-a-framework.md"
PYTHON = [block for page in PAGES if page != FRAMEWORKS for block in blocks(page, "python")]
SHELL = [
    line
    for block in blocks("README.md", "sh")
    for line in block.text.splitlines()
    if line.startswith("hermetic ")
]
HOW_TO = [block for page in PAGES if "how-to" in page for block in blocks(page, "sh")]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty directory to work in."""
    monkeypatch.chdir(tmp_path)


def test_there_is_something_to_run() -> None:
    assert len({block.page for block in PYTHON}) > 5
    assert len(SHELL) > 3


@pytest.mark.parametrize("block", PYTHON, ids=str)
def test_a_python_snippet_does_what_the_page_says(block: Block) -> None:
    run(block)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("print(1 + 1)  # 3", "says that it prints {1: '3'}"),
        ("print(1)", "says that it prints {}"),
        ("if 0:\n    print(1)  # 1", "prints {}"),
    ],
)
def test_a_snippet_that_prints_something_else_fails(text: str, says: str) -> None:
    with pytest.raises(AssertionError) as caught:
        run(Block("page.md", 1, text))
    assert says in str(caught.value)


@pytest.fixture
def hermetic_on_path(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Variables with a PATH on which `hermetic` is this tree's."""
    program = tmp_path / "bin" / "hermetic"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m hermetic "$@"\n')
    program.chmod(0o755)
    try:
        yield {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"}
    finally:
        subprocess.run(
            [str(program), "rm", "--all"], stdin=subprocess.DEVNULL, capture_output=True, timeout=60
        )


def in_bash(text: str, environ: dict[str, str]) -> str:
    """What a text prints that ends well. Raises AssertionError."""
    done = subprocess.run(
        ["bash", "-ec", text],
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, (text, done.stdout, done.stderr)
    return done.stdout


@pytest.mark.slow
def test_the_shell_snippets_of_the_readme_run_one_after_the_other(
    hermetic_on_path: dict[str, str],
) -> None:
    printed = {line.partition("#")[0].strip(): in_bash(line, hermetic_on_path) for line in SHELL}
    assert printed["hermetic run -- 'echo one; echo two >&2'"] == "one\ntwo\n"
    assert printed["hermetic run --task demo -- 'pwd; echo $A'"] == "/tmp\n1\n"
    assert "demo" in printed["hermetic envs"]


@pytest.mark.slow
@pytest.mark.parametrize("block", HOW_TO, ids=str)
def test_the_shell_snippets_of_a_how_to_run(
    block: Block, hermetic_on_path: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "project").mkdir()
    assert "hermetic " in block.text
    in_bash(
        f"cd {shlex.quote(str(tmp_path / 'project'))}\n{with_test_image(block.text)}",
        hermetic_on_path,
    )
