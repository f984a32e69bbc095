"""Journal of a change of several files, written before the change; recovery completes or reverts a
partial change.

The journal's file name holds its state. WRITING: new content goes to temporary files. CHANGING:
files are being renamed; recovery reverts all of them. DONE: only the old files' second names remain
to be removed.

The writer holds a lock on the file while it lives. A journal of files that outlive the resident is
stored beside them, where the next resident finds it; others are in the resident's own directory,
where the guardian finds them.
"""

from __future__ import annotations

import fcntl
import os

from ..processes.unnamed import write_all
from ..wire import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Tuple

    # Per file: its directory, the directory's device and inode, its name, the temporary names of
    # new and old content, and whether there is new content.
    Entry = Tuple[bytes, Tuple[int, int], bytes, str, str, bool]

TEMPORARY = ".hermetic-"  # prefix of all our temporary files
WRITING, CHANGING, DONE = (
    TEMPORARY + "patch-%s." % state for state in ("writing", "changing", "done")
)
NEW = TEMPORARY + "patch-new."  # incomplete: nothing was changed yet


class Journal:
    """The journal of one change."""

    def __init__(self, directory: str) -> None:
        self.directory, self.id = directory, os.urandom(8).hex()
        self.state = ""
        self.lock: int | None = None

    def begin(self, entries: Sequence[Entry], made: Sequence[bytes]) -> None:
        """Creates the journal.

        Raises OSError, with nothing begun. `made` are directories created for the change.
        """
        self.lock = os.open(
            self._path(NEW),
            os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC,
            0o600,
        )
        self.state = NEW
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # file system without locks: the journal is not recovered later
            pass
        # The journal holds its own inode: a journal from an archive or a repository is ignored.
        write_all(self.lock, frames.pack([os.fstat(self.lock).st_ino, entries, made]))
        self.go_on(NEW, WRITING)

    def go_on(self, before: str, now: str) -> None:
        os.rename(self._path(before), self._path(now))
        self.state = now

    def end(self) -> None:
        """Removes the journal."""
        if self.state:
            os.unlink(self._path(self.state))
            self.state = ""
        if self.lock is not None:
            os.close(self.lock)
            self.lock = None

    def recover(self) -> None:
        """Recovers the change after its writer, another process, was killed."""
        for state in (CHANGING, WRITING, DONE, NEW):
            _recover(self._path(state), state)

    def _path(self, state: str) -> str:
        return "%s/%s%s" % (self.directory, state, self.id)


def directory_for(path: str, shared: Sequence[str], own: str) -> str:
    """The directory of a change's journal: the shared directory that contains the path, else our
    own.
    """
    above = [
        one
        for one in shared
        if path.startswith(one.rstrip("/") + "/") and os.access(one, os.W_OK | os.X_OK)
    ]
    return max(above, key=len) if above else own


def recover_all(directory: str) -> None:
    """Recovers every change in a directory whose writer is dead."""
    for name in os.listdir(directory):
        for state in (CHANGING, WRITING, DONE, NEW):
            if name.startswith(state):
                _recover("%s/%s" % (directory, name), state)


def _recover(path: str, state: str) -> None:
    try:
        journal = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    try:
        fcntl.flock(journal, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # another process recovered it meanwhile
        if os.stat(path).st_ino != os.fstat(journal).st_ino:
            return
        if state == NEW:
            os.unlink(path)
            return
        with open(journal, "rb", closefd=False) as file:
            inode, entries, made = frames.unpack(file.read())
        if inode == os.fstat(journal).st_ino:
            _recover_entries(state, entries, made)
            os.unlink(path)
    # its writer is alive, or it is not our journal
    except (OSError, frames.FrameError, TypeError, ValueError):
        return
    finally:
        os.close(journal)


def _recover_entries(state: str, entries: Sequence[Entry], made: Sequence[bytes]) -> None:
    for directory, identity, name, aside, kept, is_written in reversed(entries):
        if (
            b"/" in name
            or "/" in aside + kept
            or not (aside.startswith(TEMPORARY) and kept.startswith(TEMPORARY))
        ):
            raise ValueError("no journal of ours")
        try:
            where = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:  # removed with its content
            continue
        try:
            if os.fstat(where).st_ino == identity[1]:  # the device number may differ between mounts
                _make_whole(where, state, name, aside, kept, is_written)
        except OSError:  # the other files are recovered anyway
            pass
        finally:
            os.close(where)
    if state != DONE:
        for directory in reversed(made):
            try:
                os.rmdir(directory)
            except OSError:  # in use
                pass


def _make_whole(
    where: int, state: str, name: bytes, aside: str, kept: str, is_written: bool
) -> None:
    old, new, now = (inode_of(one, where) for one in (kept, aside, name))
    if state == CHANGING and old is not None:
        os.rename(kept, name, src_dir_fd=where, dst_dir_fd=where)
    elif state == CHANGING and is_written and new in (None, now):  # a newly created file
        discard(name, where)
    discard(kept, where)
    discard(aside, where)


def inode_of(name: str | bytes, where: int) -> int | None:
    try:
        return os.stat(name, dir_fd=where, follow_symlinks=False).st_ino
    except OSError:
        return None


def discard(name: str | bytes, where: int) -> None:
    try:
        os.unlink(name, dir_fd=where)
    except OSError:
        pass
