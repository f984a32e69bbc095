"""Atomic changes of single files: other programs see the old file or the new one."""

from __future__ import annotations

import errno
import os
import stat
import time

from ..wire.fields import Refusal
from .safe_path import find, find_quickly

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..wire.frames import Fields
    from .safe_path import SafePath

CHANGED = "%s has changed since it was read: read it again, then decide anew"
MISSING = ""  # signature of a missing file
NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)  # errors of a file system without hard links
TURNS = 16  # attempts on a name that other programs keep changing


class FileLocks:
    """Serialises changes of the same file. `work(done)` starts when no other change of its files runs."""

    def __init__(self) -> None:
        self.busy: set[object] = set()
        self.waiting: list[tuple[frozenset[object], Callable[[Callable[[], None]], None]]] = []
        self.looking = self.again = False

    def take(self, keys: list[object], work: Callable[[Callable[[], None]], None]) -> None:
        """Queues work in order of arrival. `work` calls `done` once, now or later."""
        self.waiting.append((frozenset(keys), work))
        self._look()

    def _look(self) -> None:
        self.again = True
        if self.looking:  # called from a callback: the outer call starts the next work
            return
        self.looking = True
        try:
            while self.again:
                self.again = False
                self._begin()
        finally:
            self.looking = False

    def _begin(self) -> None:
        taken, waiting, self.waiting = set(self.busy), self.waiting, []
        ready = []
        for keys, work in waiting:
            if keys & taken:
                self.waiting.append((keys, work))
            else:
                self.busy |= keys
                ready.append((keys, work))
            taken |= keys
        for keys, work in ready:
            work(lambda keys=keys: self._release(keys))  # type: ignore[misc]

    def _release(self, keys: frozenset[object]) -> None:
        self.busy -= keys
        self._look()


def signature(status: os.stat_result | None) -> str:
    """A text that differs after a file was replaced or changed."""
    if status is None:
        return MISSING
    return "%x-%x-%x" % (status.st_ino, status.st_size, status.st_mtime_ns)


def describe(location: SafePath, status: os.stat_result) -> Fields:
    kind = "file" if stat.S_ISREG(status.st_mode) else "directory" if stat.S_ISDIR(status.st_mode) else "other"
    return {
        "path": location.path,
        "kind": kind,
        "size": status.st_size,
        "mode": stat.S_IMODE(status.st_mode),
        "mtime": status.st_mtime,
        "signature": signature(status),
    }


def check_expected(location: SafePath, expect: str | None) -> os.stat_result | None:
    """The file's current status. Raises Refusal if the caller expects another signature."""
    status = location.status()
    if status is not None and stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if expect is not None and signature(status) != expect:
        raise Refusal("FileChanged", CHANGED % location.path)
    return status


def check_writable(location: SafePath) -> None:
    """Raises OSError if a program could not open the file for writing.

    A replacement needs only the directory's permissions, and would bypass the file's own.
    """
    try:
        os.close(location.open(os.O_WRONLY))
    except OSError as error:
        if error.errno != errno.ETXTBSY:  # a running program can be replaced, though not written
            raise


def write(location: SafePath, body: bytes, source: int | None, mode: int | None, expect: str | None) -> Fields:
    """Writes the body or all of `source` to a temporary file and renames it: readers never see half of it."""
    old = check_expected(location, expect)
    if old is not None and not stat.S_ISREG(old.st_mode):
        what = "a link that was just put there" if stat.S_ISLNK(old.st_mode) else "a device, a socket or a pipe"
        raise PermissionError(errno.EPERM, "it is %s, not a file: nothing was written" % what)
    if old is not None:
        check_writable(location)
    aside = ".hermetic-%s" % os.urandom(8).hex()
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(aside, flags, 0o600, dir_fd=location.directory)
    try:
        _fill(fd, body, source)
        copy_metadata(fd, old, mode)
        status = os.fstat(fd)
        check_expected(location, expect)
        rename(aside, location.directory, location, replace=expect != MISSING)
    except BaseException as error:
        os.unlink(aside, dir_fd=location.directory)
        if isinstance(error, OSError) and error.errno == errno.EBUSY and old is not None:
            return _write_in_place(location, old, body, source)
        if isinstance(error, FileExistsError):
            raise Refusal("FileChanged", CHANGED % location.path) from error
        raise
    finally:
        os.close(fd)
    return dict(describe(location, status), created=old is None, made=location.made)


def _fill(fd: int, body: bytes, source: int | None) -> None:
    view = memoryview(body)
    while view:
        view = view[os.write(fd, view) :]
    if source is not None:
        os.lseek(source, 0, os.SEEK_SET)
        while os.sendfile(fd, source, None, 1 << 24):
            pass


def copy_metadata(fd: int, old: os.stat_result | None, mode: int | None) -> None:
    """Copies owner and mode of the replaced file. If the owner cannot be kept, special bits are dropped."""
    # The kernel's timestamp may be milliseconds coarse, and inode numbers are reused: two files of the same size that
    # replaced each other within that time would have the same signature.
    os.utime(fd, ns=(time.time_ns(), time.time_ns()))
    if old is None:
        umask = os.umask(0o022)
        os.umask(umask)
        os.fchmod(fd, 0o666 & ~umask if mode is None else mode)
        return
    kept = stat.S_IMODE(old.st_mode) if mode is None else mode
    try:
        os.fchown(fd, old.st_uid, old.st_gid)
    except PermissionError:
        kept &= 0o777
    os.fchmod(fd, kept)


def _write_in_place(location: SafePath, old: os.stat_result, body: bytes, source: int | None) -> Fields:
    """Writes a mount point in place, such as a container's /etc/hosts, which cannot be replaced."""
    fd = location.open(os.O_WRONLY)
    try:
        if (os.fstat(fd).st_dev, os.fstat(fd).st_ino) != (old.st_dev, old.st_ino):
            raise Refusal("FileChanged", CHANGED % location.path)
        os.set_blocking(fd, True)
        os.ftruncate(fd, 0)
        _fill(fd, body, source)
        return dict(describe(location, os.fstat(fd)), created=False, made=[])
    finally:
        os.close(fd)


def delete(location: SafePath, expect: str | None) -> Fields:
    """Removes a file. A symbolic link is removed itself, not its target."""
    if check_expected(location, expect) is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    os.unlink(location.name, dir_fd=location.directory)
    return {"path": location.path}


def move(location: SafePath, target: SafePath, expect: str | None, replace: bool) -> Fields:
    """Renames a file. An existing target is replaced only with `replace`."""
    old = check_expected(location, expect)
    if old is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    check_expected(target, None if replace else MISSING)
    rename(location.name, location.directory, target, replace)
    status = os.stat(target.name, dir_fd=target.directory, follow_symlinks=False)
    return dict(describe(target, status), made=target.made)


def rename(name: str, directory: int, target: SafePath, replace: bool) -> None:
    """Renames. Without `replace` it fails if the target exists, even if it was created at the last moment."""
    if not replace:
        try:
            os.link(name, target.name, src_dir_fd=directory, dst_dir_fd=target.directory, follow_symlinks=False)
            os.unlink(name, dir_fd=directory)
            return
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
    os.rename(name, target.name, src_dir_fd=directory, dst_dir_fd=target.directory)


def locate(
    path: str, allow: Callable[[SafePath], None], make: bool, follow: bool = True, quick: bool = False
) -> SafePath:
    """The checked location of a path. It is not a symbolic link, which another program may create meanwhile.

    `quick`: `allow` does not depend on the parent directories.
    """
    for turn in range(TURNS):
        first = find_quickly(path) if quick and turn == 0 else None
        location = first or find(path, allow if make else None, follow)
        status = location.status()
        if status is None or not follow or not stat.S_ISLNK(status.st_mode):
            try:
                allow(location)
            except BaseException:
                location.close()
                raise
            return location
        location.close()
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
