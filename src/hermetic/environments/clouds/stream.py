"""A stream to a resident in a vendor's sandbox, carried by an exec or a terminal of the vendor's
SDK.

Those outlive a caller that was killed, and do not always end with a machine that was lost. So an
idle stream sends empty messages, which the bridge answers. The bridge exits after some seconds
without a message, and a stream ends after as many without an answer.
"""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol

from hermetic.contract.concurrency import in_background
from hermetic.environments.starting import MOST_NOISE

SILENCE = 30.0  # seconds without a message, after which either side counts as gone
KEEPALIVE = SILENCE / 4  # seconds between two messages
CLOSING_SECONDS = 10.0
HEADER_BYTES = 4

# Run there as `python3 -I -S -c BRIDGE SOCKET SILENCE`: connects a resident's socket to its own
# input and output. The first byte of that is "+" once it is connected, "-" where the resident is
# gone, "?" where its socket is. Then both are messages, each with its length in front.
BRIDGE = """\
import _signal, os, select, socket, sys
silence = int(sys.argv[2])
_signal.alarm(silence)
stream = socket.socket(socket.AF_UNIX)
try:
    stream.connect(sys.argv[1])
except OSError as error:
    os.write(1, b"?" if isinstance(error, FileNotFoundError) else b"-")
    sys.exit()
os.write(1, b"+")
def send(target, data):
    view = memoryview(data)
    while view:
        view = view[os.write(target, view):]
poll = select.poll()
for source in (0, stream.fileno()):
    poll.register(source, select.POLLIN)
came = b""
while True:
    for source, _ in poll.poll():
        data = os.read(source, 65536)
        if not data:
            sys.exit()
        if source:
            send(1, len(data).to_bytes(4, "big") + data)
            continue
        _signal.alarm(silence)
        came += data
        while len(came) >= 4 and len(came) >= (end := 4 + int.from_bytes(came[:4], "big")):
            send(stream.fileno() if end > 4 else 1, came[4:end] or came[:4])
            came = came[end:]
"""


class Carrier(Protocol):
    """Bytes to and from a program in a sandbox."""

    size: int  # most bytes of one write

    async def write(self, data: bytes) -> None:
        """Returns when the vendor has taken them."""

    async def read(self) -> bytes:
        """The next bytes; empty at the end."""

    async def close(self) -> None:
        """Ends the program."""


async def answer_after(carrier: Carrier, mark: bytes) -> tuple[bytes, bytes]:
    """The byte by which a bridge says how it is, and what came with it; empty where it ended.

    Output before the mark is skipped.
    """
    said = b""
    while len(said) < MOST_NOISE:
        begin = said.find(mark) + len(mark)
        if begin >= len(mark) and len(said) > begin:
            return said[begin : begin + 1], said[begin + 1 :]
        if not (data := await carrier.read()):
            break
        said += data
    return b"", b""


def carried(
    carrier: Carrier,
    on_close: Callable[[], Awaitable[object]],
    came: bytes = b"",
    silence: float | None = None,
) -> socket.socket:
    """A non-blocking stream to a bridge that is connected, and of which some bytes came already.

    Closing it closes the carrier, then calls `on_close`. `silence` replaces SILENCE.
    """
    return served(lambda end: _Pump(carrier, end, on_close, came, silence).run())


def served(serve: Callable[[socket.socket], Coroutine[Any, Any, object]]) -> socket.socket:
    """One end of a pair, non-blocking; the other one is served in the background, and closed by
    that.
    """
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setblocking(False)
    in_background(serve(theirs))
    return ours


class _Pump:
    """Both directions of one stream, and its keep-alive messages."""

    def __init__(
        self,
        carrier: Carrier,
        end: socket.socket,
        on_close: Callable[[], Awaitable[object]],
        came: bytes,
        silence: float | None,
    ) -> None:
        self._carrier, self._end, self._on_close, self._came = carrier, end, on_close, came
        self._silence = silence or SILENCE
        self._pause = min(KEEPALIVE, self._silence / 4)
        self._writing = asyncio.Lock()

    async def run(self) -> None:
        """Returns when either side has ended, or is silent."""
        try:
            await until_one_ends(self._up(), self._down(), self._keep_alive())
        finally:
            self._end.close()
            try:
                await _ended(self._carrier.close)
            finally:  # also at the end of an event loop, which cancels this task
                await _ended(self._on_close)

    async def _up(self) -> None:
        loop = asyncio.get_running_loop()
        while data := await loop.sock_recv(self._end, self._carrier.size - HEADER_BYTES):
            await self._send(data)

    async def _down(self) -> None:
        loop, came = asyncio.get_running_loop(), self._came
        while True:
            while len(came) >= (end := HEADER_BYTES + int.from_bytes(came[:HEADER_BYTES], "big")):
                await loop.sock_sendall(self._end, came[HEADER_BYTES:end])
                came = came[end:]
            async with asyncio.timeout(self._silence):
                if not (data := await self._carrier.read()):
                    return
            came += data

    async def _keep_alive(self) -> None:
        while True:
            await asyncio.sleep(self._pause)
            await self._send(b"")

    async def _send(self, data: bytes) -> None:
        async with self._writing:
            await self._carrier.write(len(data).to_bytes(HEADER_BYTES, "big") + data)


async def until_one_ends(*works: Coroutine[Any, Any, object]) -> None:
    """Returns when one has ended and the others have been cancelled.

    All have ended then, so that a descriptor that they use can be closed: its number may be that of
    another stream next.
    """
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _ended(ending: Callable[[], Awaitable[object]]) -> None:
    # whatever an SDK raises; the bridge ends by its silence then
    with contextlib.suppress(Exception):
        async with asyncio.timeout(CLOSING_SECONDS):
            await ending()
