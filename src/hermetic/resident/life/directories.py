"""Private directory and spool of a resident on a machine whose paths its starter does not know."""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..wire.frames import Fields

IN_MEMORY = ("tmpfs", "ramfs", "devtmpfs", "rootfs")


def settle(config: Fields) -> None:
    """Fills in `directory` and `spool`, and expands the home in `cwd`. Raises OSError."""
    own, home = "hermetic-%d" % os.geteuid(), os.path.expanduser("~")
    cache = home + "/.cache/hermetic"
    # Not the user's runtime directory: it is removed at the last logout, while the resident stays.
    bases = ["/tmp/" + own, "/var/tmp/" + own + "/run", cache + "/run"]
    config["directory"] = make_private(bases, config["id"])
    disks = [base for base in ("/var/tmp/" + own, cache) if not is_in_memory(base)]
    try:
        config["spool"] = make_private(disks, config["id"])
    except OSError:
        config["spool"] = None
    config["cwd"] = os.path.join(home, os.path.expanduser(config["cwd"]))


def make_spool(config: Fields) -> None:
    """Makes a spool that the image lacks; its user may not be able to, then /tmp serves."""
    if config["spool"] is not None and not os.path.isdir(config["spool"]):
        try:
            os.makedirs(config["spool"])
            os.chmod(config["spool"], 0o1777)
        except OSError:
            config["spool"] = "/tmp" if os.access("/tmp", os.W_OK) else None


def make_private(bases: Iterable[str], name: str) -> str:
    """Creates a private directory below the first base that allows it."""
    problems = []
    for base in bases:
        try:
            os.makedirs(base, 0o700, exist_ok=True)
            if not is_ours(base):
                raise PermissionError("%s: others own it or may write to it" % base)
            os.mkdir(base + "/" + name, 0o700)
            return base + "/" + name
        except OSError as error:
            problems.append(str(error))
    raise OSError("no directory of our own can be made there: " + "; ".join(problems))


def is_ours(base: str) -> bool:
    """Whether a directory belongs to us, and no other user may write to it."""
    seen = os.lstat(base)
    return stat.S_ISDIR(seen.st_mode) and seen.st_uid == os.geteuid() and not seen.st_mode & 0o022


def is_in_memory(path: str, mounts: str = "/proc/self/mounts") -> bool:
    """Whether the mount that contains `path` is a file system in memory."""
    target, best, kind = os.path.realpath(path) + "/", "", ""
    with open(mounts, "rb") as lines:
        for line in lines:
            mount, fstype = os.fsdecode(line).split(" ")[1:3]
            mount = mount.rstrip("/") + "/"
            if target.startswith(mount) and len(mount) >= len(best):
                best, kind = mount, fstype
    return kind in IN_MEMORY
