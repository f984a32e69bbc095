"""Writes input to a process: queued, and written as the process reads."""

from __future__ import annotations

import os

from ..life.fast_stdlib import deque
from ..life.loop import WRITE
from ..limits import PENDING_INPUT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..life.loop import Loop, Watch

PIECE_BYTES = 1 << 18


class InputClosed(Exception):
    """The process takes no more input."""


class StdinWriter:
    """Writes to a pipe or terminal. Owns the descriptor."""

    def __init__(self, loop: Loop, fd: int) -> None:
        os.set_blocking(fd, False)
        self.loop = loop
        self.fd: int | None = fd
        self.is_open = True
        self.closing = False
        self.watch: Watch | None = None
        self.pending: deque[list[Any]] = deque()  # [bytes, callback when taken]
        self.pending_bytes = 0
        self.source: int | None = None  # a file that follows the queue

    def write(
        self, data: bytes, taken: Callable[[InputClosed | None], None] = lambda error: None
    ) -> None:
        """Queues bytes; calls `taken(error)` once at most PENDING_INPUT bytes wait, or they cannot
        be written.
        """
        if not self.is_open or self.closing:
            raise InputClosed()
        if not self.pending and self.fd is not None:  # nearly always: the process reads
            try:
                data = data[os.write(self.fd, data) if data else 0 :]
            except BlockingIOError:
                pass
            except OSError:
                self.drop()
                taken(InputClosed())
                return
            if not data:
                taken(None)
                return
        self.pending.append([data, taken])
        self.pending_bytes += len(data)
        self._write_pending()

    def pour(self, source: int) -> None:
        """Writes the rest of a file, then closes. The file is closed here."""
        self.source = source
        self.close()

    def close(self) -> None:
        """Closes the input after the queue is written."""
        self.closing = True
        self._write_pending()

    def drop(self) -> None:
        """Closes the input now, because the process has gone."""
        self._unwatch()
        self.is_open = False
        for fd in filter(None, (self.fd, self.source)):
            os.close(fd)
        self.fd = self.source = None
        pending, self.pending, self.pending_bytes = self.pending, deque(), 0
        for item in pending:
            self._accept(item, InputClosed())

    def _write_pending(self) -> None:
        while self.fd is not None and (self.pending or self._take_piece()):
            item = self.pending[0]
            try:
                count = os.write(self.fd, item[0]) if item[0] else 0
            except BlockingIOError:
                break
            except OSError:
                self.drop()
                return
            self.pending_bytes -= count
            item[0] = item[0][count:]
            if not item[0]:
                self.pending.popleft()
                self._accept(item)
        for item in list(self.pending):  # who hears of it may write more
            if self.pending_bytes <= PENDING_INPUT:
                self._accept(item)
        if self.fd is None:
            return
        if self.pending:
            if self.watch is None:
                self.watch = self.loop.watch(self.fd, self._write_pending, WRITE)
        else:
            self._unwatch()
            if self.closing:
                self.drop()

    def _take_piece(self) -> bool:
        """Queues the next piece of the file."""
        data = os.read(self.source, PIECE_BYTES) if self.source is not None else b""
        if data:
            self.pending.append([memoryview(data), None])
            self.pending_bytes += len(data)
        return bool(data)

    @staticmethod
    def _accept(item: list[Any], error: InputClosed | None = None) -> None:
        taken, item[1] = item[1], None
        if taken is not None:
            taken(error)

    def _unwatch(self) -> None:
        if self.watch is not None:
            self.loop.unwatch(self.watch)
            self.watch = None
