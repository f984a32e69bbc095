"""Changes in directories as the kernel reports them, on the event loop."""

import asyncio
import ctypes
import errno
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

# sys/inotify.h
_CLOEXEC_NONBLOCK = os.O_CLOEXEC | os.O_NONBLOCK
_CREATE, _DELETE, _MOVED_FROM, _MOVED_TO = 0x100, 0x200, 0x40, 0x80
_CLOSE_WRITE, _ONLYDIR, _OVERFLOW = 0x8, 0x1000000, 0x4000
_EVENT = struct.Struct("iIII")  # watch, mask, cookie, length of the name that follows
READ_BYTES = 1 << 16
_MASK = _CREATE | _DELETE | _MOVED_FROM | _MOVED_TO | _CLOSE_WRITE | _ONLYDIR


class DirectoryWatch:
    """Calls `changed` after relevant entries of the watched directories came, went or were written.
    Close it.

    Where the kernel has no watch left, `is_working` is False and nothing is called: look on demand.
    """

    def __init__(
        self, changed: Callable[[], object], is_relevant: Callable[[str], bool] = lambda name: True
    ) -> None:
        self._changed = changed
        self._is_relevant = is_relevant
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = self._libc.inotify_init1(_CLOEXEC_NONBLOCK)
        self.is_working = self._fd >= 0
        self._watched: dict[str, int] = {}
        if self.is_working:
            asyncio.get_running_loop().add_reader(self._fd, self._ready)

    def __repr__(self) -> str:
        return f"<DirectoryWatch of {len(self._watched)} directories>"

    def watch(self, *directories: Path) -> None:
        """Watches exactly these directories from now on; a missing one is left out."""
        if self._fd < 0:
            return
        wanted = {str(directory) for directory in directories}
        for path in self._watched.keys() - wanted:
            self._libc.inotify_rm_watch(self._fd, self._watched.pop(path))
        for path in wanted:
            # Watched again even if known: another directory may have its name by now.
            number = self._libc.inotify_add_watch(self._fd, os.fsencode(path), _MASK)
            if number >= 0:
                self._watched[path] = number
            else:
                self._watched.pop(path, None)
                self.is_working = self.is_working and ctypes.get_errno() not in (
                    errno.ENOSPC,
                    errno.ENOMEM,
                )

    def close(self) -> None:
        """Ends all watches."""
        if self._fd >= 0:
            asyncio.get_running_loop().remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _ready(self) -> None:
        try:
            data = os.read(self._fd, READ_BYTES)
        except BlockingIOError:
            return
        if any(self._is_relevant(name) for name in _names(data)):
            self._changed()


def _names(data: bytes) -> Iterator[str]:
    """The names of the changed entries; an overflow of the queue counts as every name."""
    at = 0
    while at < len(data):
        _, mask, _, length = _EVENT.unpack_from(data, at)
        name = data[at + _EVENT.size : at + _EVENT.size + length].rstrip(b"\0")
        at += _EVENT.size + length
        if name or mask & _OVERFLOW:
            yield os.fsdecode(name)
