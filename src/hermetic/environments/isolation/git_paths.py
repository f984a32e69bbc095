"""Paths of a workspace from which git outside takes its settings and hooks, besides the obvious
ones.
"""

import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress

from hermetic.contract.errors import ConfigError

MOST_REPOSITORIES = 200  # below .git/modules
DEEPEST = 6  # names of submodules may hold slashes
NESTED = 2  # directories deep, of a workspace with repositories in it
MOST_ENTRIES = 2000  # looked at for them
MOST_INCLUDED = 50  # files that configs include
MOST_CONFIG = 1 << 20  # bytes
MOST_PATHS = 1 << 18  # characters of all paths; they are arguments of one program

_NO_PROJECT = frozenset({".git", "node_modules"})

# Of a repository's own directory. A trailing slash marks a directory, for one that is missing.
SETTINGS = ("hooks/", "config", "config.worktree", "commondir", "gitdir")
_OF_A_WORKTREE = ("config.worktree", "commondir", "gitdir")  # the rest is that of its repository
_OF_A_MODULE = ("hooks/", "config", "config.worktree", "commondir")
_SECTION = re.compile(r"\[\s*([a-z]+)", re.IGNORECASE)
_PATH = re.compile(r"\s*(hookspath|fsmonitor|worktree|path)\s*=\s*(.*)", re.IGNORECASE)


def indirections(workspace: str) -> list[str]:
    """Relative paths in a workspace that git reads through its `.git`, through those of repositories
    in it, and through the user's own settings. Raises ConfigError for too many.
    """
    found = _read_through(workspace)
    here = os.path.realpath(workspace)
    for top in _nested(workspace):
        found += [
            path
            for path in (*_read_through(top), *_existing(os.path.join(top, ".git")))
            # a link cannot be protected
            if os.path.realpath(path) == os.path.normpath(path.replace(workspace, here, 1))
        ]
    inside = (os.path.relpath(path, workspace) + "/" * path.endswith("/") for path in found)
    paths = list(
        dict.fromkeys(
            path for path in inside if path.rstrip("/") != "." and not path.startswith("..")
        )
    )
    if sum(map(len, paths)) > MOST_PATHS:
        raise ConfigError(
            f"the repositories in {workspace} lead git to {len(paths)} files, more than can be protected; "
            "take away submodules, worktrees or included files, or leave .git/config out of protect",
            setting="protect",
        )
    return paths


def _read_through(top: str) -> list[str]:
    """Paths that git reads in this directory; none where it is no repository's."""
    found, configs = [], []
    for directory, names in _repositories(os.path.join(top, ".git")):
        found += [os.path.join(directory, name) for name in names]
        configs += [os.path.join(directory, name) for name in ("config", "config.worktree")]
    for config in (*configs, *_user_configs()) if configs else ():
        found += _named_in(config, top, [])
    return found


def _nested(workspace: str) -> Iterator[str]:
    """Directories with a `.git` in a workspace, and in the directories in it."""
    count = 0
    folders = [workspace]
    for _ in range(NESTED):
        below = []
        for folder in folders:
            with suppress(OSError), os.scandir(folder) as entries:
                for entry in entries:
                    count += 1
                    if count > MOST_ENTRIES:
                        return
                    if entry.name in _NO_PROJECT or not entry.is_dir(follow_symlinks=False):
                        continue
                    below.append(entry.path)
                    if os.path.lexists(os.path.join(entry.path, ".git")):
                        yield entry.path
        folders = below


def _user_configs() -> list[str]:
    """Files with settings for every repository of this user."""
    xdg = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    named = [
        os.environ[name]
        for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM")
        if os.environ.get(name)
    ]
    return [
        "/etc/gitconfig",
        os.path.join(xdg, "git", "config"),
        os.path.expanduser("~/.gitconfig"),
        *named,
    ]


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
                pointer = _read(os.path.join(entry.path, "gitdir")).strip()
                yield entry.path, (*_OF_A_WORKTREE, *_existing(os.path.join(entry.path, pointer)))
    count = 0
    modules = os.path.join(git, "modules")
    for folder, below, names in os.walk(modules):
        if "HEAD" in names and count < MOST_REPOSITORIES:
            count += 1
            yield folder, _OF_A_MODULE
            below[:] = [name for name in below if name == "modules"]
        elif folder.count("/") - modules.count("/") >= DEEPEST:
            below.clear()


def _existing(pointer: str) -> Iterator[str]:
    """The `.git` file of a working tree: git in that tree, or in one around it, goes where the file
    points.
    """
    if os.path.isfile(pointer):
        yield os.path.normpath(pointer)


def _pointed(file: str) -> str | None:
    """The target of a `.git` file."""
    text = _read(file)
    if not text.startswith("gitdir:"):
        return None
    target = os.path.normpath(
        os.path.join(os.path.dirname(file), text.removeprefix("gitdir:").strip())
    )
    return target if os.path.isdir(target) else None


def _named_in(config: str, top: str, seen: list[str]) -> Iterator[str]:
    """Hooks directories, monitors and included files that a git config names, and those that these
    name.
    """
    if config in seen or len(seen) >= MOST_INCLUDED:
        return
    seen.append(config)
    section, settings = "", []
    for line in _read(config).splitlines():
        if match := _SECTION.match(line.strip()):
            section = match[1].lower()
            line = line.partition("]")[2]
        if match := _PATH.match(line):
            settings.append(
                (section, match[1].lower(), os.path.expanduser(match[2].strip().strip('"')))
            )
    beside = os.path.dirname(config)
    for section, name, path in settings:
        if (section, name) == ("core", "worktree"):  # of a submodule
            top = os.path.normpath(os.path.join(beside, path))
            yield from _existing(os.path.join(top, ".git"))
    for section, name, path in settings:
        if (section, name) == ("core", "hookspath"):
            yield os.path.normpath(os.path.join(top, path)) + "/"
        elif (section, name) == ("core", "fsmonitor") and "/" in path:  # else on or off
            yield os.path.normpath(os.path.join(top, path))
        elif section in ("include", "includeif") and name == "path":
            included = os.path.normpath(os.path.join(beside, path))
            yield included
            yield from _named_in(included, top, seen)


def _read(path: str) -> str:
    """The text of a file; empty for what is none, such as a pipe, on which a reader waits."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        with open(fd, encoding="utf-8", errors="replace") as file:
            return file.read(MOST_CONFIG) if stat.S_ISREG(os.fstat(fd).st_mode) else ""
    except OSError:
        return ""
