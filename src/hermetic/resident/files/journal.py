"""Journal of a change of several files, written before it begins: recovery makes a half-done change whole.

The journal's file name says how far the change is. WRITING: new content is being written aside. CHANGING: names change
hands; recovery takes all of it back. DONE: only the old files' second names are still to be removed.

The writer holds a lock on the file as long as it lives. A journal of files that outlive the resident lies beside them,
where the next resident finds it; others lie in the resident's own directory, where the guardian finds them.
"""

from __future__ import annotations

import fcntl
import os

from ..wire import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Tuple

    # Of each file: its directory, the device and inode of that, its name, where new and old content are kept
    # meanwhile, and whether there is new content.
    Entry = Tuple[bytes, Tuple[int, int], bytes, str, str, bool]

TEMPORARY = ".hermetic-"  # begins the name of every file that is ours
WRITING, CHANGING, DONE = (TEMPORARY + "patch-%s." % state for state in ("writing", "changing", "done"))
NEW = TEMPORARY + "patch-new."  # not complete: nothing was changed yet


class Journal:
    """The journal of one change."""

    def __init__(self, directory: str) -> None:
        self.directory, self.id = directory, os.urandom(8).hex()
        self.state = ""
        self.lock: int | None = None

    def begin(self, entries: Sequence[Entry], made: Sequence[bytes]) -> None:
        """Raises OSError, with nothing begun. `made` are directories that were made for the change."""
        self.lock = os.open(self._path(NEW), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        self.state = NEW
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # a file system without locks: nothing of it is recovered later
            pass
        # Its own inode is part of it: a journal that came with an archive or a repository is not obeyed.
        view = memoryview(frames.pack([os.fstat(self.lock).st_ino, entries, made]))
        while view:
            view = view[os.write(self.lock, view) :]
        self.go_on(NEW, WRITING)

    def go_on(self, before: str, now: str) -> None:
        os.rename(self._path(before), self._path(now))
        self.state = now

    def end(self) -> None:
        """Nothing is left to do."""
        if self.state:
            os.unlink(self._path(self.state))
            self.state = ""
        if self.lock is not None:
            os.close(self.lock)
            self.lock = None

    def recover(self) -> None:
        """Makes the change whole after its writer, another process, was killed."""
        for state in (CHANGING, WRITING, DONE, NEW):
            _recover(self._path(state), state)

    def _path(self, state: str) -> str:
        return "%s/%s%s" % (self.directory, state, self.id)


def directory_for(path: str, shared: Sequence[str], own: str) -> str:
    """Where the journal of a change belongs: the shared directory that the path lies in, else our own."""
    above = [one for one in shared if path.startswith(one.rstrip("/") + "/") and os.access(one, os.W_OK | os.X_OK)]
    return max(above, key=len) if above else own


def recover_all(directory: str) -> None:
    """Makes every change whole whose journal lies there and whose writer is dead."""
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
        if os.stat(path).st_ino != os.fstat(journal).st_ino:  # another one made it whole meanwhile
            return
        if state == NEW:
            os.unlink(path)
            return
        with open(journal, "rb", closefd=False) as file:
            inode, entries, made = frames.unpack(file.read())
        if inode == os.fstat(journal).st_ino:
            _recover_entries(state, entries, made)
            os.unlink(path)
    except (OSError, frames.FrameError, TypeError, ValueError):  # its writer lives, or it is none of ours
        return
    finally:
        os.close(journal)


def _recover_entries(state: str, entries: Sequence[Entry], made: Sequence[bytes]) -> None:
    for directory, identity, name, aside, kept, is_written in reversed(entries):
        if b"/" in name or "/" in aside + kept or not (aside.startswith(TEMPORARY) and kept.startswith(TEMPORARY)):
            raise ValueError("no journal of ours")
        try:
            where = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:  # it is gone with everything in it
            continue
        try:
            if os.fstat(where).st_ino == identity[1]:  # the device's number may change from mount to mount
                _make_whole(where, state, name, aside, kept, is_written)
        except OSError:  # the others are made whole all the same
            pass
        finally:
            os.close(where)
    if state != DONE:
        for directory in reversed(made):
            try:
                os.rmdir(directory)
            except OSError:  # in use by now
                pass


def _make_whole(where: int, state: str, name: bytes, aside: str, kept: str, is_written: bool) -> None:
    old, new, now = (inode_of(one, where) for one in (kept, aside, name))
    if state == CHANGING and old is not None:
        os.rename(kept, name, src_dir_fd=where, dst_dir_fd=where)
    elif state == CHANGING and is_written and new in (None, now):  # a file that was not there before
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
