"""A tab without a browser: the real protocol over queues instead of a socket."""

import asyncio
import json
import struct
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from hermetic.serve import frames
from hermetic.serve.control import Person
from hermetic.serve.tab import Tab
from hermetic.serve.terminals import Find, TerminalLimits, Terminals

PATIENCE = 60.0
WINDOW = 1 << 18
DRIVER = Person("ann", frozenset({"view", "drive"}))
VIEWER = Person("vic", frozenset({"view"}))


class Socket:
    """A WebSocket as the server sees it."""

    def __init__(self, *, is_read: bool = True) -> None:
        self.is_writable = is_read
        self.is_reading = True
        self.to_client: asyncio.Queue[str | bytes] = asyncio.Queue()
        self.disconnected = asyncio.Event()
        self.closed: asyncio.Future[int] = asyncio.get_running_loop().create_future()  # with a code

    def listen(
        self, take: Callable[[str | bytes], None], when_writable: Callable[[], None]
    ) -> None:
        """The server takes messages from now on."""
        self.take, self.when_writable = take, when_writable

    def write(self, data: str | bytes) -> None:
        """A message for the client."""
        self.to_client.put_nowait(data)

    def pause_reading(self) -> None:
        """The server takes no more messages."""
        self.is_reading = False

    def resume_reading(self) -> None:
        """It takes them again."""
        self.is_reading = True

    async def wait_closed(self) -> None:
        """Returns when the client has disconnected."""
        await self.disconnected.wait()

    async def close(self, code: int = 1000, reason: str | None = None) -> None:
        """The server closes it."""
        self.closed.set_result(code)


class Client:
    """The page's side of a tab."""

    def __init__(self, socket: Socket) -> None:
        self.socket = socket
        self.events: list[dict[str, Any]] = []
        self.output: defaultdict[int, bytearray] = defaultdict(bytearray)
        self.position: dict[int, int] = {}
        self.frames: list[frames.Frame] = []  # all but output
        self.acks = True
        self._inputs = 0
        self._came = asyncio.Event()
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        while True:
            self._take(await self.socket.to_client.get())
            self._came.set()

    def _take(self, message: str | bytes) -> None:
        if isinstance(message, str):
            event = json.loads(message)
            assert event["seq"] == len(self.events)
            self.events.append(event)
            return
        type, channel, offset = struct.unpack_from(">BIQ", message)
        payload = message[13:]
        assert len(payload) <= 65536
        if type in (frames.REPLAY_BEGIN, frames.GAP):
            self.position[channel] = offset
        if type != frames.OUTPUT:
            self.frames.append(frames.Frame(type, channel, offset, payload))
            return
        assert offset == self.position.setdefault(channel, offset)
        self.position[channel] = offset + len(payload)
        self.output[channel] += payload
        if self.acks:
            self.ack(channel)

    def ack(self, channel: int, offset: int | None = None) -> None:
        """All output so far is parsed."""
        self._send(
            frames.pack(frames.ACK, channel, self.position[channel] if offset is None else offset)
        )

    def op(self, op: str, **fields: object) -> None:
        """Sends an operation."""
        self.socket.take(json.dumps({"op": op, **fields}))

    def type(self, channel: int, data: bytes) -> int:
        """Sends input; returns its id."""
        self._inputs += 1
        self._send(frames.pack(frames.INPUT, channel, self._inputs, data))
        return self._inputs

    def resize(self, channel: int, rows: int, cols: int) -> None:
        """Sends a new size."""
        self._send(frames.pack(frames.RESIZE, channel, 0, struct.pack(">HH", rows, cols)))

    def _send(self, data: bytes) -> None:
        self.socket.take(data)

    async def until(self, is_there: Callable[[], object]) -> None:
        """Returns when it is so."""
        async with asyncio.timeout(PATIENCE):
            while not is_there():
                self._came.clear()
                await self._came.wait()

    async def event(self, name: str, **fields: object) -> dict[str, Any]:
        """The first event of that name with these fields that was not returned yet."""
        found: list[dict[str, Any]] = []

        def look() -> bool:
            found[:] = [
                one
                for one in self.events
                if one["event"] == name and "seen" not in one and fields.items() <= one.items()
            ]
            return bool(found)

        await self.until(look)
        found[0]["seen"] = True
        return found[0]

    async def shows(self, text: bytes, channel: int = 1) -> None:
        """Returns when the channel's output holds the text."""
        await self.until(lambda: text in self.output[channel])

    async def attach(self, process: str, channel: int = 1, **more: Any) -> dict[str, Any]:
        """Attaches; the event that says so."""
        given = {"environment": "e", "from": None, "rows": 30, "cols": 100, **more}
        self.op("attach", channel=channel, process=process, **given)
        return await self.event("attached", channel=channel)

    async def close(self) -> None:
        """Ends the reader."""
        self._reading.cancel()
        await asyncio.wait([self._reading])


@asynccontextmanager
async def tab(terminals: Terminals, person: Person = DRIVER) -> AsyncIterator[Client]:
    """A connected tab of a person, disconnected with the block."""
    socket = Socket()

    def admit(ticket: str) -> Person | None:
        return person if ticket == "good" else None

    serving = asyncio.create_task(
        Tab(socket, admit, terminals, lambda publish, answers: lambda: None).run()
    )
    client = Client(socket)
    await asyncio.sleep(0)  # the tab listens
    try:
        client.op("hello", ticket="good")
        await client.event("hello")
        yield client
    finally:
        socket.disconnected.set()
        await serving
        await client.close()


@asynccontextmanager
async def serving(find: Find, **limits: Any) -> AsyncIterator[Terminals]:
    """The terminals of a server, closed with the block."""
    terminals = Terminals(find, TerminalLimits(**limits))
    try:
        yield terminals
    finally:
        await terminals.close()
