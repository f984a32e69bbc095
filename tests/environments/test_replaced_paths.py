"""A workspace in which commands, or its author, have prepared something for the next sandbox that
opens there: it protects the right paths, hangs nowhere and removes nothing elsewhere.
"""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import hermetic
from hermetic.environments import sandbox as kind
from hermetic.environments.isolation.git_paths import indirections
from hermetic.environments.isolation.workspace import UNGUARD, guard, shared, unguard
from hermetic.environments.starting import start_resident
from tests.environments.sandboxes import run_program, sandbox
from tests.programs import need

BREAK = "x\n"  # a directory of that name


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A directory with an empty file and an empty directory, apart from the workspace."""
    (tmp_path / "outside" / "directory").mkdir(parents=True)
    (tmp_path / "outside" / "file").touch()
    return tmp_path / "outside"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def repository(path: Path, config: str) -> None:
    (path / ".git" / "hooks").mkdir(parents=True)
    (path / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (path / ".git" / "config").write_text(config)


def leading_out(workspace: Path, outside: Path) -> Path:
    """A repository whose missing files have the paths of those outside, behind a line break."""
    tree = workspace / BREAK
    below = str(outside)[1:]
    repository(
        tree,
        f"[include]\n\tpath = ../{below}/file\n[core]\n\thooksPath = {below}/directory\n",
    )
    (tree / below).mkdir(parents=True)
    return tree


async def test_a_line_break_in_a_name_removes_nothing_elsewhere(
    workspace: Path, outside: Path
) -> None:
    tree = leading_out(workspace, outside)
    async with sandbox(workspace) as environment:
        wrote = await environment.run(
            "cd x*/.git && echo x > config.worktree; echo x > config; echo x > hooks/h"
        )
        assert wrote.output.count("bash: line 1:") == 3, wrote.output  # each is refused
    assert sorted(os.listdir(outside)) == ["directory", "file"]
    assert sorted(os.listdir(tree / ".git")) == ["HEAD", "config", "hooks"]
    assert os.listdir(tree / str(outside)[1:]) == []


@pytest.mark.parametrize("by", ["this process", "the watchdog"])
def test_placeholders_are_removed_and_nothing_behind_a_link(
    tmp_path: Path, workspace: Path, outside: Path, by: str
) -> None:
    lock = str(tmp_path / "lock")
    leading_out(workspace, outside)
    for name in ("back\\slash", "back\\nslash", "c\\c", "%b", "new\n\nline", "byte\udc80"):
        repository(workspace / name, "[include]\n\tpath = ../in/file\n")
        (workspace / name / "in").mkdir()
    with shared(lock) as fd:
        guard(str(workspace), (".git/config",), fd)
        assert (workspace / "%b/in/file").exists()
        again = guard(str(workspace), (".git/config",), fd)
        assert "/dev/null" in again
    taken = workspace / "%b/in"
    taken.rename(workspace / "elsewhere")
    taken.symlink_to(outside)
    (workspace / "back\\slash/in/file").write_text("filled")
    pipe = workspace / "new\n\nline/.git/commondir"
    pipe.unlink()
    os.mkfifo(pipe)
    if by == "this process":
        unguard(lock)
    else:
        subprocess.run(["sh", "-c", UNGUARD, "sh", lock], check=True, timeout=30)
    assert sorted(os.listdir(outside)) == ["directory", "file"]
    assert not os.path.exists(lock)
    left = [
        str(path.relative_to(workspace))
        for path in workspace.rglob("*")
        if not path.is_dir() and path.name not in ("HEAD", "config")
    ]
    assert sorted(left) == [
        "back\\slash/in/file",
        "elsewhere/file",
        "new\n\nline/.git/commondir",
    ]


def test_a_pipe_in_place_of_a_config_is_not_waited_for(workspace: Path) -> None:
    repository(workspace, "")
    (workspace / ".git/config").unlink()
    os.mkfifo(workspace / ".git/config")
    repository(workspace / "inner", "[include]\n\tpath = pipe\n")
    os.mkfifo(workspace / "inner/.git/pipe")
    (workspace / "other").mkdir()
    os.mkfifo(workspace / "other/.git")
    assert "inner/.git/pipe" in indirections(str(workspace))


def test_more_paths_than_can_be_protected_are_refused(workspace: Path) -> None:
    names = "".join(f"\tpath = {'long' * 20}-{number}\n" for number in range(5000))
    repository(workspace, f"[include]\n{names}")
    with pytest.raises(hermetic.ConfigError, match="more than can be protected"):
        indirections(str(workspace))


@pytest.mark.parametrize("what", ["file", "directory", "moved away"])
async def test_a_path_that_is_replaced_while_a_sandbox_starts_shows_nothing_of_this_machine(
    workspace: Path, outside: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """As a command of another sandbox can do in the same directory: bwrap follows a link when it
    starts, and mounts on the file that is in its place a moment later.
    """
    repository(workspace / "sub", "[include]\n\tpath = ../in/settings\n")
    (workspace / "sub/in").mkdir()
    (workspace / "sub/in/settings").write_text("[a]\n")
    (outside / "settings").write_text("of this machine\n")
    replaced = str(workspace / ("sub/in" if what == "directory" else "sub/in/settings"))
    start = start_resident

    def followed(*arguments: Any) -> list[str]:
        words = guard(*arguments)
        at = words.index(replaced)
        words[at] = str(outside) if what == "directory" else str(outside / "settings")
        return words

    async def started(*arguments: Any, **options: Any) -> Any:
        said = await start(*arguments, **options)
        if what == "moved away":  # the kernel does not list what is mounted there now
            os.rename(replaced, workspace / "elsewhere")
        return said

    monkeypatch.setattr(kind, "guard", followed)
    monkeypatch.setattr(kind, "start_resident", started)
    with pytest.raises(hermetic.EnvironmentUnavailable, match="was replaced"):
        async with sandbox(workspace):
            pass


async def test_a_workspace_that_is_replaced_while_its_sandbox_starts_is_not_shown(
    workspace: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = start_resident

    async def replaced(*arguments: Any, **options: Any) -> Any:
        os.rename(workspace, f"{workspace}.was")
        os.symlink(outside, workspace)
        return await start(*arguments, **options)

    monkeypatch.setattr(kind, "start_resident", replaced)
    with pytest.raises(hermetic.EnvironmentUnavailable):
        async with sandbox(workspace):
            pass


async def test_a_sandbox_opens_beside_others_and_in_odd_directories(workspace: Path) -> None:
    place = workspace / "a b\\c\u2028d"
    await run_program(need("git"), "init", "-q", place)
    async with sandbox(place) as first, sandbox(place, readable=[workspace.parent]) as second:
        for one in (first, second):
            wrote = await one.run("echo x >> .git/config; echo x > here")
            assert wrote.output.count("Read-only file system") == 1
