"""One connection to a resident: greets it, then carries frames both ways."""

import asyncio
import socket
from collections.abc import Callable
from typing import cast

from hermetic.contract.errors import EnvironmentUnavailable, Unreachable
from hermetic.contract.limits import GREETING
from hermetic.link import answers
from hermetic.link.wire import MALFORMED, Frame, FrameReader, pack_frame
from hermetic.resident.wire.frames import ERROR, REPLY, REQUEST, VERSIONS, FrameError

GREETING_ID = 0


class Misbehaved(EnvironmentUnavailable):
    """The resident broke the protocol; the connection is not used any more."""

    def __init__(self, detail: str, *, environment: str = "") -> None:
        super().__init__(
            f"the resident misbehaved: {detail}; the connection was closed. Something in the environment may have "
            "replaced it: open a new environment",
            environment=environment,
        )
        self.detail = detail


class Unanswered(EnvironmentUnavailable):
    """The stream was closed instead of an answer to the greeting."""


class Silent(Unreachable):
    """The greeting timed out: the resident is stopped or starved."""


class Connection(asyncio.Protocol):
    """Frames over one stream.

    `receive` gets each frame, `lost` the reason when the stream breaks off. `shortcut` gets bytes
    that follow a whole frame, before they are parsed, and returns True when it has taken them.
    """

    def __init__(
        self,
        receive: Callable[[Frame], None],
        lost: Callable[[Exception | None], None],
        shortcut: Callable[[bytes], bool] = lambda data: False,
    ) -> None:
        self._receive, self._shortcut = receive, shortcut
        self._lost = lost
        self._reader = FrameReader()
        self._greeting: asyncio.Future[answers.Hello] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.Transport | None = None
        self._closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._is_open = False

    async def greet(
        self, stream: socket.socket, token: bytes, *, observes: bool = False
    ) -> answers.Hello:
        """Takes over the stream and greets. Raises OSError or EnvironmentUnavailable.

        A client that observes prolongs no lease.
        """
        try:
            await asyncio.get_running_loop().create_connection(lambda: self, sock=stream)
            fields = {
                "op": "hello",
                "versions": list(VERSIONS),
                "token": token,
                "client": "hermetic",
            }
            self.send(
                pack_frame(
                    REQUEST, GREETING_ID, {**fields, "observes": True} if observes else fields
                )
            )
            async with asyncio.timeout(GREETING):
                hello = await self._greeting
        except TimeoutError:
            self.abort()
            raise Silent(
                f"the resident did not answer within {GREETING:g} s", state="stalled"
            ) from None
        except BaseException:
            self.abort()
            stream.close()
            raise
        if hello.version not in VERSIONS:
            self.abort()
            raise Misbehaved(f"it chose version {hello.version}, which was not offered")
        self._is_open = True
        return hello

    def send(self, data: bytes) -> None:
        """Sends bytes; on a broken connection they are dropped."""
        if self._transport is not None:
            self._transport.write(data)

    def abort(self) -> None:
        """Closes the stream at once, without a callback."""
        self._is_open = False
        if self._transport is not None:
            self._transport.abort()

    def give_up(self, reason: Exception) -> None:
        """Ends the stream as one that broke for this reason."""
        self._fail(reason)

    async def wait_closed(self) -> None:
        """Returns when the stream has ended on either side."""
        await asyncio.shield(self._closed)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio: the stream is ours."""
        self._transport = cast(asyncio.Transport, transport)
        # uvloop would keep a frame until the end of the loop's turn
        self._transport.set_write_buffer_limits(high=0)

    def data_received(self, data: bytes) -> None:
        """asyncio: bytes came."""
        try:
            if self._is_open and not self._reader.is_inside and self._shortcut(data):
                return
            frames = self._reader.feed(data)
        except FrameError as error:
            self._fail(Misbehaved(str(error)))
            return
        for frame in frames:
            if self._is_open:
                self._receive(frame)
            else:
                self._answer_greeting(frame)

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio: the stream ended."""
        self._fail(exc)
        if not self._closed.done():
            self._closed.set_result(None)

    def _answer_greeting(self, frame: Frame) -> None:
        if self._greeting.done():
            return
        try:
            if frame.id != GREETING_ID or frame.kind not in (REPLY, ERROR):
                raise FrameError(f"a frame of kind {frame.kind} before the greeting was answered")
            if frame.kind == ERROR:
                self._greeting.set_exception(
                    answers.error_for(answers.refusal.decode(frame.fields))
                )
            else:
                self._greeting.set_result(answers.hello.decode(frame.fields))
                self._reader.greeted()
        except (FrameError, *MALFORMED) as error:
            self._greeting.set_exception(Misbehaved(str(error)))

    def _fail(self, reason: Exception | None) -> None:
        """Ends the stream and reports the reason once."""
        was_open = self._is_open
        self.abort()
        if was_open:
            self._lost(reason)
        elif not self._greeting.done():
            closed = Unanswered(
                "the resident closed the connection instead of answering the greeting"
            )
            self._greeting.set_exception(reason if isinstance(reason, Misbehaved) else closed)
            self._greeting.exception()  # retrieved, so that asyncio does not log it
