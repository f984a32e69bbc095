"""Private directories, and whether a path is on a disk."""

import os
import stat
from contextlib import suppress
from pathlib import Path

from hermetic.contract.errors import ConfigError

_IN_MEMORY = frozenset({"tmpfs", "ramfs", "devtmpfs", "rootfs"})


def make_private(path: Path, setting: str) -> Path:
    """`path` as a directory of ours, made if missing.

    Raises ConfigError when others own it or may write to it.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        seen = path.lstat()
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be made: {error.strerror}; set {setting} to a directory of yours"
        ) from error
    if not stat.S_ISDIR(seen.st_mode):
        raise ConfigError(
            f"{path} is not a directory; remove it, or set {setting}", setting=setting
        )
    if seen.st_uid != os.geteuid():
        raise ConfigError(
            f"{path} belongs to another user (uid {seen.st_uid}); set {setting}", setting=setting
        )
    if (
        seen.st_mode & 0o022 and seen.st_mode & stat.S_ISVTX
    ):  # as of /tmp, which stays open to everybody
        raise ConfigError(
            f"others may write to {path}, which is for everybody; set {setting} to a directory of yours",
            setting=setting,
        )
    if seen.st_mode & 0o022:
        raise ConfigError(
            f"others may write to {path}; run: chmod 700 {path}, or set {setting}", setting=setting
        )
    return path


def cache_directory() -> Path | None:
    """The directory for Hermetic in the user's cache, which need not exist; None without a home."""
    try:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:  # neither HOME nor an entry in the user database
        return None
    return Path(base, "hermetic").absolute()


def spool_base() -> Path | None:
    """A private directory on a disk for long output; None without a disk."""
    own = f"hermetic-{os.geteuid()}"
    if chosen := os.environ.get("HERMETIC_SPOOL_DIR"):
        path = make_private(Path(chosen).absolute(), "HERMETIC_SPOOL_DIR")
        if is_in_memory(path):
            raise ConfigError(
                f"HERMETIC_SPOOL_DIR={path} lies in memory (tmpfs); set it to a directory on a disk",
                setting="HERMETIC_SPOOL_DIR",
            )
        return path
    candidates = [Path("/var/tmp", own)]
    with suppress(RuntimeError):  # no home
        candidates.append(Path.home() / ".cache" / "hermetic")
    for path in candidates:
        if not is_in_memory(path) and _can_be_private(path):
            return path
    return None


def is_in_memory(path: Path, mounts: str = "/proc/self/mounts") -> bool:
    """True when the path's mount is a file system in memory; the path need not exist."""
    target = os.path.realpath(path)
    best, kind = "", ""
    with open(mounts, encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            _, mount, fstype = line.split(" ", 3)[:3]
            mount = _unescape(mount)
            inside = target == mount or target.startswith(mount.rstrip("/") + "/")
            if inside and len(mount) >= len(best):
                best, kind = mount, fstype
    return kind in _IN_MEMORY


def _can_be_private(path: Path) -> bool:
    try:
        make_private(path, "HERMETIC_SPOOL_DIR")
    except ConfigError:
        return False
    return os.access(path, os.W_OK | os.X_OK)


def _unescape(text: str) -> str:
    """Spaces and the like are written as octal numbers in the kernel's table."""
    for code, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, char)
    return text
