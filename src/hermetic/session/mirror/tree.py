"""A directory of this machine as a mirror sees it: what is in it, what has changed, and an archive
of that.
"""

import hashlib
import io
import os
import stat
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import IO

import msgspec

from hermetic.contract.variables import is_text

# header of an archive's member: the time to the nanosecond, as a whole number
MTIME = "HERMETIC.mtime"
LINK, FOLDER = "link ", "folder"  # digests of what is no file


class Entry(msgspec.Struct, frozen=True):
    """One path: what tells that it has changed, and once it was sent the digest of what was."""

    kind: str  # "file", "link", "folder"
    mtime: int = 0  # nanoseconds; of files
    size: int = 0
    mode: int = 0
    target: str = ""  # of links
    digest: str = ""

    def is_as(self, other: "Entry | None") -> bool:
        """True when it counts as unchanged."""
        return other is not None and self == msgspec.structs.replace(other, digest="")


def scan(
    root: str, skipped: str, warn: Callable[[str], None], only: Sequence[str] | None = None
) -> dict[str, Entry]:
    """Path → what is there, folders before what is in them; what is neither file, link nor folder
    is left out.

    With `only`, these files and folders as far as they exist, without links.
    """
    paths = (
        _names(root, "", skipped)
        if only is None
        else [path for path in only if not _passes_a_link(root, path)]
    )
    found: dict[str, Entry] = {}
    for path, entry in _entries(root, paths, skipped):
        if not (is_text(path) and is_text(entry.target)):
            warn(f"{root}/{os.fsencode(path)!r} is not sent: its name is not UTF-8")
        elif only is None or entry.kind != "link":
            found[path] = entry
    return found


def _passes_a_link(root: str, path: str) -> bool:
    return os.path.realpath(os.path.join(root, path)) != os.path.join(os.path.realpath(root), path)


def _names(root: str, folder: str, skipped: str) -> list[str]:
    names = sorted(os.listdir(os.path.join(root, folder)))
    return [os.path.join(folder, name) for name in names if not name.startswith(skipped)]


def _entries(root: str, paths: Iterable[str], skipped: str) -> Iterator[tuple[str, Entry]]:
    for path in paths:
        if (seen := look(os.path.join(root, path))) is not None:
            yield path, seen
            if seen.kind == "folder":
                yield from _entries(root, _names(root, path, skipped), skipped)


def look(path: str) -> Entry | None:
    """What is at this path now; None where there is nothing to mirror."""
    try:
        seen = os.lstat(path)
        mode = stat.S_IMODE(seen.st_mode) & 0o777
        if stat.S_ISLNK(seen.st_mode):
            return Entry("link", target=os.readlink(path))
        if stat.S_ISDIR(seen.st_mode):
            return Entry("folder", mode=mode)
        if stat.S_ISREG(seen.st_mode):
            return Entry("file", mtime=seen.st_mtime_ns, size=seen.st_size, mode=mode)
    except FileNotFoundError:  # it went while we looked
        pass
    return None


def pack(root: str, changed: Mapping[str, Entry], target: IO[bytes]) -> dict[str, Entry]:
    """Writes an archive of these paths; returns them with the digests of what was packed. Raises
    OSError.

    Folders above a path are in it too: on the other side something else may have taken their place.
    """
    packed: dict[str, Entry] = {}
    with_folders = dict.fromkeys(
        one for path in changed for one in accumulate(path.split("/"), "{}/{}".format)
    )
    with tarfile.open(fileobj=target, mode="w:", format=tarfile.PAX_FORMAT) as tar:
        for path in with_folders:
            entry = changed.get(path) or look(os.path.join(root, path))
            if entry is not None:
                packed[path] = msgspec.structs.replace(entry, digest=_add(tar, root, path, entry))
    target.flush()
    return packed


def _add(tar: tarfile.TarFile, root: str, path: str, entry: Entry) -> str:
    """Adds one path; returns its digest."""
    member = tarfile.TarInfo(path)
    member.mode, member.mtime = entry.mode, entry.mtime // 10**9
    member.pax_headers = {MTIME: str(entry.mtime)}
    if entry.kind == "file":
        fd = os.open(
            os.path.join(root, path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        )
        with open(fd, "rb") as file:
            member.size = entry.size
            content = Hashing(file)
            tar.addfile(member, content)
            return content.digest.hexdigest()
    member.type, member.linkname = (
        tarfile.SYMTYPE if entry.kind == "link" else tarfile.DIRTYPE,
        entry.target,
    )
    tar.addfile(member)
    return f"{LINK}{entry.target}" if entry.kind == "link" else FOLDER


class Hashing(io.RawIOBase):
    """Reads from a file and remembers the digest of all that was read."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        data = self._file.read(size)
        self.digest.update(data)
        return data
