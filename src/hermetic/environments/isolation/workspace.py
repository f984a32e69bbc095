"""The workspace: the one directory of the caller that a sandbox may write to, and its protected
paths.
"""

import fcntl
import os
import pwd
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from hermetic.contract.errors import ConfigError
from hermetic.contract.variables import is_text
from hermetic.environments.isolation.git_paths import indirections
from hermetic.registry.file_lock import take_lock
from hermetic.registry.private import cache_directory

# Files that programs outside run or obey; a trailing slash marks a directory, for one that is
# missing.
PROTECTED = (".git/hooks/", ".git/config", ".hermetic/", "hermetic.toml")

# Content of placeholder files that must not be empty: for git an empty `commondir` is an error, and
# this one names the repository itself.
_NEUTRAL = {"commondir": b".\n"}

# System directories: sharing one, or a part of it, would expose the machine, its sockets, or files
# that other programs trust. Of directories that only hold others' a subdirectory may be a project.
_SYSTEM = str.split("""
    /bin /boot /dev /etc /lib /lib32 /lib64 /libx32 /lost+found /proc /run /sbin /snap /sys /usr /var
""")
_HOLDERS = str.split("""
    /home /media /mnt /opt /root /srv /tmp /usr/local/src /usr/src /var/tmp /var/www
""")
_UNREADABLE = ("/dev", "/etc", "/proc", "/run", "/sys")  # parts of these are not even shown
_WHOLE = ("/var/lib", "/var/run")

# Credentials and settings in a home directory: for other services, other machines, or Hermetic
# itself.
_PRIVATE = str.split("""
    .ssh .gnupg .pki .aws .azure .kube .docker .password-store .mozilla .thunderbird .hermes
    .config/gcloud .config/gh .config/glab-cli .config/hub .config/hermetic .config/containers
    .config/systemd .config/autostart .config/google-chrome .config/chromium .local/share/keyrings
    .local/share/containers .local/share/docker .local/state/hermetic
""")


def homes() -> tuple[str, ...]:
    """The home directories of this user: the one in HOME first, then that of the user database."""
    found = [os.path.expanduser("~")]
    with suppress(KeyError):
        found.append(pwd.getpwuid(os.geteuid()).pw_dir)
    return tuple(dict.fromkeys(os.path.realpath(home) for home in found))


def real_directory(path: str, setting: str) -> str:
    """The whole path without links, whether it exists or not. Raises ConfigError."""
    try:
        whole = os.path.realpath(os.path.expanduser(path))
    except FileNotFoundError:
        raise ConfigError(
            f"the current directory is gone; change to one that exists, or give {setting}",
            setting=setting,
        ) from None
    if not is_text(whole) or "\n" in whole:
        raise ConfigError(
            f"{setting} {whole!r} holds a line break or is not valid UTF-8; rename it",
            setting=setting,
        )
    return whole


def check_shared(
    path: str, setting: str, private: Iterable[str], *, is_writable: bool = True
) -> None:
    """Raises ConfigError unless this is a directory that may be shared with a sandbox.

    `private` names directories that must not lie inside it, nor it inside them, besides those of
    homes.
    """
    if not os.path.isdir(path):
        fault: str | None = "is not a directory" if os.path.exists(path) else "does not exist"
    else:
        fault = fault_of_shared(path, private, is_writable=is_writable)
    if fault:
        raise ConfigError(
            f"{setting} {path} {fault}; give a directory of the project's own: {setting}=DIRECTORY",
            setting=setting,
        )


def fault_of_shared(
    path: str, private: Iterable[str] = (), *, is_writable: bool = True
) -> str | None:
    """Why a real path must not be shared with an environment; None if it may be."""
    if path in homes():
        return "is the home directory, with all its secrets"
    if _is_system(path, is_writable=is_writable):
        return "belongs to the system"
    cache = cache_directory()
    private = [
        os.path.realpath(one) for one in (*private, *((cache,) if cache else ()))
    ] + _private_of(path)
    if outer := next((one for one in private if lies_in(path, one)), None):
        return (
            f"lies in {outer}, which no command may see"
            if path != outer
            else "is what no command may see"
        )
    inner = next((one for one in (*homes(), *private) if lies_in(one, path)), None)
    return inner and f"holds {inner}, which no command may see"


def _is_system(path: str, *, is_writable: bool) -> bool:
    if path in (*_SYSTEM, *_HOLDERS, *_WHOLE) or any(lies_in(path, one) for one in _UNREADABLE):
        return True
    if not is_writable or any(lies_in(path, one) for one in (*homes(), *_HOLDERS)):
        return False
    return any(lies_in(path, one) for one in _SYSTEM)


def _private_of(path: str) -> list[str]:
    """The private directories of this user's homes, and the existing ones of another home that
    contains the path.
    """
    own = [f"{home}/{name}" for home in homes() for name in _PRIVATE]
    parts = path.split("/")
    other = (
        "/root"
        if parts[1] == "root"
        else "/".join(parts[:3])
        if parts[1] == "home" and len(parts) > 2
        else ""
    )
    others = [f"{other}/{name}" for name in _PRIVATE] if other and other not in homes() else []
    found = [*own, *(one for one in others if lies_in(path, one) or os.path.lexists(one))]
    return list(dict.fromkeys([*found, *map(os.path.realpath, found)]))


def lies_in(path: str, directory: str) -> bool:
    """True for a directory itself as well."""
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def unprotected(workspace: str, protected: Sequence[str]) -> list[str]:
    """Those of the default paths that are missing with all above them: commands may make them."""
    return [
        path
        for path in protected
        if path in PROTECTED and not os.path.lexists(os.path.join(workspace, path.split("/")[0]))
    ]


def guard(workspace: str, protected: Sequence[str], lock: int) -> list[str]:
    """Arguments for bwrap that make every protected path read-only, and impossible to create if it
    is missing.

    With `.git/config`, all other paths in the workspace that git reads through it are protected
    too. A mount point has to exist, so an empty placeholder is made for a missing path. `lock` is
    the file that `shared` holds; it lists the placeholders, for the last sandbox of this workspace
    to remove.

    Raises: ConfigError.
    """
    made = set(_entries(os.pread(lock, os.fstat(lock).st_size, 0)))
    arguments: dict[tuple[str, str, str], None] = {}
    free = unprotected(workspace, protected)
    led_to = indirections(workspace) if ".git/config" in protected else []
    for path in (*(path for path in protected if path not in free), *led_to):
        for step, is_last, is_directory in _steps(workspace, path):
            kind = _kind(step)
            entry = step + "/" * is_directory
            if kind is None and entry not in made:
                os.write(lock, _line(entry))
                made.add(entry)
                if not _make(step, is_directory):
                    break  # not writable outside, so not inside either
            if entry in made:
                is_itself = is_directory or os.path.basename(step) in _NEUTRAL
                arguments["--ro-bind", step if is_itself else "/dev/null", step] = None
                break
            if is_last or kind == "file":
                arguments["--ro-bind", step, step] = None
                break
            # a directory that is mounted on cannot be renamed away
            arguments["--bind", step, step] = None
    return [word for words in arguments for word in words]


def _steps(workspace: str, path: str) -> Iterator[tuple[str, bool, bool]]:
    """The ancestors of a protected path and itself: path, whether it is the last, whether it is a
    directory.
    """
    parts = Path(path).parts
    if not parts or path.startswith("/") or ".." in parts:
        raise ConfigError(
            f"protect holds {path!r}; give paths inside the workspace, such as .envrc",
            setting="protect",
        )
    for count in range(1, len(parts) + 1):
        is_last = count == len(parts)
        yield os.path.join(workspace, *parts[:count]), is_last, not is_last or path.endswith("/")


def _kind(path: str) -> str | None:
    try:
        mode = os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    if stat.S_ISLNK(mode):
        raise ConfigError(
            f"{path} is a symbolic link, which cannot be protected; put what it leads to in its place, "
            "or leave it out of protect",
            setting="protect",
        )
    return "directory" if stat.S_ISDIR(mode) else "file"


def _make(path: str, is_directory: bool) -> bool:
    try:
        if is_directory:
            os.mkdir(path, 0o755)
        else:
            with open(
                os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644), "wb"
            ) as file:
                file.write(_NEUTRAL.get(os.path.basename(path), b""))
    except OSError:
        return False
    return True


def unguard(lock: str) -> None:
    """Removes placeholders, unless they were filled or another sandbox uses the same workspace."""
    with suppress(FileNotFoundError), open(lock, "rb") as file, suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for entry in _entries(file.read()):
            with suppress(OSError):
                _take_away(entry)
        os.unlink(lock)


# The same for a shell that holds the lock as a descriptor; its first argument is the lock's path.
# Names may end with a line break, which `$(…)` would cut off.
UNGUARD = """\
while IFS= read -r line; do
entry=$(printf '%b.' "$line"); entry=${entry%.}; path=${entry%/}; above=${path%/*}
[ "$(cd -P -- "$above" && printf '%s.' "$PWD")" = "$above." ] || continue
case $entry in
*/) rmdir "$entry";;
*/commondir) [ ! -f "$entry" ] || [ "$(head -c 2 "$entry")" != . ] || rm -f "$entry";;
*) [ ! -f "$entry" ] || [ -s "$entry" ] || rm -f "$entry";;
esac
done <"$1"
rm -f "$1"
"""


def _line(entry: str) -> bytes:
    """A placeholder's path as a line of the lock file; `printf %b` reads it."""
    return os.fsencode(entry.replace("\\", "\\\\").replace("\n", "\\n")) + b"\n"


def _entries(lines: bytes) -> list[str]:
    """The paths in a lock file."""
    return [
        re.sub(r"\\(.)", lambda match: "\n" if match[1] == "n" else match[1], os.fsdecode(line))
        for line in lines.split(b"\n")
        if line
    ]


def _take_away(entry: str) -> None:
    """Removes a placeholder, unless a command of another sandbox has put something in its place, or
    a link in the way to it.
    """
    above = os.path.dirname(entry.rstrip("/"))
    if os.path.realpath(above) != above:
        return
    if entry.endswith("/"):
        os.rmdir(entry)
        return
    content, status = _NEUTRAL.get(os.path.basename(entry), b""), os.lstat(entry)
    is_whole = stat.S_ISREG(status.st_mode) and status.st_size == len(content)
    if is_whole and (not content or Path(entry).read_bytes() == content):
        os.unlink(entry)


@contextmanager
def shared(lock: str) -> Iterator[int]:
    """Holds the shared lock of a workspace; while it is held, placeholders are not removed.

    The descriptor may be given to a child, which then holds it for as long as it lives.
    """
    fd = take_lock(Path(lock), fcntl.LOCK_SH)  # exclusive holders release it after a few unlinks
    try:
        yield fd
    finally:
        os.close(fd)
