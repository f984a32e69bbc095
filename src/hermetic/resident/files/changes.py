"""Atomic changes of files: other programs see the old file or the new one, and of several files all
change or none.

New content is written to a temporary file, where a failure changes nothing. Then the file is
renamed. In a change of several files each old file keeps a second name until the last rename, so a
rollback needs no disk space, and a journal records the progress for recovery.
"""

from __future__ import annotations

import errno
import os
import stat
import time

from ..processes.unnamed import write_all
from ..wire import fields as take
from ..wire.fields import Refusal
from .journal import CHANGING, DONE, TEMPORARY, WRITING, discard

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..wire.frames import Fields
    from .journal import Entry, Journal
    from .safe_path import SafePath

    Begin = Callable[[Callable[[], None]], None]  # gets `done`, which it calls once, now or later

CHANGED = "%s has changed since it was read: read it again, then decide anew"
MISSING = ""  # signature of a missing file
# errors of a file system without hard links
NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_ERRORS: dict[int | None, str] = {
    errno.ENOENT: "FileNotFoundError",
    errno.EISDIR: "IsADirectoryError",
    errno.ENOTDIR: "NotADirectoryError",
    errno.EACCES: "PermissionError",
    errno.EPERM: "PermissionError",
    errno.EEXIST: "FileExistsError",
}


class refusing:  # reads as a verb: `with refusing(path):`
    """Turns an OSError in its block into a Refusal that names the path.

    It has the symbolic errno, because numbers differ between machines.
    """

    def __init__(self, path: str) -> None:
        self.path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, OSError):
            name, message = (
                _ERRORS.get(error.errno, "OSError"),
                "%s: %s" % (self.path, error.strerror or error),
            )
            code = errno.errorcode.get(error.errno or 0, "")
            raise Refusal(name, message, errno=code, path=self.path) from error


class FileLocks:
    """Serialises changes of the same file."""

    def __init__(self) -> None:
        self.waiting: list[tuple[frozenset[object], Begin]] = []  # in order of arrival
        self.busy: set[object] = set()
        self.is_looking = False

    def take(self, keys: list[object], begin: Begin) -> None:
        """Calls `begin(done)` when no other change of these files runs."""
        self.waiting.append((frozenset(keys), begin))
        self._look()

    def _look(self) -> None:
        if self.is_looking:  # called from `begin`: the outer call looks again
            return
        self.is_looking = True
        try:
            while (ready := self._next()) is not None:
                keys, begin = ready
                self.busy |= keys
                begin(lambda keys=keys: self._release(keys))  # type: ignore[misc]
        finally:
            self.is_looking = False

    def _next(self) -> tuple[frozenset[object], Begin] | None:
        """The first change that no running or earlier one of the same files holds up."""
        taken = set(self.busy)
        for at, (keys, _) in enumerate(self.waiting):
            if not keys & taken:
                return self.waiting.pop(at)
            taken |= keys
        return None

    def _release(self, keys: frozenset[object]) -> None:
        self.busy -= keys
        self._look()


def signature(status: os.stat_result | None) -> str:
    """A text that differs after a file was replaced or changed."""
    if status is None:
        return MISSING
    return "%x-%x-%x" % (status.st_ino, status.st_size, status.st_mtime_ns)


def describe(location: SafePath, status: os.stat_result) -> Fields:
    kind = (
        "file"
        if stat.S_ISREG(status.st_mode)
        else "directory"
        if stat.S_ISDIR(status.st_mode)
        else "other"
    )
    return {
        "path": location.path,
        "kind": kind,
        "size": status.st_size,
        "mode": stat.S_IMODE(status.st_mode),
        "mtime": status.st_mtime,
        "signature": signature(status),
    }


def missing() -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))


def check_expected(location: SafePath, expect: str | None) -> os.stat_result | None:
    """The file's current status. Raises Refusal if the caller expects another signature."""
    status = location.status()
    if status is not None and stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if expect is not None and signature(status) != expect:
        raise Refusal("FileChanged", CHANGED % location.path)
    return status


class Change:
    """The change of one file: its new content, or its removal (`size` is None).

    `location` is open.
    """

    def __init__(
        self, location: SafePath, size: int | None, mode: int | None, expect: str | None
    ) -> None:
        self.location, self.size, self.mode, self.expect = location, size, mode, expect
        self.aside, self.kept = (TEMPORARY + os.urandom(8).hex() for _ in range(2))
        self.old: os.stat_result | None = None
        self.is_aside = self.is_kept = self.is_done = False
        self.result: Fields = {}

    def prepare(self, source: bytes | int, offset: int = 0) -> None:
        """Writes the new content, bytes or a part of an open file, to a temporary file."""
        self.old = check_expected(self.location, self.expect)
        if self.old is None and self.size is None:
            raise missing()
        if self.old is not None and not stat.S_ISREG(self.old.st_mode):
            what = (
                "a link; name the file it leads to"
                if stat.S_ISLNK(self.old.st_mode)
                else "a device, a socket or a pipe, not a file"
            )
            raise PermissionError(errno.EPERM, "it is %s: nothing was changed" % what)
        if self.size is None:
            return
        if self.old is not None:
            self._check_writable()
        fd = os.open(self.aside, _NEW, 0o600, dir_fd=self.location.directory)
        self.is_aside = True
        try:
            _copy(fd, source, offset, self.size)
            _copy_metadata(fd, self.old, self.mode)
            self.result = describe(self.location, os.fstat(fd))
        finally:
            os.close(fd)

    def _check_writable(self) -> None:
        """Raises OSError if a program could not open the file for writing.

        A replacement needs only the directory's permissions, and would bypass the file's own.
        """
        try:
            os.close(self.location.open(os.O_WRONLY))
        except OSError as error:
            # a running program can be replaced, though not written
            if error.errno != errno.ETXTBSY:
                raise

    def commit(self) -> None:
        """Renames the temporary file, unless the target has changed, and keeps the old file under a
        second name.
        """
        check_expected(self.location, self.expect)
        if self.old is not None:
            self._keep()
        if self.size is not None:
            self.replace(replace=self.old is not None)
        self.is_done = True

    def replace(self, replace: bool) -> None:
        _rename(self.aside, self.location.directory, self.location, replace)
        self.is_aside = False

    def _keep(self) -> None:
        """Gives the old file a second name.

        Without hard links, or for a removal, renames it instead.
        """
        where, name = self.location.directory, self.location.name
        try:
            if self.size is None:
                os.rename(name, self.kept, src_dir_fd=where, dst_dir_fd=where)
            else:
                os.link(name, self.kept, src_dir_fd=where, dst_dir_fd=where, follow_symlinks=False)
        except OSError as error:
            if self.size is None or error.errno not in NO_LINKS:
                raise
            os.rename(name, self.kept, src_dir_fd=where, dst_dir_fd=where)
        self.is_kept = True

    def undo(self) -> None:
        """Restores the old file."""
        where = self.location.directory
        if self.is_kept:
            os.rename(self.kept, self.location.name, src_dir_fd=where, dst_dir_fd=where)
            # A rename between two names of one file does nothing, so the second name is removed.
            discard(self.kept, where)
        elif self.is_done:
            discard(self.location.name, where)
        if self.is_aside:
            discard(self.aside, where)

    def entry(self) -> Entry:
        """The journal entry that recovery needs."""
        folder = os.fsencode(os.path.dirname(self.location.path) or "/")
        name = os.fsencode(self.location.name)
        return folder, self.location.key[:2], name, self.aside, self.kept, self.size is not None

    def finish(self) -> Fields:
        """Removes the old file's second name. Returns the result."""
        if self.is_kept:
            discard(self.kept, self.location.directory)
        result = self.result or {"path": self.location.path}
        return dict(result, created=self.old is None, made=self.location.made)


def change_all(found: Sequence[Change], source: bytes | int, journal: Journal) -> list[Fields]:
    """Performs all changes or none. An error is raised after all files are restored."""
    try:
        made = [os.fsencode(path) for change in found for path in change.location.made]
        journal.begin([change.entry() for change in found], made)
        offset = 0
        for change in found:
            with refusing(change.location.path):
                change.prepare(source, offset)
            offset += change.size or 0
        journal.go_on(WRITING, CHANGING)
        for change in found:
            with refusing(change.location.path):
                change.commit()
    except BaseException:
        for change in reversed(found):
            try:
                change.undo()
            except OSError:  # the other files are restored anyway
                pass
        remove_made(found)
        journal.end()
        raise
    journal.go_on(CHANGING, DONE)
    results = [change.finish() for change in found]
    journal.end()
    return results


def remove_made(found: Sequence[Change]) -> None:
    """Removes directories that were created for a failed change."""
    for change in reversed(found):
        for path in reversed(change.location.made):
            try:
                os.rmdir(path)
            except OSError:  # in use by another program
                break


def write(location: SafePath, source: bytes | int, mode: int | None, expect: str | None) -> Fields:
    """Replaces one file. A mount point, such as a container's /etc/hosts, is written in place."""
    size = len(source) if isinstance(source, bytes) else os.fstat(source).st_size
    change = Change(location, size, mode, expect)
    try:
        change.prepare(source)
        check_expected(location, expect)
        change.replace(replace=expect != MISSING)
    except BaseException as error:
        change.undo()
        if isinstance(error, OSError) and error.errno == errno.EBUSY and change.old is not None:
            change.result = _write_in_place(location, change.old, source, size)
        elif isinstance(error, FileExistsError):
            raise Refusal("FileChanged", CHANGED % location.path) from error
        else:
            raise
    return change.finish()


def _write_in_place(
    location: SafePath, old: os.stat_result, source: bytes | int, size: int
) -> Fields:
    fd = location.open(os.O_WRONLY)
    try:
        status = os.fstat(fd)
        if (status.st_dev, status.st_ino) != (old.st_dev, old.st_ino):
            raise Refusal("FileChanged", CHANGED % location.path)
        os.set_blocking(fd, True)
        os.ftruncate(fd, 0)
        _copy(fd, source, 0, size)
        return describe(location, os.fstat(fd))
    finally:
        os.close(fd)


def _copy(fd: int, source: bytes | int, offset: int, size: int) -> None:
    if isinstance(source, bytes):
        if offset + size > len(source):
            raise take.invalid("changes", "the body holds less than the changes say")
        write_all(fd, source[offset : offset + size])
        return
    while size:
        sent = os.sendfile(fd, source, offset, size)
        if not sent:
            raise take.invalid("blob", "it holds less than the changes say")
        offset, size = offset + sent, size - sent


def _copy_metadata(fd: int, old: os.stat_result | None, mode: int | None) -> None:
    """Copies owner and mode of the replaced file.

    If the owner cannot be kept, special bits are dropped.
    """
    # The kernel's timestamp may be milliseconds coarse, and inode numbers are reused: two files of
    # the same size that replaced each other within that time would have the same signature.
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


def delete(location: SafePath, expect: str | None) -> Fields:
    """Removes a file. A symbolic link is removed itself, not its target."""
    if check_expected(location, expect) is None:
        raise missing()
    os.unlink(location.name, dir_fd=location.directory)
    return {"path": location.path}


def move(location: SafePath, target: SafePath, expect: str | None, replace: bool) -> Fields:
    """Renames a file. An existing target is replaced only with `replace`."""
    if check_expected(location, expect) is None:
        raise missing()
    check_expected(target, None if replace else MISSING)
    _rename(location.name, location.directory, target, replace)
    status = os.stat(target.name, dir_fd=target.directory, follow_symlinks=False)
    return dict(describe(target, status), made=target.made)


def _rename(name: str, directory: int, target: SafePath, replace: bool) -> None:
    """Renames.

    Without `replace` it fails if the target exists, even if it was created at the last moment.
    """
    if not replace:
        try:
            os.link(
                name,
                target.name,
                src_dir_fd=directory,
                dst_dir_fd=target.directory,
                follow_symlinks=False,
            )
            os.unlink(name, dir_fd=directory)
            return
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
    os.rename(name, target.name, src_dir_fd=directory, dst_dir_fd=target.directory)
