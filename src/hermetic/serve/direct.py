"""WebSockets without queues: messages go from the socket's callback to their receiver, answers
straight to the socket.

uvicorn passes each message through a parser of coroutines and a queue to a task, and pauses and
resumes the transport meanwhile. For a key and its echo that would be more work than all the rest.
Whole messages are cut out here; control frames, fragments and violations go to that parser.
"""

import logging
import struct
from collections.abc import Callable
from typing import Any, cast

from starlette.websockets import WebSocket
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Opcode

from hermetic.contract.printable import one_line

EXTENSION = "hermetic.direct"  # in the scope of a connection
INVALID_TEXT = 1007  # close code

_log = logging.getLogger("hermetic.serve")

_FINAL = _MASKED = 0x80
_BINARY = _FINAL | Opcode.BINARY
_SHORTEST_MEDIUM = 126 + 6  # a frame of fewer bytes has its length in one
_WHOLE = (_FINAL | Opcode.TEXT, _FINAL | Opcode.BINARY)  # first bytes of unfragmented messages
_SHORT, _MEDIUM, _LONG = struct.Struct(">BB"), struct.Struct(">BBH"), struct.Struct(">BBQ")


class DirectProtocol(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket, with messages that bypass its queue after `listen`."""

    _receiver: Callable[[str | bytes], None] | None = None
    _when_writable: Callable[[], None] | None = None
    is_writable = True  # False while the client does not read

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._held = bytearray()  # the start of an unfinished frame

    def handle_connect(self, event: Any) -> None:
        """uvicorn: the handshake has arrived."""
        super().handle_connect(event)
        if self.response.status_code == 101:
            cast(dict[str, Any], self.scope["extensions"])[EXTENSION] = {"connection": self}

    def data_received(self, data: bytes) -> None:
        """asyncio: bytes came."""
        if self._receiver is None:
            super().data_received(data)
        elif (
            2 < len(data) < _SHORTEST_MEDIUM
            and data[0] == _BINARY
            and len(data) == (data[1] ^ _MASKED) + 6
            and not (self._held or self.frames or self.close_sent)
        ):  # a key
            self._receiver(_unmasked(data[6:], data[2:6]))
        elif self._held:
            self._held += data
            del self._held[: self._take_frames(self._held)]
        else:
            used = self._take_frames(data)
            if used < len(data):
                self._held += memoryview(data)[used:]

    def _take_frames(self, data: bytes | bytearray) -> int:
        """Handles all frames that are complete. Returns the number of their bytes."""
        at, size = 0, len(data)
        while size - at >= 2:
            length, start = data[at + 1] ^ _MASKED, at + 6
            if length == 126:
                length, start = int.from_bytes(data[at + 2 : at + 4], "big"), at + 8
            elif length == 127:
                length, start = int.from_bytes(data[at + 2 : at + 10], "big"), at + 14
            end = start + length
            if length > self.config.ws_max_size or not data[at + 1] & _MASKED:
                super().data_received(bytes(data[at:]))  # the parser closes the connection
                return size
            if end > size:
                break
            if data[at] in _WHOLE and not self.frames:
                payload = _unmasked(data[start:end], data[start - 4 : start])
                self._take(data[at] & 15, payload)
            else:
                super().data_received(bytes(data[at:end]))
            at = end
        return at

    def send_receive_event_to_app(self) -> None:
        """uvicorn: a message is complete."""
        if self._receiver is None:
            super().send_receive_event_to_app()
            return
        data, self.frames = b"".join(self.frames), []
        self._take(Opcode.TEXT if self.curr_msg_data_type == "text" else Opcode.BINARY, data)

    def _take(self, kind: int, data: bytes) -> None:
        """Gives a message to the receiver."""
        if self.close_sent or self._receiver is None:
            return
        if kind == Opcode.BINARY:
            self._receiver(data)
            return
        try:
            text = data.decode()
        except UnicodeDecodeError:
            self.conn.send_close(INVALID_TEXT)
            self.handle_parser_exception()
            return
        self._receiver(text)

    def handle_parser_exception(self) -> None:
        """uvicorn: the client broke the protocol of WebSockets, or sent too much at once."""
        peer = self.client[0] if self.client else "-"
        reason = self.conn.close_sent.reason if self.conn.close_sent else ""
        _log.warning("closed a WebSocket from %s: %s", peer, one_line(reason))
        super().handle_parser_exception()

    def pause_writing(self) -> None:
        """asyncio: the client does not read as fast as we write."""
        super().pause_writing()
        self.is_writable = False

    def resume_writing(self) -> None:
        """asyncio: the client has read."""
        super().resume_writing()
        self.is_writable = True
        if self._when_writable is not None:
            self._when_writable()

    def listen(
        self, take: Callable[[str | bytes], None], when_writable: Callable[[], None]
    ) -> None:
        """From now on `take` gets every message, and `when_writable` is called when the client
        reads again.
        """
        self._receiver, self._when_writable = take, when_writable
        self.transport.set_write_buffer_limits(high=0)  # what waits, waits in one queue: the tab's
        waiting = [self.queue.get_nowait() for _ in range(self.queue.qsize())]
        for message in waiting:
            if message["type"] == "websocket.receive":
                data = message.get("bytes")
                take(cast(str, message.get("text")) if data is None else data)
            else:
                self.queue.put_nowait(message)
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()

    def write(self, data: str | bytes) -> None:
        """Sends a message at once; a closed connection drops it."""
        if self.close_sent or self.disconnected or self.transport.is_closing():
            return
        if type(data) is bytes and len(data) < 126:  # an echo
            self.transport.write(_SHORT.pack(_BINARY, len(data)) + data)
        elif isinstance(data, str):
            self._send(Opcode.TEXT, data.encode())
        else:
            self._send(Opcode.BINARY, data)

    def _send(self, kind: int, data: bytes) -> None:
        size = len(data)
        if size < 126:
            head = _SHORT.pack(_FINAL | kind, size)
        elif size < 1 << 16:
            head = _MEDIUM.pack(_FINAL | kind, 126, size)
        else:
            head = _LONG.pack(_FINAL | kind, 127, size)
        self.transport.write(head + data)


def _unmasked(data: bytes | bytearray, mask: bytes | bytearray) -> bytes:
    size = len(data)
    key = int.from_bytes((bytes(mask) * (size // 4 + 1))[:size], "little")
    return (int.from_bytes(data, "little") ^ key).to_bytes(size, "little")


class DirectSocket:
    """An accepted WebSocket for a tab."""

    def __init__(self, websocket: WebSocket) -> None:
        self._websocket = websocket
        self._connection: DirectProtocol = websocket.scope["extensions"][EXTENSION]["connection"]
        self.listen, self.write = self._connection.listen, self._connection.write

    def __repr__(self) -> str:
        return f"<DirectSocket of {self._websocket.client}>"

    @property
    def is_writable(self) -> bool:
        """False while the client does not read."""
        return self._connection.is_writable

    def pause_reading(self) -> None:
        """Takes no more messages of the client."""
        self._connection.transport.pause_reading()

    def resume_reading(self) -> None:
        """Takes them again."""
        self._connection.transport.resume_reading()

    async def wait_closed(self) -> None:
        """Returns when the connection is closed."""
        while (await self._websocket.receive())["type"] != "websocket.disconnect":
            pass

    async def close(self, code: int = 1000, reason: str | None = None) -> None:
        """Closes it."""
        await self._websocket.close(code, reason)
