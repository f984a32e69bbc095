"""One WebSocket of a browser tab: terminals by channel, and events."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from hermetic.contract.errors import ExecutionError, InvalidArgument
from hermetic.serve import frames
from hermetic.serve.control import Channel, Person
from hermetic.serve.frames import Malformed
from hermetic.serve.outgoing import Event, Outgoing, Publish, Socket
from hermetic.serve.refusals import Refused
from hermetic.serve.terminals import Terminals

SUBPROTOCOL = "hermetic.tab.1"
GREETING = 10.0  # seconds for the first frame
CHANNELS = 128  # of one tab
CLOSE_FAILED, CLOSE_MALFORMED, CLOSE_REFUSED, CLOSE_GREETING = 1011, 4400, 4401, 4408

_log = logging.getLogger("hermetic.serve")


Admit = Callable[[str], Person | None]  # by a ticket
# To all events, with whether the user answers approval requests; the result ends it.
Subscribe = Callable[[Publish, bool], Callable[[], None]]


class Tab:
    """One connection, from its greeting to its end."""

    def __init__(
        self, socket: Socket, admit: Admit, terminals: Terminals, subscribe: Subscribe
    ) -> None:
        self._socket, self._admit, self._terminals, self._subscribe = (
            socket,
            admit,
            terminals,
            subscribe,
        )
        self._out = Outgoing(socket)
        self._channels: dict[int, Channel] = {}
        self._opening: dict[int, asyncio.Task[None]] = {}  # channels that are being attached
        self._unsubscribe: Callable[[], None] | None = None
        self._person = Person("", frozenset())
        self._is_greeted = False
        self._refusal: asyncio.Future[tuple[int, str]] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        """Serves the tab until it disconnects. The socket is accepted already."""
        self._socket.listen(self._take_message, self._out.flush)
        late = asyncio.get_running_loop().call_later(GREETING, self._check_greeting)
        closed = asyncio.create_task(self._socket.wait_closed())
        try:
            either: list[asyncio.Future[Any]] = [closed, self._refusal]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if self._refusal.done():
                with contextlib.suppress(RuntimeError):  # it is closed already
                    await self._socket.close(*self._refusal.result())
        finally:
            late.cancel()
            self._refuse(CLOSE_REFUSED, "it has ended")
            await self._end(closed)

    async def _end(self, closed: "asyncio.Task[None]") -> None:
        if self._unsubscribe is not None:
            self._unsubscribe()
        for channel in list(self._channels.values()):
            channel.close()
        every = [closed, *self._opening.values()]
        for task in every:
            task.cancel()
        await asyncio.gather(*every, return_exceptions=True)
        for channel in list(self._channels.values()):  # one that was attached meanwhile
            channel.close()

    def _refuse(self, code: int, reason: str) -> None:
        """Ends the tab; its further messages are dropped."""
        if not self._refusal.done():
            self._refusal.set_result((code, reason))

    def _take_message(self, message: str | bytes) -> None:
        if self._refusal.done():
            return
        try:
            if not self._is_greeted:
                self._greet(message)
            elif isinstance(message, bytes):
                self._take_frame(message)
            else:
                self._operate(message)
        except Malformed as error:
            _log.warning("tab of %s closed: %s", self._person.name, error)
            self._refuse(CLOSE_MALFORMED, str(error)[:100])
        except Exception:
            _log.exception("a tab failed")
            self._refuse(CLOSE_FAILED, "the server failed")

    def _check_greeting(self) -> None:
        if not self._is_greeted:
            self._refuse(CLOSE_GREETING, "no greeting")

    def _greet(self, message: str | bytes) -> None:
        """The first message, which has to prove who is there."""
        person = None
        try:
            given = _operation(message if isinstance(message, str) else "")
            person = self._admit(given["ticket"]) if given["op"] == "hello" else None
        except (Malformed, KeyError, TypeError):
            pass
        if person is None:
            _log.warning("tab refused: no valid ticket")
            self._refuse(CLOSE_REFUSED, "no valid ticket")
            return
        self._person, self._is_greeted = person, True
        self._out.event("hello", scopes=sorted(person.scopes), name=person.name)

    def _operate(self, text: str) -> None:
        given = _operation(text)
        operation = self._OPERATIONS.get(given["op"])
        if operation is None:
            raise Malformed(f"no operation {given['op']!r}")
        operation(self, given)

    # -- binary
    def _take_frame(self, data: bytes) -> None:
        type, number, offset, payload = frames.unpack(data)
        channel = self._channels.get(number)
        if channel is None:  # it may have been detached meanwhile
            return
        if type == frames.INPUT:
            channel.input(offset, payload)
        elif type == frames.ACK:
            channel.parsed(offset)
        else:
            channel.resize(*frames.unpack_size(payload))

    # -- text
    def _attach(self, given: Mapping[str, Any]) -> None:
        number = _channel(given)
        if number in self._channels or number in self._opening:
            self._error(
                number,
                "channel_used",
                f"channel {number} is attached already",
                "use another number",
            )
            return
        if len(self._channels) + len(self._opening) >= CHANNELS:
            self._error(
                number, "too_many", f"a tab has at most {CHANNELS} channels", "detach one of them"
            )
            return
        task = asyncio.create_task(self._open(number, given))
        self._opening[number] = task
        task.add_done_callback(lambda _: self._opening.pop(number, None))

    async def _open(self, number: int, given: Mapping[str, Any]) -> None:
        async def attach() -> None:
            channel = await self._terminals.attach(
                number,
                self._out,
                self._person,
                environment=_text(given, "environment"),
                process=_text(given, "process"),
                offset=_number(given, "from"),
                size=(_number(given, "rows"), _number(given, "cols")),
            )
            if not channel.is_closed:
                self._channels[number] = channel
                channel.when_closed.append(lambda: self._channels.pop(number, None))

        await self._reporting(number, attach())

    def _detach(self, given: Mapping[str, Any]) -> None:
        number = _channel(given)
        if task := self._opening.get(number):
            task.cancel()
        if channel := self._channels.pop(number, None):
            channel.close()
        self._out.event("detached", channel=number)

    def _take(self, given: Mapping[str, Any]) -> None:
        self._with_channel(given, lambda channel: channel.take())

    def _give(self, given: Mapping[str, Any]) -> None:
        note = str(given.get("note") or "")
        self._with_channel(given, lambda channel: channel.give(note))

    def _secret(self, given: Mapping[str, Any]) -> None:
        if channel := self._channels.get(_channel(given)):
            channel.secret(str(given.get("text") or ""))

    def _watch(self, given: Mapping[str, Any]) -> None:
        """Subscribes to all events. A list that is read after the answer misses nothing."""
        if self._unsubscribe is None:
            self._unsubscribe = self._subscribe(self._published, self._person.can_approve)
        self._out.event("watching")

    def _published(self, event: Event) -> None:
        """An event for all tabs. Of who drives an attached process its channel reports itself."""
        process = event.get("environment"), event.get("process")
        is_ours = event["event"] == "control" and any(
            process == (channel.environment, channel.info.id) for channel in self._channels.values()
        )
        if not is_ours:
            self._out.publish(event)

    _OPERATIONS: Mapping[str, Callable[["Tab", Mapping[str, Any]], None]] = {
        "attach": _attach,
        "detach": _detach,
        "take": _take,
        "give": _give,
        "secret": _secret,
        "watch": _watch,
    }

    def _with_channel(
        self, given: Mapping[str, Any], act: Callable[[Channel], Awaitable[None]]
    ) -> None:
        number = _channel(given)
        channel = self._channels.get(number)
        if channel is None:
            self._error(
                number, "no_channel", f"channel {number} is not attached", "attach it first"
            )
            return
        channel.run(self._reporting(number, act(channel)))

    async def _reporting(self, channel: int, work: Awaitable[None]) -> None:
        """Does the work; an error becomes an event."""
        try:
            await work
        except InvalidArgument as error:
            self._error(channel, "invalid", str(error), "")
        except Refused as error:
            self._error(channel, error.problem.code, error.problem.message, error.problem.advice)
        except ExecutionError as error:
            self._error(channel, _code(error), str(error), "")
        except Exception:
            _log.exception("an operation of a tab failed")
            self._error(channel, "failed", "The server failed.", "Look at its log.")

    def _error(self, channel: int, code: str, message: str, advice: str) -> None:
        self._out.event("error", channel=channel, code=code, message=message, advice=advice)


def _code(error: ExecutionError) -> str:
    """The error's class as a code: `UnknownProcess` is `unknown_process`."""
    name = type(error).__name__
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip(
        "_"
    )


def _operation(text: str) -> dict[str, Any]:
    try:
        given = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        given = None
    if not isinstance(given, dict) or not isinstance(given.get("op"), str):
        raise Malformed("a text frame is a JSON object with op")
    return given


def _channel(given: Mapping[str, Any]) -> int:
    number = given.get("channel")
    if type(number) is not int or not 0 <= number <= frames.MOST_CHANNEL:
        raise Malformed("channel must be a whole number of 32 bits")
    return number


def _text(given: Mapping[str, Any], name: str) -> str:
    value = given.get(name)
    if not isinstance(value, str):
        raise InvalidArgument(f"{name} must be text", argument=name)
    return value


def _number(given: Mapping[str, Any], name: str) -> int | None:
    value = given.get(name)
    if value is None:
        return None
    if type(value) is not int or not 0 <= value < 1 << 62:
        raise InvalidArgument(f"{name} must be a whole number of at least 0", argument=name)
    return value
