"""`hermetic mcp` on standard input and output: one client, which ends the server by closing its
input.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hermetic.mcp.greeting import greeting
from hermetic.resident.lazy import Lazy, load

if TYPE_CHECKING:
    from hermetic.mcp import connection
    from hermetic.mcp.client import ServeOptions
else:
    connection = Lazy("hermetic.mcp.connection")  # imports the SDK, which is slow

PIECE = 1 << 16  # bytes of one read
STDIN, STDOUT, STDERR = 0, 1, 2
SIGNALS = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)


class Wire:
    """Lines from the client and to it, on descriptors of their own.

    Whatever else uses standard input reads the null device, and what it writes to standard output
    goes to stderr.
    """

    def __init__(self) -> None:
        self._input, self._output = os.dup(STDIN), os.dup(STDOUT)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, STDIN)
        os.close(null)
        os.dup2(STDERR, STDOUT)
        if not os.isatty(self._output):
            os.set_blocking(self._output, False)
        self._writing = asyncio.Lock()

    async def lines(self) -> AsyncIterator[bytes]:
        """Each line, until the client closes its end."""
        unread = bytearray()
        while piece := await self._piece():
            unread += piece
            if b"\n" in piece:
                *whole, rest = bytes(unread).split(b"\n")
                unread = bytearray(rest)
                for line in filter(bytes.strip, whole):
                    yield line

    async def write(self, data: bytes) -> None:
        """Writes a line to the client. Raises OSError when it is gone."""
        async with self._writing:
            view = memoryview(data)
            while view:
                try:
                    view = view[os.write(self._output, view) :]
                except BlockingIOError:
                    loop = asyncio.get_running_loop()
                    await _ready(self._output, loop.add_writer, loop.remove_writer)

    async def _piece(self) -> bytes:
        loop = asyncio.get_running_loop()
        with suppress(PermissionError):  # a regular file is always ready
            await _ready(self._input, loop.add_reader, loop.remove_reader)
        try:
            return os.read(self._input, PIECE)
        except ConnectionError:
            return b""


async def _ready(descriptor: int, add: Callable[..., Any], remove: Callable[[int], Any]) -> None:
    ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def wake() -> None:
        if not ready.done():
            ready.set_result(None)

    add(descriptor, wake)
    try:
        await ready
    finally:
        remove(descriptor)


def serve(options: "Callable[[], ServeOptions]") -> None:
    """Serves the client of this process until it closes its end, or a signal comes.

    `options` is called after the reply to the client's first request: reading the settings takes
    its time.
    """
    asyncio.run(_serve(options))


async def _serve(options: "Callable[[], ServeOptions]") -> None:
    wire, task = Wire(), asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(task.cancel))
    with suppress(asyncio.CancelledError):  # a signal ends it as the end of input does
        await _serve_wire(wire, options)
    # all is closed: a further signal does not fail the exit, whichever thread gets it
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


async def _serve_wire(wire: Wire, options: "Callable[[], ServeOptions]") -> None:
    lines = wire.lines()
    if (first := await anext(lines, None)) is None:
        return
    if (greeted := greeting(first)) is not None:
        await wire.write(greeted.line)
    given = await asyncio.to_thread(_load, options)
    await connection.serve(
        given, first, lines, wire.write, greeted.id if greeted is not None else None
    )


def _load(options: "Callable[[], ServeOptions]") -> "ServeOptions":
    load(connection)
    return options()
