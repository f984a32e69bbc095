"""HTTP connections with deadlines: for a request to arrive, for a client to read, and a bound on
their number.

uvicorn waits without end for the head of a request and for a client that does not read its answer.
A thousand such connections would cost memory and descriptors.
"""

import asyncio
import logging
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 10.0  # for the head of a request to arrive
READ_SECONDS = 60.0  # for a client to read some of an answer
MOST_CONNECTIONS = 512
MOST_HEAD = 32 << 10  # bytes

_log = logging.getLogger("hermetic.serve")


class BoundedProtocol(H11Protocol):
    """A connection that is closed when its client is too slow.

    At the limit the oldest idle one makes room.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._head: asyncio.TimerHandle | None = None
        self._reading: asyncio.TimerHandle | None = None

    @property
    def is_idle(self) -> bool:
        """True while no request is being answered."""
        return self._head is not None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """asyncio: a client connected."""
        if len(self.connections) >= MOST_CONNECTIONS and not self._make_room():
            _log.warning("refused a connection: %d are open", MOST_CONNECTIONS)
            transport.abort()
            return
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio: the client is gone."""
        self._stop_timers()
        if self.transport is not None:
            super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """asyncio: bytes came."""
        super().data_received(data)
        if self._head is not None and self.cycle is not None and not self.cycle.response_complete:
            self._head.cancel()
            self._head = None

    def handle_websocket_upgrade(self, event: Any) -> None:
        """uvicorn: another protocol takes the connection over."""
        self._stop_timers()
        super().handle_websocket_upgrade(event)

    def on_response_complete(self) -> None:
        """uvicorn: the answer was sent, and the next request may come."""
        super().on_response_complete()
        if not self.transport.is_closing():
            self._await_head()

    def pause_writing(self) -> None:
        """asyncio: the client does not read as fast as we write."""
        super().pause_writing()
        if self._reading is None:
            self._await_reading(self._unread())

    def resume_writing(self) -> None:
        """asyncio: the client has read."""
        super().resume_writing()
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def _await_reading(self, unread: int) -> None:
        """Checks after a while whether the client has read anything."""
        self._reading = self.loop.call_later(READ_SECONDS, self._check_reading, unread)

    def _check_reading(self, before: int) -> None:
        unread = self._unread()
        if unread < before:
            self._await_reading(unread)
        else:
            self._give_up("did not read its answer", logging.WARNING)

    def _unread(self) -> int:
        return self.transport.get_write_buffer_size()

    def _await_head(self) -> None:
        if self._head is not None:
            self._head.cancel()
        self._head = self.loop.call_later(HEAD_SECONDS, self._check_head)

    def _check_head(self) -> None:
        is_begun = bool(self.conn.trailing_data[0])  # browsers connect ahead and send nothing
        self._give_up(
            "did not finish its request" if is_begun else "sent no request",
            logging.WARNING if is_begun else logging.INFO,
        )

    def _stop_timers(self) -> None:
        for timer in (self._head, self._reading):
            if timer is not None:
                timer.cancel()
        self._head = self._reading = None

    def _give_up(self, why: str, level: int) -> None:
        self._stop_timers()
        _log.log(
            level,
            "closed a connection from %s: the client %s",
            self.client[0] if self.client else "-",
            why,
        )
        self.transport.abort()

    def _make_room(self) -> bool:
        """Closes one connection that has no request; False when all have one."""
        for other in self.connections:
            if isinstance(other, BoundedProtocol) and other.is_idle:
                other._give_up("made room for another one", logging.WARNING)
                return True
        return False
