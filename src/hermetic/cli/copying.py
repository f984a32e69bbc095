"""Copies bytes: a log to one of our descriptors, our standard input to a process."""

import asyncio
import os
import stat
from collections.abc import AsyncIterator, Callable

from hermetic.contract.errors import InputClosed
from hermetic.contract.process import Chunk
from hermetic.session.environment import Environment
from hermetic.session.output import LONG_WAIT
from hermetic.session.process import Process

PIECE_BYTES = 1 << 16


class LogCopy:
    """Passes a log to `write` from an offset on, as it grows."""

    def __init__(
        self, environment: Environment, log: str, write: Callable[[bytes], object], offset: int = 0
    ) -> None:
        self.position = offset
        self.dropped = 0  # bytes dropped by the log's cap before they were read
        self._environment = environment
        self._log = log
        self._write = write

    async def to_the_end(self) -> None:
        """Returns when the process has ended and its whole log has been written."""
        while not self._take(
            await self._environment.read_log(self._log, self.position, wait=LONG_WAIT)
        ).ended:
            pass

    async def to_now(self) -> None:
        """Returns when all current output has been written."""
        while self._take(await self._environment.read_log(self._log, self.position)).data:
            pass

    def _take(self, chunk: Chunk) -> Chunk:
        self.dropped += max(0, chunk.start - self.position)  # it may begin behind the end
        self._write(chunk.data)
        self.position = chunk.end
        return chunk


async def feed(process: Process, fd: int = 0) -> None:
    """Forwards a descriptor to the process, then closes its input; stops when the process closed
    it.
    """
    try:
        async for piece in pieces(fd):
            await process.write(piece)
        await process.close_input()
    except InputClosed:
        return


async def pieces(fd: int) -> AsyncIterator[bytes]:
    """The content of a descriptor up to its end, read without blocking the event loop."""
    can_block = not stat.S_ISREG(os.fstat(fd).st_mode)
    while True:
        if can_block:
            await readable(fd)
        if not (piece := os.read(fd, PIECE_BYTES)):
            return
        yield piece


async def readable(fd: int) -> None:
    """Returns when a read would not block."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        loop.add_reader(fd, ready.set)
    except PermissionError:  # a file of a kind that is always ready
        return
    try:
        await ready.wait()
    finally:
        loop.remove_reader(fd)


def has_input(fd: int = 0) -> bool:
    """True when the descriptor holds input to forward: neither a terminal nor the null device."""
    try:
        seen = os.fstat(fd)
    except OSError:
        return False
    return not os.isatty(fd) and not (
        stat.S_ISCHR(seen.st_mode) and os.path.samestat(seen, os.stat(os.devnull))
    )
