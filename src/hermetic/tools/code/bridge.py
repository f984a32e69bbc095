"""Connections of programs in an environment to this process: each is a channel with its own
handler.
"""

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable

from hermetic.contract.errors import EnvironmentUnavailable
from hermetic.contract.limits import FRAME_BODY
from hermetic.link import answers
from hermetic.link.calls import Bridging, Call
from hermetic.link.link import Link
from hermetic.link.wire import Frame, FrameError, FrameReader
from hermetic.session.keeping import link_of
from hermetic.session.session import Session

# Bytes of a channel that may wait here; a program sends one call and waits for its answer.
UNREAD = 4 << 20
UNREAD_FRAMES = 1024
# Bytes that are handed over without waiting: a program that asks has room for the answer.
SHORT = 64 << 10


class Channel:
    """One program's connection: frames both ways, in order."""

    def __init__(self, link: Link, bridging: Bridging, number: int) -> None:
        self._link = link
        self._bridging = bridging
        self._number = number
        self._reader = FrameReader()
        self._reader.greeted()  # the resident has seen the token
        self._frames: list[Frame] = []
        self._waiter: asyncio.Future[None] | None = None
        self.is_over = False  # the program has disconnected

    def __repr__(self) -> str:
        return f"<Channel {self._number}{', over' if self.is_over else ''}>"

    async def receive(self) -> Frame | None:
        """The next frame; None when no more can come."""
        while not self._frames:
            if self.is_over:
                return None
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self._frames.pop(0)

    async def send(self, data: bytes) -> bool:
        """Sends bytes; returns when the program has read them, or nearly.

        False: it has disconnected.
        """
        if len(data) <= SHORT:
            self._link.tell(self._bridging, self._bridging.message(self._number, data))
            return not self.is_over
        for at in range(0, len(data), FRAME_BODY):
            piece = data[at : at + FRAME_BODY] if len(data) > FRAME_BODY else data
            call = Call({"op": "say", "channel": self._number}, answers.said, piece, repeats=False)
            said, _ = await self._link.send(call)
            if said.gone:
                return False
        return True

    def hang_up(self) -> None:
        """Closes the connection: the program sees its end."""
        if not self.is_over:
            self.end()
            call = Call(
                {"op": "say", "channel": self._number, "end": True}, answers.said, repeats=False
            )
            with contextlib.suppress(EnvironmentUnavailable):  # it has ended with the environment
                self._link.send(call).cancel()

    def feed(self, data: bytes) -> None:
        """Takes received bytes.

        Raises FrameError when they are no frames, or more than one call.
        """
        self._frames += self._reader.feed(data)
        waiting = len(self._frames)
        if waiting > 1 and (
            waiting > UNREAD_FRAMES or sum(len(frame.body) for frame in self._frames) > UNREAD
        ):
            raise FrameError("more than one call at a time")
        self._wake()

    def end(self) -> None:
        """Nothing more comes."""
        self.is_over = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


Serve = Callable[[Channel], Awaitable[None]]


class Bridge:
    """Serves the programs that know its token, from the moment it is made until it is closed."""

    def __init__(self, session: Session, serve: Serve) -> None:
        self.token = secrets.token_hex(16)
        self._link = link_of(session)
        self._serve = serve
        self._socket: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._channels: dict[int, Channel] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._call = Bridging(self.token, self._take, self._lost)
        self._link.send(self._call).add_done_callback(self._ended)

    def __repr__(self) -> str:
        return f"<Bridge with {len(self._channels)} channels>"

    async def socket(self) -> str:
        """Where programs connect. Raises EnvironmentUnavailable, Unsupported."""
        return await asyncio.shield(self._socket)

    async def close(self) -> None:
        """Closes all connections; returns when their handlers have ended."""
        if not self._call.future.done():
            self._call.future.cancel()
            self._link.cancel(self._call)
        self._lost()
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _take(self, event: answers.Bridged, body: bytes) -> None:
        if event.socket:
            if not self._socket.done():
                self._socket.set_result(event.socket)
        elif event.end:
            self._leave(event.channel)
        else:
            try:
                self._channel(event.channel).feed(body)
            except FrameError:
                self._channels[event.channel].hang_up()
                self._leave(event.channel)

    def _channel(self, number: int) -> Channel:
        channel = self._channels.get(number)
        if channel is None:
            channel = self._channels[number] = Channel(self._link, self._call, number)
            task = self._tasks[number] = asyncio.ensure_future(self._serve(channel))
            task.add_done_callback(lambda done: self._served(number, done))
        return channel

    def _served(self, number: int, task: "asyncio.Task[None]") -> None:
        self._tasks.pop(number, None)
        if (channel := self._channels.pop(number, None)) is not None:
            channel.hang_up()
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, EnvironmentUnavailable):
            raise error

    def _leave(self, number: int) -> None:
        """Ends a channel whose program has disconnected, and its handler."""
        if (channel := self._channels.pop(number, None)) is not None:
            channel.end()
        if (task := self._tasks.get(number)) is not None:
            task.cancel()

    def _lost(self) -> None:
        for number in list(self._channels):
            self._leave(number)

    def _ended(self, future: "asyncio.Future[tuple[answers.Done, bytes]]") -> None:
        error = None if future.cancelled() else future.exception()
        if not self._socket.done():
            self._socket.set_exception(error or EnvironmentUnavailable("the bridge was closed"))
            self._socket.exception()  # retrieved, also when no script waits for it
        self._lost()
