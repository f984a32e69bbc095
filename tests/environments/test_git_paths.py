"""Paths that git outside of a sandbox reads, found before the sandbox opens."""

from pathlib import Path

import pytest

from hermetic.environments.isolation.git_paths import indirections


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of a user with settings of their own."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "home").mkdir()
    (tmp_path / "work" / ".git").mkdir(parents=True)
    return tmp_path / "work"


def named(repository: Path) -> list[str]:
    """What is found besides the files of `.git` itself."""
    return [path for path in indirections(str(repository)) if not path.startswith(".git/")]


@pytest.mark.parametrize("config", [".gitconfig", ".config/git/config"])
def test_hooks_that_the_user_s_settings_name_are_found(repository: Path, config: str) -> None:
    path = repository.parent / "home" / config
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("[core]\n\thooksPath = .githooks\n")
    assert named(repository) == [".githooks/"]
    (repository / ".git").rmdir()
    assert named(repository) == [], "without a repository nothing is made for one"


def test_a_config_is_read_with_what_it_includes(repository: Path) -> None:
    (repository / ".git/config").write_text(
        '[include]\n path = ../a.inc\n[includeIf "gitdir:x"]\npath = "../b.inc"\n'
    )
    (repository / "a.inc").write_text("[include] path = c.inc\n")
    (repository / "c.inc").write_text("[core] hooksPath = deep/hooks\n[include] path = a.inc\n")
    assert sorted(named(repository)) == ["a.inc", "b.inc", "c.inc", "deep/hooks/"]


def test_the_monitor_and_the_settings_of_a_worktree_count(repository: Path) -> None:
    (repository / ".git/config").write_text("[core]\nfsmonitor = tools/monitor\n")
    (repository / ".git/config.worktree").write_text("[core]\nhooksPath = .husky\n")
    assert sorted(named(repository)) == [".husky/", "tools/monitor"]
    (repository / ".git/config").write_text("[core]\nfsmonitor = true\n")
    assert named(repository) == [".husky/"]


def test_a_submodule_s_hooks_start_at_its_own_directory(repository: Path) -> None:
    module = repository / ".git/modules/lib"
    module.mkdir(parents=True)
    (module / "HEAD").write_text("ref: refs/heads/main\n")
    (module / "config").write_text("[core]\nworktree = ../../../lib\nhooksPath = .hooks\n")
    assert named(repository) == ["lib/.hooks/"]


def test_the_pointers_of_submodules_and_worktrees_are_found(repository: Path) -> None:
    for name, text in {
        "modules/lib/config": "[core]\nworktree = ../../../lib\n",
        "modules/lib/HEAD": "x",
    }.items():
        (repository / ".git" / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / ".git" / name).write_text(text)
    worktree = repository / ".git/worktrees/w"
    worktree.mkdir(parents=True)
    (worktree / "gitdir").write_text(f"{repository}/w/.git\n")
    assert named(repository) == [], "no file is made where there is none"
    for name in ("lib", "w"):
        (repository / name).mkdir()
        (repository / name / ".git").write_text("gitdir: ../.git\n")
    assert sorted(named(repository)) == ["lib/.git", "w/.git"]


def test_paths_outside_and_the_workspace_itself_are_left_out(repository: Path) -> None:
    (repository / ".git/config").write_text(
        "[core]\nhooksPath = .\n[include]\npath = ../../outside\n"
    )
    assert named(repository) == []


def test_repositories_in_a_workspace_are_found(tmp_path: Path) -> None:
    """Of a workspace that is one itself, or none; a link in them is left out."""
    for name in ("a", "b/c", "b/d/e"):
        (tmp_path / name / ".git").mkdir(parents=True)
    (tmp_path / "a/.git/config").write_text("[core]\nhooksPath = .husky\n")
    (tmp_path / "b/c/.git/hooks").symlink_to(tmp_path)
    (tmp_path / "f").mkdir()
    (tmp_path / "f/.git").write_text("gitdir: ../../elsewhere\n")
    (tmp_path / "g").symlink_to(tmp_path / "a")
    found = indirections(str(tmp_path))
    settings = ("hooks/", "config", "config.worktree", "commondir", "gitdir")
    assert {path for path in found if path.startswith("a/")} == {
        *(f"a/.git/{name}" for name in settings),
        "a/.husky/",
    }
    assert {path for path in found if not path.startswith("a/")} == {
        *(f"b/c/.git/{name}" for name in settings[1:]),
        "f/.git",
    }


def test_a_directory_of_very_many_entries_is_not_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        (tmp_path / str(number) / ".git").mkdir(parents=True)
    monkeypatch.setattr("hermetic.environments.isolation.git_paths.MOST_ENTRIES", 3)
    assert len({path.partition("/")[0] for path in indirections(str(tmp_path))}) == 3
