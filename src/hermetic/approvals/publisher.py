"""Offers a process's pending approval requests to the consoles of its user, and takes their
answers.
"""

import asyncio
import contextlib
import logging
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from hermetic.approvals import exchange
from hermetic.approvals.exchange import Asked, Give, Listed, Refused, Settled, SharedRequest, Where
from hermetic.approvals.queue import Queue, Reply
from hermetic.contract.approval import ApprovalRequest
from hermetic.contract.errors import ConfigError, InvalidArgument, UnknownApproval
from hermetic.registry.peers import Peer, is_inside, peer_of

LEAVING = 5.0  # seconds for a console to close its connection after the last request
MOST_UNREAD = 128 << 20  # bytes for a console that does not read
# others: withdrawn
_OUTCOMES: dict[str, exchange.Outcome] = {"user": "answered", "timeout": "expired"}
_INSIDE = "process {} runs inside an environment: it can neither see nor answer approval requests from outside"

_log = logging.getLogger("hermetic.approvals")


class Publisher:
    """The requests of one queue that other processes see.

    It listens while there are any, on one event loop.
    """

    def __init__(self, queue: Queue, now: Callable[[], float]) -> None:
        self._queue = queue
        self._now = now
        self._open: dict[str, bytes] = {}  # messages by request
        self._tokens: dict[str, str] = {}  # of the answers that counted
        self._tasks: set[asyncio.Task[None]] = set()  # one for each connection
        self._consoles: set[asyncio.StreamWriter] = set()  # that get messages
        self._listener: socket.socket | None = None
        self._path = Path()

    def __repr__(self) -> str:
        return f"<Publisher of {len(self._open)} requests to {len(self._consoles)} consoles>"

    def publish(self, request: ApprovalRequest, reply: "asyncio.Future[Reply]") -> None:
        """Shows a request until it has its reply.

        Without a directory for that it stays in this process.
        """
        if reply.done():
            return
        loop = reply.get_loop()
        fields = {name: getattr(request, name) for name in request.__struct_fields__}
        where = Where(pid=os.getpid(), program=_program(), environment=request.environment_id)
        asked = exchange.packed(Asked(SharedRequest(**fields, where=where)))
        try:
            if len(asked) > exchange.MOST_MESSAGE:
                raise ConfigError(f"it has more than {exchange.MOST_MESSAGE} bytes")
            self._listen(loop)
        except (ConfigError, OSError) as error:
            _log.warning("consoles of other processes do not see %s: %s", request.id, error)
            return
        self._open[request.id] = asked
        self._send_all(asked)
        expiry = loop.call_later(max(0.0, request.expires - self._now()), self._queue.drop_expired)
        reply.add_done_callback(lambda done: self._settled(request.id, done, expiry))

    def _settled(self, id: str, done: "asyncio.Future[Reply]", expiry: asyncio.TimerHandle) -> None:
        expiry.cancel()
        reply = Reply("deny", "withdrawn") if done.cancelled() else done.result()
        del self._open[id]
        outcome = _OUTCOMES.get(reply.by, "withdrawn")
        is_answered = outcome == "answered"
        self._send_all(
            exchange.packed(
                Settled(
                    id=id,
                    outcome=outcome,
                    answer=reply.answer if is_answered else "",
                    reason=reply.reason,
                    by=reply.who,
                    token=self._tokens.pop(id, ""),
                )
            )
        )
        if not self._open:
            self._close(done.get_loop())

    # -- the socket
    def _listen(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._listener is None:
            self._path, listener = exchange.place(exchange.SOCKET, _listening)
            self._listener = listener
            loop.add_reader(listener, self._accept, listener, loop)

    def _close(self, loop: asyncio.AbstractEventLoop) -> None:
        """Consoles get what was sent, then the end of the stream. A connection ends when its
        console closes it.

        Closed from here, it could lose what was sent to a console that writes at the same time.
        """
        if self._listener is None:
            return
        with contextlib.suppress(OSError):
            exchange.remove(self._path)
        loop.remove_reader(self._listener)
        self._listener.close()
        self._listener = None
        leaving, self._consoles = self._consoles, set()
        for writer in leaving:
            if not writer.is_closing():
                writer.write_eof()
                loop.call_later(LEAVING, writer.transport.abort)

    async def close(self) -> None:
        """Returns when no console is connected any more; its requests are settled."""
        if self._tasks:
            await asyncio.wait(list(self._tasks))

    def _accept(self, listener: socket.socket, loop: asyncio.AbstractEventLoop) -> None:
        try:
            connection, _ = listener.accept()
        except OSError:  # it has left again, or no descriptor is available
            return
        task = loop.create_task(self._serve(connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, connection: socket.socket) -> None:
        with (
            connection,
            contextlib.suppress(OSError, ValueError, msgspec.MsgspecError, InvalidArgument),
        ):
            peer = peer_of(connection)
            reader, writer = await asyncio.open_unix_connection(
                sock=connection, limit=exchange.MOST_MESSAGE
            )
            try:
                if why := _refusal(peer):
                    writer.write(exchange.packed(Refused(why)))
                    return
                writer.write(
                    exchange.packed(Listed(len(self._open))) + b"".join(self._open.values())
                )
                if self._open:
                    self._consoles.add(writer)
                    while line := await reader.readline():
                        self._take(line, peer, writer)
            finally:
                self._consoles.discard(writer)
                writer.close()
                with contextlib.suppress(OSError):
                    await writer.wait_closed()

    def _take(self, line: bytes, peer: Peer, writer: asyncio.StreamWriter) -> None:
        """Settles a request by a console's answer, unless it was settled before: then the console
        gets that.
        """
        given = msgspec.json.decode(line, type=Give)
        # it knows that the last request was settled, or will in a moment
        if writer not in self._consoles:
            return
        if why := _refusal(peer):  # again: its place among the processes may have changed
            writer.write(exchange.packed(Refused(why)))
            return
        try:
            self._queue.answer(
                given.id,
                given.answer,
                given.reason,
                who=f"{given.name or 'a program'}, pid {peer.pid}",
            )
            self._tokens[given.id] = given.token
        except UnknownApproval:
            if given.id not in self._open:
                writer.write(exchange.packed(Settled(id=given.id, outcome="withdrawn")))

    def _send_all(self, data: bytes) -> None:
        for writer in self._consoles:
            writer.write(data)
            if writer.transport.get_write_buffer_size() > MOST_UNREAD:
                writer.transport.abort()


def _refusal(peer: Peer) -> str:
    """Why a process may not answer; "" if it may."""
    if peer.uid != os.geteuid():
        return f"process {peer.pid} belongs to another user"
    return _INSIDE.format(peer.pid) if is_inside(peer.pid) else ""


def _listening(path: Path) -> socket.socket:
    listener = socket.socket(
        socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
    )
    try:
        listener.bind(str(path))
        listener.listen(64)
    except BaseException:
        listener.close()
        raise
    return listener


def _program() -> str:
    """The name of this program, for people."""
    named = sys.argv[0] if sys.argv else ""
    path = Path(sys.executable if named in ("", "-", "-c", "-m") else named)
    return path.parent.name if path.name == "__main__.py" else path.name
