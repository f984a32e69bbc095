"""Changes of several files: all of them, or none.

First all new content is written to temporary files, where a failure changes nothing. Then the files are renamed, each
old file keeping a second name until the last rename; a rollback needs no disk space. A journal records the progress for
recovery.
"""

from __future__ import annotations

import errno
import os
import stat

from ..limits import PATCHED_FILES
from ..wire import fields as take
from ..wire import frames
from . import changes
from .journal import CHANGING, DONE, WRITING, discard

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from ..wire.frames import Fields
    from .journal import Entry, Journal
    from .safe_path import SafePath

_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Change:
    """The change of one file: its new content, or its removal. `location` stays open until `close`."""

    def __init__(self, location: SafePath, size: int | None, mode: int | None, expect: str | None) -> None:
        self.location, self.size, self.mode, self.expect = location, size, mode, expect
        self.aside = ".hermetic-%s" % os.urandom(8).hex()
        self.kept = ".hermetic-%s" % os.urandom(8).hex()
        self.old: os.stat_result | None = None
        self.is_aside = self.is_kept = self.is_done = False
        self.result: Fields = {}

    def prepare(self, source: int, offset: int) -> None:
        """Writes the new content to a temporary file."""
        self.old = changes.check_expected(self.location, self.expect)
        if self.old is None and self.size is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        if self.old is not None and not stat.S_ISREG(self.old.st_mode):
            what = "a link; name the file it leads to" if stat.S_ISLNK(self.old.st_mode) else "no plain file"
            raise PermissionError(errno.EPERM, "it is %s: nothing was changed" % what)
        if self.size is None:
            return
        if self.old is not None:
            changes.check_writable(self.location)
        fd = os.open(self.aside, _NEW, 0o600, dir_fd=self.location.directory)
        self.is_aside = True
        try:
            _copy(fd, source, offset, self.size)
            changes.copy_metadata(fd, self.old, self.mode)
            self.result = changes.describe(self.location, os.fstat(fd))
        finally:
            os.close(fd)

    def commit(self) -> None:
        """Renames the temporary file, unless the target has changed."""
        where = self.location.directory
        changes.check_expected(self.location, self.expect)
        if self.old is not None:
            self._keep(where)
        if self.size is not None:
            changes.rename(self.aside, where, self.location, replace=self.old is not None)
        self.is_aside, self.is_done = False, True

    def _keep(self, where: int) -> None:
        """Gives the old file a second name. Without hard links, or for a removal, renames it instead."""
        if self.size is not None:
            try:
                os.link(self.location.name, self.kept, src_dir_fd=where, dst_dir_fd=where, follow_symlinks=False)
                self.is_kept = True
                return
            except OSError as error:
                if error.errno not in changes.NO_LINKS:
                    raise
        os.rename(self.location.name, self.kept, src_dir_fd=where, dst_dir_fd=where)
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

    def finish(self) -> None:
        """Removes the old file's second name, and completes the result."""
        if self.is_kept:
            discard(self.kept, self.location.directory)
        self.result = dict(
            self.result or {"path": self.location.path}, created=self.old is None, made=self.location.made
        )


def read_changes(named: bytes, location: Callable[[Fields, bool], SafePath]) -> list[Change]:
    """The changes that a request lists, with open locations. Raises Refusal, with nothing left open or created."""
    try:
        items = frames.unpack(named)
    except frames.FrameError:
        items = None
    if type(items) is not list or not 0 < len(items) <= PATCHED_FILES or any(type(item) is not dict for item in items):
        raise take.invalid("changes", "changes must be 1 to %d maps" % PATCHED_FILES)
    found: list[Change] = []
    try:
        for item in items:
            size = None if item.get("size") is None else take.number(item, "size")
            mode = None if item.get("mode") is None else take.number(item, "mode", 0o666, 0, 0o7777)
            expect = None if item.get("expect") is None else take.text(item, "expect")
            found.append(Change(location(item, size is not None), size, mode, expect))
            found[-1].location.close_parents()
        keys = [change.location.key for change in found]
        if len(set(keys)) != len(keys):
            raise take.invalid("changes", "two of the paths lead to the same file; name each file once")
    except BaseException:
        remove_made(found)
        close(found)
        raise
    return found


def change_all(
    found: Sequence[Change], source: int, naming: Callable[[str], AbstractContextManager[None]], journal: Journal
) -> list[Fields]:
    """Performs the changes. An error is raised inside `naming(path)`, after all files are restored."""
    try:
        made = [os.fsencode(path) for change in found for path in change.location.made]
        journal.begin([change.entry() for change in found], made)
        offset = 0
        for change in found:
            with naming(change.location.path):
                change.prepare(source, offset)
            offset += change.size or 0
        journal.go_on(WRITING, CHANGING)
        for change in found:
            with naming(change.location.path):
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
    for change in found:
        change.finish()
    journal.end()
    return [change.result for change in found]


def remove_made(found: Sequence[Change]) -> None:
    """Removes directories that were created for a failed change."""
    for change in reversed(found):
        for path in reversed(change.location.made):
            try:
                os.rmdir(path)
            except OSError:  # in use by another program
                break


def close(found: Sequence[Change]) -> None:
    """Closes the locations."""
    for change in found:
        change.location.close()


def _copy(fd: int, source: int, offset: int, size: int) -> None:
    while size:
        sent = os.sendfile(fd, source, offset, size)
        if not sent:
            raise take.invalid("blob", "it holds less than the changes say")
        offset, size = offset + sent, size - sent
