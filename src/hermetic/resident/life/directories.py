"""A private directory and a spool, on a machine whose paths the starter does not know."""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..wire.frames import Fields

IN_MEMORY = ("tmpfs", "ramfs", "devtmpfs", "rootfs")


def settle(config: Fields) -> None:
    """Fill in `directory` and `spool`, and the home where the cwd starts with one. Raises OSError."""
    own, home = "hermetic-%d" % os.geteuid(), os.path.expanduser("~")
    cache = home + "/.cache/hermetic"
    # Not the user's runtime directory: that goes with the last login, while what runs here stays.
    bases = ["/tmp/" + own, "/var/tmp/" + own + "/run", cache + "/run"]
    config["directory"] = make_private(bases, config["id"])
    disks = [base for base in ("/var/tmp/" + own, cache) if not is_in_memory(base)]
    try:
        config["spool"] = make_private(disks, config["id"])
    except OSError:
        config["spool"] = None
    config["cwd"] = os.path.join(home, os.path.expanduser(config["cwd"]))


def make_private(bases: Iterable[str], name: str) -> str:
    """A new directory in the first of these that can be had for ourselves alone."""
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
    """Whether a directory belongs to us, and nobody else may write to it."""
    seen = os.lstat(base)
    return stat.S_ISDIR(seen.st_mode) and seen.st_uid == os.geteuid() and not seen.st_mode & 0o022


def is_in_memory(path: str, mounts: str = "/proc/self/mounts") -> bool:
    """True when the mount that `path` lies on, or would lie on, is a file system in memory."""
    target, best, kind = os.path.realpath(path) + "/", "", ""
    with open(mounts, "rb") as lines:
        for line in lines:
            place, fstype = os.fsdecode(line).split(" ")[1:3]
            place = place.rstrip("/") + "/"
            if target.startswith(place) and len(place) >= len(best):
                best, kind = place, fstype
    return kind in IN_MEMORY
