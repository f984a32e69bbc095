"""Paths of a workspace from which git outside takes its settings and hooks, besides the obvious ones."""

import os
import re
from collections.abc import Iterator
from contextlib import suppress

MOST_REPOSITORIES = 200  # below .git/modules
DEEPEST = 6  # names of submodules may hold slashes
MOST_CONFIG = 1 << 20  # bytes

# Of a repository's own directory. A trailing slash marks a directory, for one that is missing.
SETTINGS = ("hooks/", "config", "config.worktree", "commondir", "gitdir")
_OF_A_WORKTREE = ("config.worktree", "commondir", "gitdir")  # the rest is that of its repository
_OF_A_MODULE = ("hooks/", "config", "config.worktree", "commondir")
_SECTION = re.compile(r"\[\s*([a-z]+)", re.IGNORECASE)
_PATH = re.compile(r"\s*(hookspath|path)\s*=\s*(.*)", re.IGNORECASE)


def indirections(workspace: str) -> list[str]:
    """Relative paths in the workspace that git reads through its `.git`."""
    found = []
    for directory, names in _repositories(os.path.join(workspace, ".git")):
        found += [os.path.join(directory, name) for name in names]
        found += _named_in(os.path.join(directory, "config"), workspace)
    inside = (os.path.relpath(path, workspace) + "/" * path.endswith("/") for path in found)
    return list(dict.fromkeys(path for path in inside if path.rstrip("/") != "." and not path.startswith("..")))


def _repositories(git: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Directories of git's that exist, with the names in them that matter."""
    if os.path.isfile(git):
        if pointed := _pointed(git):
            yield from _repositories(pointed)
        return
    if not os.path.isdir(git):
        return
    yield git, SETTINGS
    with suppress(OSError):
        for entry in os.scandir(os.path.join(git, "worktrees")):
            if entry.is_dir(follow_symlinks=False):
                yield entry.path, _OF_A_WORKTREE
    count = 0
    modules = os.path.join(git, "modules")
    for folder, below, names in os.walk(modules):
        if "HEAD" in names and count < MOST_REPOSITORIES:
            count += 1
            yield folder, _OF_A_MODULE
            below[:] = [name for name in below if name == "modules"]
        elif folder.count("/") - modules.count("/") >= DEEPEST:
            below.clear()


def _pointed(file: str) -> str | None:
    """The target of a `.git` file."""
    text = _read(file)
    if not text.startswith("gitdir:"):
        return None
    target = os.path.normpath(os.path.join(os.path.dirname(file), text.removeprefix("gitdir:").strip()))
    return target if os.path.isdir(target) else None


def _named_in(config: str, workspace: str) -> Iterator[str]:
    """Hooks directories and included files that a git config names."""
    section = ""
    for line in _read(config).splitlines():
        if match := _SECTION.match(line.strip()):
            section = match[1].lower()
            line = line.partition("]")[2]
        if not (match := _PATH.match(line)):
            continue
        path = os.path.expanduser(match[2].strip().strip('"'))
        if section == "core" and match[1].lower() == "hookspath":
            yield os.path.normpath(os.path.join(workspace, path)) + "/"
        elif section in ("include", "includeif") and match[1].lower() == "path":
            yield os.path.normpath(os.path.join(os.path.dirname(config), path))


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(MOST_CONFIG)
    except OSError:
        return ""
