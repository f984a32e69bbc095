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
