"""The code on the pages runs as it stands."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, Block, blocks
from tests.docs.snippets import run

PYTHON = [block for page in PAGES for block in blocks(page, "python")]
SHELL = [
    line for block in blocks("README.md", "sh") for line in block.text.splitlines() if line.startswith("hermetic ")
]


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
def test_a_snippet_that_prints_something_else_is_told(text: str, says: str) -> None:
    with pytest.raises(AssertionError) as caught:
        run(Block("page.md", 1, text))
    assert says in str(caught.value)


def test_the_shell_snippets_of_the_readme_run_one_after_the_other(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "hermetic"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m hermetic "$@"\n')
    program.chmod(0o755)
    environ = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"}
    said: dict[str, str] = {}
    try:
        for line in SHELL:
            done = subprocess.run(
                ["bash", "-c", line], env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
            )
            assert done.returncode == 0, (line, done.stderr)
            said[line.partition("#")[0].strip()] = done.stdout
    finally:
        subprocess.run([str(program), "rm", "--all"], stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    assert said["hermetic run -- 'echo one; echo two >&2'"] == "one\ntwo\n"
    assert said["hermetic run --task demo -- 'pwd; echo $A'"] == "/tmp\n1\n"
    assert "demo" in said["hermetic envs"]
