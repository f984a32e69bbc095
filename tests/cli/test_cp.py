"""`hermetic cp`: files and directories, both ways."""

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.program import hermetic


@pytest.fixture
def task() -> Iterator[str]:
    """A task that lives."""
    name = f"task-{secrets.token_hex(4)}"
    assert hermetic("run", "--task", name, "--", "true").returncode == 0
    yield name
    hermetic("rm", name)


def copied(*words: str) -> None:
    done = hermetic("cp", *words)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_file_there_and_back(task: str, tmp_path: Path) -> None:
    data = os.urandom(3_000_000)
    (tmp_path / "here").write_bytes(data)
    copied(str(tmp_path / "here"), f"{task}:{tmp_path}/there")
    assert (tmp_path / "there").read_bytes() == data
    (tmp_path / "folder").mkdir()
    copied(f"{task}:{tmp_path}/there", str(tmp_path / "folder"))
    assert (tmp_path / "folder" / "there").read_bytes() == data


def test_a_directory_there_and_back(task: str, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "a" / "b c").mkdir(parents=True)
    (tree / "a" / "b c" / "-rf").write_text("one\n")
    (tree / "script").write_text("#!/bin/sh\n")
    (tree / "script").chmod(0o755)
    (tree / "link").symlink_to("script")
    copied(str(tree), f"{task}:{tmp_path}/new one")
    copied(f"{task}:{tmp_path}/new one", str(tmp_path / "back"))
    back = tmp_path / "back"
    assert (back / "a" / "b c" / "-rf").read_text() == "one\n"
    assert (back / "script").stat().st_mode & 0o777 == 0o755
    assert (back / "link").readlink() == Path("script")
    copied(str(tree), f"{task}:{tmp_path}/back")  # a directory takes it by its name
    assert (back / "tree" / "script").exists()


def test_what_leads_outside_is_refused(task: str, tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    bad.mkdir()
    (bad / "link").symlink_to("/etc")
    done = hermetic("cp", f"{task}:{bad}", str(tmp_path / "got"))
    assert done.returncode == 1
    assert b"link" in done.stderr
    assert not (tmp_path / "got" / "link").exists()


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("a", "b"), 2, "one of SOURCE and TARGET is in an environment"),
        (("x:a", "y:b"), 2, "one of SOURCE and TARGET is in an environment"),
        (("/nothing/here", "TASK:/tmp"), 2, "there is no /nothing/here here"),
        (("TASK:/nothing/here", "."), 1, "/nothing/here"),
        (("no-such-task:/a", "."), 1, "`hermetic envs` lists them"),
    ],
)
def test_bad_usage_is_said(task: str, words: tuple[str, ...], code: int, says: str) -> None:
    done = hermetic("cp", *(word.replace("TASK", task) for word in words))
    assert done.returncode == code
    assert says in done.stderr.decode()
