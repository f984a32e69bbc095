"""Where a path leads and what kind of place that is: the workspace, home, the system, a disk, a
secret.
"""

from __future__ import annotations

import re

from hermetic.policy.tables import names, regex

from .marks import DEVICE, GLOBS, NUMBER, STAR, UNKNOWN, has_glob, is_known
from .programs.table import TABLE, alternatives
from .shell import Shell
from .shell.globs import could_match

# null, network, disk, device, kernel, root, system, log, temp, home, startup, history, cache, user,
# workspace root, git, hook, workspace, env file, elsewhere, sibling or unknown
Place = str

ROOT_HOME = "/root"
TOP = TABLE.words("top")
_SYSTEM = frozenset(TABLE.words("system"))
_DISK, _NULL, _SECRET_SYSTEM, _SECRET_NAMES, _ENV_FILE, _PUBLIC_SSH = map(
    alternatives, names("disks null system-secrets secret-names env-files public-ssh")
)
_STARTUP_NAMES = frozenset(TABLE.words("startup-names"))
_STARTUP, _HISTORY, _CACHE = map(TABLE.words, ("startup", "history", "cache"))
_SECRETS = (*TABLE.words("secrets"), "Library/Application Support/Google/Chrome")
_SOME_SECRETS = names("/proc/1/environ /etc/shadow /etc/gshadow /etc/sudoers")
_SOME_DISKS = names("sda nvme0n1 vda mmcblk0 sdb hda")
RECORD = "env.json"  # of an environment, in the runtime directory
# of some users
_RECORDS = names("/tmp/hermetic-0 /tmp/hermetic-1000 /run/user/0/hermetic /run/user/1000/hermetic")
_OUR_RECORDS = regex(r"/tmp/hermetic-\d+(/|$)|/run/user/\d+/hermetic(/|$)")
_PACKED = regex(
    r"(\.(tar|gz|xz|zst|bz2|tgz|zip|7z|bak|old|orig|gpg|age|cpio))+$|~$"
)  # what a copy's name ends with
_KEYS = TABLE.words("keys")


def resolve(path: str, shell: Shell) -> str:
    """The absolute path, `.` and `..` resolved by name; a path that starts with unknown text is
    left as it is.
    """
    path = path.replace("\x00", "")
    if path[:1] in UNKNOWN and path:
        return path
    for prefix in ("file://localhost/", "file:///"):
        if path.startswith(prefix):
            path = "/" + path[len(prefix) :]
    if re.match(r"[A-Za-z]:[\\/A-Z]|[A-Za-z]:$", path):
        return "/Windows/" + path[2:].replace("\\", "/").strip("/")
    if not path.startswith("/"):
        if shell.cwd[:1] in UNKNOWN:
            return shell.cwd + "/" + path
        path = shell.cwd + "/" + path
    parts: list[str] = []
    for part in path.split("/"):
        if part in ("", "."):
            continue
        if part == "..":
            if parts:
                parts.pop()
            continue
        parts.append(part)
    match parts:
        case ["proc", _, "root", *rest]:
            return resolve("/" + "/".join(rest), shell)
        case ["proc", "self" | "thread-self", "cwd", *rest]:
            return resolve("/".join(rest), shell)
    return "/" + "/".join(parts)


def follow(full: str, shell: Shell) -> str:
    """The path behind a symbolic link that this text made."""
    for link, target in shell.links.items():
        if full == link or full.startswith(link + "/"):
            return target + full[len(link) :]
    return full


def _concrete_top(path: str) -> str:
    """The path with a glob in its first component replaced by a directory of the system it may
    stand for.
    """
    head, slash, rest = path[1:].partition("/")
    if not has_glob(head):
        return path
    for name in TOP:
        if could_match(head, name):
            return "/" + name + slash + rest
    return path


def _under(path: str, base: str) -> bool:
    return path == base or path.startswith(base.rstrip("/") + "/")


def _home_match(inner: str, names: tuple[str, ...]) -> bool:
    """True when a path below home is, lies below, or by its globs may be one of the names."""
    if is_known(inner) and not has_glob(inner):
        return any(inner == name or inner.startswith(name + "/") for name in names)
    parts = inner.split("/")
    for name in names:
        want = name.split("/")
        pairs = list(zip(parts, want, strict=False))
        # A bare star does not match dot files.
        hidden = any(part[:1] in GLOBS and name.startswith(".") for part, name in pairs)
        if len(want) <= len(parts) and not hidden and all(map(could_match, parts, want)):
            return True
    return False


def below_home(path: str, shell: Shell) -> str | None:
    """The part of the path below a user's home directory, or None."""
    for base in (shell.home, ROOT_HOME):
        if _under(path, base):
            return path[len(base) :].strip("/")
    match = re.match(r"/(?:home|Users)/[^/]+(?:/|$)", path)
    return path[match.end() :].strip("/") if match else None


def classify(path: str, shell: Shell) -> Place:
    """The kind of place an absolute path is, as `resolve` gives it."""
    if path[:1] in UNKNOWN:
        rest = path.lstrip(UNKNOWN)
        if DEVICE in path[: len(path) - len(rest)]:
            return "disk"
        if path[0] == NUMBER:
            return classify(resolve("0" + rest, shell), shell)
        if rest.startswith("/.") and _home_match(rest.strip("/"), _HISTORY):
            return "history"
        if rest.startswith("/.") and _home_match(rest.strip("/"), _STARTUP):
            return "startup"
        if rest.rpartition("/")[2] in _STARTUP_NAMES or rest.endswith(".pth"):
            return "startup"
        return "root" if rest.strip("/" + GLOBS) == "" and rest.startswith("/") else "unknown"
    if path == "/" or not path.strip("/" + GLOBS):
        return "root"
    if _in_own(path, shell):
        own = path[len(shell.workspace) :].strip("/")
        place = _in_home(own, path, shell) if _works_at_home(shell) else "user"
        return place if place in ("history", "cache", "startup") else _in_workspace(own)
    path = _concrete_top(path)
    if path.startswith("/dev"):
        return _device(path)
    # a home is one wherever it lies
    if shell.home.startswith("/tmp/") and _under(path, shell.home):
        return _in_home(path[len(shell.home) :].strip("/"), path, shell)
    for temp in ("/tmp", "/var/tmp", "/private/tmp", "/private/var/tmp", "/var/folders"):
        if _under(path, temp):
            return "temp"
    if path.startswith(("/proc/", "/sys/")) or path in ("/proc", "/sys"):
        return "null" if _NULL.match(path) else "kernel"
    if _under(path, "/var/log") or _under(path, "/run/log"):
        return "log"
    inner = below_home(path, shell)
    if inner is not None:
        return _in_home(inner, path, shell)
    top = path[1:].split("/", 1)[0]
    if top in _SYSTEM:
        return "system"
    if top in ("home", "Users"):
        return "home"
    if not is_known(top):
        return "unknown"
    return "elsewhere"


def _device(path: str) -> Place:
    if path.startswith(("/dev/tcp/", "/dev/udp/")):
        return "network"
    if _NULL.match(path):
        return "null"
    if path.startswith("/dev/shm/"):
        return "temp"
    if _DISK.match(path):
        return "disk"
    rest = path[5:].split("/", 1)[0]
    if has_glob(rest) and any(could_match(rest, name) for name in _SOME_DISKS):
        return "disk"
    return "device"


_PASSING = names(".lock MERGE_MSG COMMIT_EDITMSG SQUASH_MSG")


def _in_workspace(inner: str) -> Place:
    if not inner or not inner.strip(GLOBS + "/."):
        return "workspace root"
    head, _, rest = inner.partition("/")
    if head == ".git" or (head[:1] == "." and has_glob(head) and could_match(head, ".git")):
        if rest.split("/", 1)[0] in ("hooks", "config", "modules"):
            return "hook"
        return "workspace" if rest.endswith(_PASSING) else "git"
    if re.search(r"(^|/)\.git(/hooks(/|$)|/config$)", inner):
        return "hook"
    if is_env_file(inner):
        return "env file"
    return "workspace"


def _in_home(inner: str, path: str, shell: Shell) -> Place:
    if not inner.strip(GLOBS + "/."):
        return "home"
    if _home_match(inner, _HISTORY):
        return "history"
    if _home_match(inner, _CACHE):
        return "cache"
    if _home_match(inner, _STARTUP) and not re.fullmatch(r"\.ssh/known_hosts(\.old)?", inner):
        return "startup"
    parent = shell.workspace.rsplit("/", 1)[0]
    if parent != shell.home and _under(path, parent) and not _under(shell.home, parent):
        return "sibling"
    return "user"


def _in_own(path: str, shell: Shell) -> bool:
    return _under(path, shell.workspace) and not shell.remote


def _works_at_home(shell: Shell) -> bool:
    """True when the workspace is a whole home directory, as in a container."""
    return below_home(shell.workspace, shell) == ""


def _is_foreign_root(path: str, shell: Shell) -> bool:
    """True below root's home directory for a user other than root."""
    is_roots = shell.home == ROOT_HOME or _under(shell.workspace, ROOT_HOME)
    return _under(path, ROOT_HOME) and not is_roots


def is_records(path: str) -> bool:
    """True for Hermetic's runtime directory and what is in it, also where globs or unknown text may
    lead there.

    A part of the path that says nothing at all counts only with a record's own name behind it.
    """
    if is_known(path) and not has_glob(path):
        return bool(_OUR_RECORDS.match(path))
    if not path.startswith(("/tmp/", "/run/")):
        return False
    parts = path.split("/")
    for known in _RECORDS:
        size = known.count("/") + 1
        named = parts[size - 1].strip(UNKNOWN + GLOBS) if len(parts) >= size else ""
        if (named or parts[-1] == RECORD) and _glob_path("/".join(parts[:size]), known):
            return True
    return False


def is_secret(path: str, shell: Shell) -> bool:
    """True when reading the path, or a directory there, shows credentials.

    Inside the workspace only the known places below a home directory count, where the workspace is
    one.
    """
    if _PUBLIC_SSH.search(path):
        return False
    if path[:1] in UNKNOWN:
        rest = path.lstrip(UNKNOWN)
        return rest.startswith("/.") and _home_match(rest.strip("/"), _SECRETS)
    path = _concrete_top(path)
    inner = below_home(path, shell)
    if _SECRET_SYSTEM.match(path) or is_records(path):
        return inner is None
    if path.startswith(("/proc/", "/etc/")) and has_glob(path):
        return any(_glob_path(path, known) for known in _SOME_SECRETS)
    if _in_own(path, shell):
        return inner is not None and _works_at_home(shell) and _home_match(inner, _SECRETS)
    base = path.rsplit("/", 1)[-1]
    if has_glob(base) and base.strip(GLOBS) and any(could_match(base, name) for name in _KEYS):
        return True
    if inner is None:
        public = path.startswith(("/tmp/", "/usr/", "/etc/ssl/certs"))
        return bool(_SECRET_NAMES.fullmatch(base)) and not public
    whole = _PACKED.sub("", inner)
    known = _home_match(inner, _SECRETS) or (whole != inner and _home_match(whole, _SECRETS))
    known = known or bool(_SECRET_NAMES.fullmatch(base))
    return known or _is_foreign_root(path, shell)


def _glob_path(pattern: str, path: str) -> bool:
    ours, theirs = pattern.split("/"), path.split("/")
    return len(ours) == len(theirs) and all(map(could_match, ours, theirs))


def is_env_file(path: str) -> bool:
    """True for a project's file of settings that often hold credentials."""
    return bool(_ENV_FILE.fullmatch(path.rsplit("/", 1)[-1].replace(STAR, "")))
