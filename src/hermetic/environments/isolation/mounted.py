"""What a sandbox has mounted of the caller's directories, compared with what it was to mount.

A command of another sandbox in the same directory can put a link in the place of a directory or
file between the look at it and the mount, which follows the link.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from hermetic.contract.errors import EnvironmentUnavailable
from hermetic.environments.isolation.workspace import lies_in

PLACEHOLDER = "/dev/null"  # mounted over what is missing
_DELETED = "//deleted"  # ends the path of what was removed since it was mounted


class Mount(NamedTuple):
    """A line of mountinfo."""

    point: str
    device: str
    root: str  # what of the file system on the device is mounted


def check_mounted(pid: int, shared: Sequence[str], points: Iterable[str]) -> None:
    """Raises EnvironmentUnavailable unless this process has mounted the shared directories, has a
    mount at every one of these points in them, and nothing from elsewhere in them.

    The kernel does not list a mount whose point was moved away meanwhile.
    """
    here, there = _mounts("self"), _mounts(pid)
    placeholder = _whence(here, PLACEHOLDER)
    missing = {*points} - {mount.point for mount in there}
    for directory in shared:
        own = _whence(here, directory)
        allowed = [own, *(mount for mount in here if lies_in(mount.point, directory))]
        for mount in there:
            if mount.point == directory:
                is_right = mount[1:] == own[1:]
            elif lies_in(mount.point, directory):
                is_right = _is_part(mount, allowed) or mount[1:] == placeholder[1:]
            else:
                continue
            if not is_right:
                missing.add(mount.point)
    if missing:
        raise EnvironmentUnavailable(
            f"{min(missing)} was replaced while the sandbox started, perhaps by a command of another one; "
            "end what runs in that directory, and open the sandbox again"
        )


def _is_part(mount: Mount, areas: Iterable[Mount]) -> bool:
    return any(mount.device == area.device and lies_in(mount.root, area.root) for area in areas)


def _whence(mounts: Iterable[Mount], path: str) -> Mount:
    """The path as a mount of its own would be."""
    around = [mount for mount in mounts if lies_in(path, mount.point)]
    mount = max(around, key=lambda one: len(one.point))  # the last mounted comes first
    rest = path[len(mount.point.rstrip("/")) :]
    return Mount(path, mount.device, mount.root.rstrip("/") + rest or "/")


def _mounts(process: int | str) -> list[Mount]:
    """The mounts that a process sees, the last first."""
    text = Path(f"/proc/{process}/mountinfo").read_text("utf-8", "surrogateescape")
    fields = [line.split(" ") for line in text.split("\n") if line]
    found = [Mount(_unescaped(words[4]), words[2], _unescaped(words[3])) for words in fields]
    return [mount._replace(root=mount.root.removesuffix(_DELETED)) for mount in reversed(found)]


def _unescaped(text: str) -> str:
    """Blanks, line breaks and backslashes are written as octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
