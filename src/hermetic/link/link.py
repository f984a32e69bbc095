"""The link to one resident: numbered requests over a connection that is re-established when it
breaks.
"""

import asyncio
import contextlib
import math
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar, cast

import msgspec

from hermetic.contract.errors import EnvironmentUnavailable, Unreachable
from hermetic.contract.limits import (
    ABANDONED,
    GRACE,
    GREETING,
    OVERDUE,
    PING,
    RECONNECT,
    RECONNECT_PAUSE,
    STALL,
    UNANSWERED,
)
from hermetic.link import answers
from hermetic.link.calls import Call, Viewing, Views
from hermetic.link.connection import Connection, Misbehaved, Silent, Unanswered
from hermetic.link.failures import Abandoned, BrokenOff, GivenUp, OtherLoop, ResidentGone, Stalled
from hermetic.link.keepalive import KeepAlive
from hermetic.link.wire import MALFORMED, Frame, pack_frame
from hermetic.resident.wire.frames import CANCEL, ERROR, EVENT, REPLY, FrameError

R = TypeVar("R")

# A resident that closes this many connections in a row, at once and without an answer, will close
# the next one too.
FRUITLESS_CONNECTIONS = 10
AT_ONCE = 1.0  # seconds

LOOK = 1.0  # seconds between two checks for overdue answers

ENDED_BY_US = "the environment was closed"
# after a connection was lost: the resident has ended
GONE = (ConnectionRefusedError, FileNotFoundError)


class Link:
    """Numbered requests to one resident. Reconnects transparently while it is the same resident."""

    def __init__(
        self,
        dial: Callable[[], Awaitable[socket.socket]],
        token: bytes,
        *,
        environment: str,
        patience: float = RECONNECT,
        silence: float = STALL,
        observes: bool = False,
        keepalive: float | None = None,
        drops: bool = True,
        on_stall: Callable[[bool], None] = lambda is_stalled: None,
    ) -> None:
        self.environment = environment
        self.patience = patience  # seconds
        self.silence = silence  # seconds without a frame after a ping, before it counts as stalled
        self._keepalive = None if keepalive is None else KeepAlive(self, keepalive, drops=drops)
        self.is_ending = False  # the resident was asked to end, with everything that runs
        self.requests = 0  # sent so far
        self.received = 0  # frames so far
        self.connections = 0  # made so far: changes after a reconnect
        self.hello: answers.Hello
        self._dial = dial
        self._token = token
        self._observes = observes  # it prolongs no lease
        self._connection: Connection | None = None
        self._reconnecting: asyncio.Task[None] | None = None
        self._fruitless = 0
        self._on_stall = on_stall
        self.is_stalled = False  # the resident does not answer
        self._answers = asyncio.Event()  # set unless it is stalled
        self._answers.set()
        self._looking: asyncio.TimerHandle | None = None
        self._unheard = 0  # checks since a ping without any frame
        self._looked = -math.inf
        self._next_ping = -math.inf
        self._is_greeting = False
        self._calls: dict[int, Call[Any]] = {}
        self._views = Views()
        # makes the error of every later request
        self._end: Callable[[], EnvironmentUnavailable] | None = None

    @property
    def is_busy(self) -> bool:
        """True while a request waits for its answer."""
        return bool(self._calls)

    @property
    def is_over(self) -> bool:
        """True when no request can be sent any more."""
        return self._end is not None

    def __repr__(self) -> str:
        state = "ended" if self._end else "open" if self._connection else "connecting"
        return f"<Link to {self.environment}: {state}, {len(self._calls)} requests open>"

    async def open(self) -> answers.Hello:
        """Connects for the first time; tried again when that failed.

        Raises OSError, EnvironmentUnavailable.
        """
        self._loop = asyncio.get_running_loop()
        self._connection, self.hello = await self._connect()
        return self.hello

    def check_loop(self) -> None:
        """Raises OtherLoop anywhere but in the event loop that opened the link."""
        if asyncio._get_running_loop() is not self._loop:
            raise OtherLoop(self.environment)

    def send(self, call: Call[R]) -> "asyncio.Future[tuple[R, bytes]]":
        """Sends a request; the future is its answer. Raises EnvironmentUnavailable when the link
        has ended, or belongs to another event loop.

        Nothing is sent to a stalled resident: what its caller was told is not done must not be done
        later.
        """
        if self._end is not None:
            raise self._end()
        if self.is_stalled:
            raise Stalled(environment=self.environment, was_sent=False)
        if asyncio._get_running_loop() is not self._loop:  # as `check_loop`, without a call
            raise OtherLoop(self.environment)
        future = self._send(call)
        if (waits := call.waits) is not None:
            self.expect(call, waits)
        return future

    def _send(self, call: Call[R]) -> "asyncio.Future[tuple[R, bytes]]":
        self.requests = call.id = self.requests + 1
        frame = call.frame()
        future: asyncio.Future[tuple[R, bytes]] = self._loop.create_future()
        call.future = future
        self._calls[call.id] = call
        if isinstance(call, Viewing):
            self._views.add(call)
        if self._connection is not None:
            self._connection.send(frame)
        return future

    async def ask(
        self,
        op: str,
        reply: "msgspec.msgpack.Decoder[R]",
        body: bytes = b"",
        *,
        repeats: bool = True,
        **fields: object,
    ) -> tuple[R, bytes]:
        """Sends a request and waits for the answer.

        Cancelling notifies the resident without waiting.
        """
        return await self.finish(Call({"op": op, **fields}, reply, body, repeats=repeats))

    def mention(self, op: str, **fields: object) -> None:
        """Sends a request without waiting for its answer."""
        if self._end is None:
            answer = self._send(Call({"op": op, **fields}, answers.done))
            answer.add_done_callback(
                lambda done: done.cancelled() or done.exception()
            )  # retrieved, so that asyncio does not log it

    def drop(self, reason: str) -> None:
        """Gives up the connection; another one is made."""
        if self._connection is not None:
            self._connection.give_up(ConnectionError(reason))

    async def recover(self) -> None:
        """Returns when the resident answers or is gone; a while is waited for one that is stalled.

        Raises Stalled.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GREETING):
                await self._answers.wait()
        if self.is_stalled:
            raise Stalled(environment=self.environment, was_sent=False)

    async def finish(self, call: Call[R]) -> tuple[R, bytes]:
        """Sends a request and waits for its answer, as `ask` does."""
        if self.is_stalled:
            await self.recover()
        try:
            return await self.send(call)
        except asyncio.CancelledError:
            self.cancel(call)
            raise

    def tell(self, call: Call[Any], frame: bytes) -> bool:
        """Sends more to an open request, without an answer; False when it cannot be sent now."""
        if call.id not in self._calls or self._connection is None or self.is_stalled:
            return False
        self._connection.send(frame)
        return True

    def advance(self, call: Viewing, until: int) -> None:
        """Gives credit for output before an offset."""
        frame = call.advance(until)
        if frame is not None and call.id in self._calls and self._connection is not None:
            self._connection.send(frame)

    def cancel(self, call: Call[Any]) -> None:
        """Notifies the resident that a request is cancelled; its last answer still arrives, soon."""
        call.is_cancelled = True
        if call.id in self._calls:
            self.expect(call, GRACE)
            if self._connection is not None:
                self._connection.send(pack_frame(CANCEL, call.id, {}))

    async def stop(self, call: Call[R]) -> tuple[R, bytes] | None:
        """Cancels a request and waits for its last answer, however often the waiter is cancelled
        meanwhile.

        None when that answer is an error, does not come because the resident is stalled, or came
        before to a waiter that was not shielded.
        """
        if call.id not in self._calls:
            return _answer_in(call.future)
        last = call.future = self._loop.create_future()
        self.cancel(call)
        if self.is_stalled:
            last.cancel()
            return None
        while not last.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([last])
        return _answer_in(last)

    def decode(self, decoder: "msgspec.msgpack.Decoder[R]", body: bytes) -> R:
        """The decoded body. Raises EnvironmentUnavailable when it is invalid."""
        try:
            return decoder.decode(body)
        except msgspec.DecodeError as error:
            raise self.distrust(str(error)) from error

    def distrust(self, detail: str) -> Misbehaved:
        """Closes the link after an invalid answer; returns the error to raise."""
        self._misbehaved(detail)
        return Misbehaved(detail, environment=self.environment)

    async def close(self) -> None:
        """Closes the connection; open requests end with EnvironmentUnavailable."""
        self._finish(self._closed)
        if self._looking is not None:
            self._looking.cancel()
        if self._reconnecting is not None:
            self._reconnecting.cancel()
            await asyncio.wait([self._reconnecting])
        if self._connection is not None:
            self._connection.abort()
            await self._connection.wait_closed()

    async def wait_closed(self) -> None:
        """Returns when the resident has closed the connection, which is not made anew, or is
        stalled.
        """
        if self._connection is not None:
            self._end = self._closed
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STALL):
                    await self._connection.wait_closed()

    async def _connect(self) -> tuple[Connection, answers.Hello]:
        connection = Connection(self._receive, self._broken, self._receive_piece)
        try:
            stream = await self._dial()
            self._is_greeting = True  # stays set between retries without an answer
            hello = await connection.greet(stream, self._token, observes=self._observes)
        except Silent:
            raise
        except BaseException:
            self._is_greeting = False
            raise
        self._is_greeting = False
        self.connections += 1
        self._connected = self._loop.time()
        # A Unix socket with an address is the resident's own; others are carried, one end of a pair
        # by a program.
        if self._keepalive is not None and not (
            stream.family == socket.AF_UNIX and stream.getpeername()
        ):
            self._keepalive.begin()
        self._heard()
        return connection, hello

    def expect(self, call: Call[Any], seconds: float = 0.0) -> None:
        """From now on, the answer is overdue after so many seconds and a little more."""
        call.due = self._loop.time() + seconds + OVERDUE
        if self._looking is None:
            self._looking = self._loop.call_later(LOOK, self._look)

    def _look(self) -> None:
        """Asks whether the resident lives where an answer is overdue; without a sign of it, the
        answer is given up.

        Looks are counted, not seconds: a loop that was held up itself may have answers that it has
        not read yet.
        """
        self._looking = None
        now = self._loop.time()
        dues = [
            (call.due, call)
            for call in self._calls.values()
            if call.due is not None and call.is_awaited
        ]
        overdue = [call for due, call in dues if due <= now]
        # the transport has a timeout of its own
        is_on_its_way = self._connection is None and not self._is_greeting
        if not self.is_stalled and (not overdue or is_on_its_way):
            self._unheard = 0
        elif self._unheard:
            self._unheard += 1
        elif now >= self._next_ping:
            self._unheard, self._next_ping = 1, now + PING
            self.mention("ping")
        if self._unheard * LOOK > self.silence:
            self._stalled(overdue)
        if self._connection is not None and now - self._looked < self.silence:
            for call in overdue:
                if call.has_clock and cast(float, call.due) + ABANDONED <= now and call.is_awaited:
                    self._fail(call, Abandoned(call.fields["op"], environment=self.environment))
        self._looked = now
        if dues and self._end is None and self._looking is None:
            self._looking = self._loop.call_later(LOOK, self._look)

    def _stalled(self, overdue: list[Call[Any]]) -> None:
        """Ends overdue requests by the caller's clock; a resident that resumes finds them
        cancelled.
        """
        if not self.is_stalled:
            self.is_stalled = True
            self._answers.clear()
            self._on_stall(True)
        for call in overdue:
            self.cancel(call)
            self._fail(call, Stalled(environment=self.environment))

    def _heard(self) -> None:
        """Any frame shows that the resident is alive."""
        self._unheard = 0
        if self.is_stalled:
            self.is_stalled = False
            self._answers.set()
            self._on_stall(False)

    def _receive_piece(self, data: bytes) -> bool:
        """Handles bytes that are one piece for a viewer, as an echo is; False for all others."""
        if is_taken := self._views.take(data):
            self._fruitless = 0
            self.received += 1
            if self._unheard:
                self._heard()
        return is_taken

    def _receive(self, frame: Frame) -> None:
        kind, number, fields, body = frame
        self._fruitless = 0
        self.received += 1
        if self._unheard:
            self._heard()
        try:
            call = self._calls.get(number)
            if call is None:
                raise FrameError(f"an answer to request {number}, which is not open")
            if kind == REPLY:
                answer = call.reply.decode(fields)
                del self._calls[number]
                if not call.future.done():
                    call.future.set_result((answer, body))
            elif kind == EVENT:
                reaction = call.event(fields, body)
                if reaction is not None and self._connection is not None and not call.is_cancelled:
                    self._connection.send(reaction)
            elif kind == ERROR:
                error = answers.error_for(answers.refusal.decode(fields))
                del self._calls[number]
                if not call.future.done():
                    call.future.set_exception(error)
            else:
                raise FrameError(f"a frame of kind {kind}, which only clients send")
        except (FrameError, *MALFORMED) as error:
            self._misbehaved(str(error))

    def _misbehaved(self, detail: str) -> None:
        self._finish(lambda: Misbehaved(detail, environment=self.environment))
        if self._connection is not None:
            self._connection.abort()

    def _broken(self, reason: Exception | None) -> None:
        """The other side or the network ended the connection."""
        if isinstance(reason, Misbehaved):
            self._misbehaved(reason.detail)
        if self._end is not None:
            return
        self._connection = None
        self._fruitless = (
            self._fruitless + 1 if self._loop.time() - self._connected < AT_ONCE else 0
        )
        for call in list(self._calls.values()):
            broken = BrokenOff(
                f"the connection to {self.environment} broke during {call.fields['op']!r}: it may or may not have been "
                "done; look at the result before doing it again",
                environment=self.environment,
            )
            call.interrupt(broken)
            if not call.repeats:
                del self._calls[call.id]
                self._fail(call, broken)
        self._reconnecting = self._loop.create_task(self._reconnect(reason))

    async def _reconnect(self, reason: Exception | None) -> None:
        if self._fruitless > FRUITLESS_CONNECTIONS:
            self._gone("it closes every connection without an answer")
            return
        ended = f"the connection ended ({reason or 'end of stream'})"
        began = self._loop.time()
        try:
            connection, hello = await self._connect_patiently(began + self.patience)
        except (EnvironmentUnavailable, OSError) as error:
            seconds, why = self._loop.time() - began, getattr(error, "strerror", None) or error
            if isinstance(error, Unreachable) or not isinstance(
                error, (*GONE, EnvironmentUnavailable)
            ):
                state = error.state if isinstance(error, Unreachable) else "busy"
                tried = f"{ended} and for {seconds:.0f} s no new one could be made ({why})"
                self._gone(tried, partial(GivenUp, state=state))
            else:
                self._gone(f"{ended} and a new one failed ({why})")
            return
        if self._end is not None:  # it ended meanwhile
            connection.abort()
            self._finish(self._end)
            return
        if hello.resident != self.hello.resident:
            connection.abort()
            self._gone("another resident answers in its place")
            return
        self._connection, self._reconnecting = connection, None
        self._replay(connection)

    async def _connect_patiently(self, deadline: float) -> tuple[Connection, answers.Hello]:
        """A new connection, retried for a while. Raises as `open` does when it stays broken."""
        unanswered, pause = 0, RECONNECT_PAUSE / 50
        while True:
            try:
                return await self._connect()
            except Unanswered:
                unanswered += 1
                if unanswered == UNANSWERED:
                    raise
            except GONE:
                raise
            except (OSError, Unreachable):  # also where this program has no descriptor left
                unanswered = 0
                if self.is_ending or self._loop.time() + pause > deadline:
                    raise
            await asyncio.sleep(pause)
            pause = min(pause * 2, RECONNECT_PAUSE)

    def _replay(self, connection: Connection) -> None:
        """Sends open requests again.

        Those without a waiter are left out, except for cancelled commands.
        """
        for call in list(self._calls.values()):
            if not call.is_awaited:
                del self._calls[call.id]
                continue
            connection.send(call.frame())
            if call.is_cancelled:
                connection.send(pack_frame(CANCEL, call.id, {}))

    def _gone(self, reason: str, kind: Callable[..., ResidentGone] = ResidentGone) -> None:
        self._reconnecting = None
        if self.is_ending:
            reason, kind = ENDED_BY_US, ResidentGone
        self._finish(lambda: kind(reason, environment=self.environment))

    def _closed(self) -> EnvironmentUnavailable:
        if self.is_ending:
            return ResidentGone(ENDED_BY_US, environment=self.environment)
        return EnvironmentUnavailable(
            f"environment {self.environment} was closed; open or attach to it again",
            environment=self.environment,
        )

    def _finish(self, error: Callable[[], EnvironmentUnavailable]) -> None:
        """Ends the link: every open and every later request fails."""
        self._end = self._end or error
        self.is_stalled = False  # requests fail by that error
        self._answers.set()  # releases all waiters
        if self._keepalive is not None:
            self._keepalive.end()
        calls, self._calls = self._calls, {}
        for call in calls.values():
            self._fail(call, error())

    def _fail(self, call: Call[Any], error: Exception) -> None:
        if not call.future.done():
            call.future.set_exception(error)


def _answer_in(future: "asyncio.Future[tuple[R, bytes]]") -> tuple[R, bytes] | None:
    """The answer, if it came."""
    if not future.done() or future.cancelled() or future.exception() is not None:
        return None
    return future.result()
