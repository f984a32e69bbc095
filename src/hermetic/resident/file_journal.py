"""A change of several files, written down before it begins: whoever finds that later makes it whole.

The name of the note says how far the change is. WRITING: what is new is being written aside. CHANGING: names change
hands, so that all of it is taken back. DONE: only the old files' second names are still to go.
"""

from __future__ import annotations

import os

from . import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Tuple

    # Of each file: its directory, which one that is, its name, where what is new and what is old is kept meanwhile,
    # and whether anything is new.
    Entry = Tuple[bytes, Tuple[int, int], bytes, str, str, bool]

WRITING, CHANGING, DONE = "patch-writing.", "patch-changing.", "patch-done."
NEW = "patch-new."  # not all of it is there


class Journal:
    """The note of one change, in the resident's own directory."""

    def __init__(self, directory: str) -> None:
        self.directory, self.id = directory, os.urandom(8).hex()
        self.state = ""

    def begin(self, entries: Sequence[Entry], made: Sequence[bytes]) -> None:
        """Raises OSError, with nothing begun. `made` are directories that go with it."""
        with open(self._path(NEW), "xb") as file:
            file.write(frames.pack([entries, made]))
        self.go_on(NEW, WRITING)

    def go_on(self, before: str, now: str) -> None:
        os.rename(self._path(before), self._path(now))
        self.state = now

    def end(self) -> None:
        """Nothing is left to do."""
        if self.state:
            os.unlink(self._path(self.state))
            self.state = ""

    def recover(self) -> None:
        """Whoever made the change was ended amid it."""
        for state in (CHANGING, WRITING, DONE):
            _recover(self._path(state), state)

    def _path(self, state: str) -> str:
        return "%s/%s%s" % (self.directory, state, self.id)


def recover_all(directory: str) -> None:
    """Makes every change whole that is noted there, after the death of the resident that had begun it."""
    for name in os.listdir(directory):
        for state in (CHANGING, WRITING, DONE):
            if name.startswith(state):
                _recover("%s/%s" % (directory, name), state)


def _recover(path: str, state: str) -> None:
    try:
        with open(path, "rb") as file:
            entries, made = frames.unpack(file.read())
    except (OSError, frames.FrameError):
        return
    for directory, identity, name, aside, kept, is_written in reversed(entries):
        try:
            where = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:  # it has gone with all that was in it
            continue
        try:
            status = os.fstat(where)
            if [status.st_dev, status.st_ino] == identity:
                _make_whole(where, state, name, aside, kept, is_written)
        except OSError:  # the others are made whole all the same
            pass
        finally:
            os.close(where)
    if state != DONE:
        for directory in reversed(made):
            try:
                os.rmdir(directory)
            except OSError:  # somebody else uses it by now
                pass
    os.unlink(path)


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
