"""Server on the Unix socket: authentication, frames in and out, and bounded memory per client."""

from __future__ import annotations

import os
import struct
import time
from _operator import _compare_digest

from ..limits import CLIENTS, GREETING, OPEN_REQUESTS, UNGREETED, UNSENT
from ..wire import frames, stream
from ..wire.fields import Refusal, advised, invalid
from ..wire.stream import Stream
from .fast_stdlib import deque
from .loop import READ, WRITE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..wire.frames import Fields
    from .loop import Loop

    Parts = tuple[bytes, ...]  # of one frame, in order
    Promise = Callable[[], Parts]


WAITING = 64  # connections that were not accepted yet


class Server:
    """Calls `serve(request)` for each request."""

    def __init__(
        self,
        loop: Loop,
        path: str,
        token: bytes,
        serve: Callable[[Request], None],
        opener: int | None = None,
    ) -> None:
        self.loop, self.path, self.token, self.serve = loop, path, token, serve
        self.users = {0, os.getuid(), os.getuid() if opener is None else opener}
        self.clients: set[Client] = set()
        self.attached = 0  # authenticated clients that count as users of the environment
        self.observers = 0  # authenticated clients that only observe: they prolong no lease
        self.on_count: Callable[[], None] = lambda: None
        # Another user needs mode 0666; the directory and the token protect the socket.
        mode = 0o600 if self.users <= {0, os.getuid()} else 0o666
        self.listener = stream.Listener(loop, path, mode, WAITING, self._accepted)
        self.passed: stream.PassedListener | None = None

    def listen_at(self, passed: Stream) -> None:
        """Listens at a socket of the host's as well."""
        self.passed = stream.PassedListener(self.loop, passed, WAITING, self._accepted)

    def _accepted(self, connection: Stream, pid: int, uid: int) -> None:
        if uid not in self.users or len(self.clients) >= CLIENTS + UNGREETED:
            connection.close()
        else:
            self.clients.add(Client(self, connection))

    def left(self, client: Client) -> None:
        self.clients.discard(client)
        if client.observes:
            self.observers -= 1
        # a connection that only looks for a listener does not prolong the lease
        elif client.greeted:
            self.attached -= 1
            self.on_count()

    def close(self) -> None:
        for client in list(self.clients):
            client.close()
        self.listener.close()
        if self.passed is not None:
            self.passed.close()


class Client:
    """One connection.

    Every request gets exactly one final answer, unless the connection ends first.
    """

    def __init__(self, server: Server, connection: Stream) -> None:
        self.server, self.loop, self.connection = server, server.loop, connection
        self.reader = frames.FrameReader()
        self.greeted = self.observes = False
        self.open: dict[int, Request] = {}  # by id
        self.outgoing: deque[bytes | memoryview | Promise] = deque()
        self.outgoing_bytes = 0
        # frames that were received and not served yet
        self.coming: Iterator[frames.Frame] | None = None
        self.blobs: dict[str, int] = {}  # name: descriptor
        self.closed = False
        self.heard = time.monotonic()  # of hand-overs
        # callbacks of clients that wait for its claims
        self.when_closed: list[Callable[[], None]] = []
        self.bridge: Stream | None = None  # connection of the process that passed us this stream
        self.watch = self.loop.watch(connection.fileno(), self._first)
        self.timer = self.loop.call_later(GREETING, self._greeting_missed)

    def _greeting_missed(self) -> None:
        if not self.greeted:
            self.close()

    def _first(self) -> None:
        """Handles the first message: a handshake, or a descriptor of the stream on which the
        handshake follows.
        """
        self.watch.callback = self._ready
        try:
            count, passed, _, _ = self.connection.recvmsg_into(
                [self.loop.buffer], stream.CMSG_SPACE(4), stream.MSG_CMSG_CLOEXEC
            )
        except OSError:
            count, passed = 0, []
        for level, kind, fds in passed:
            if (level, kind, len(fds)) == (stream.SOL_SOCKET, stream.SCM_RIGHTS, 4):
                self._take_over(*struct.unpack("i", fds))
                return
        self._received(bytes(self.loop.buffer[:count]))

    def _take_over(self, fd: int) -> None:
        """Switches to the passed stream.

        The process that passed it ends when its own connection is closed.
        """
        self.loop.unwatch(self.watch)
        self.bridge, self.connection = self.connection, Stream(fileno=fd)
        self.connection.setblocking(False)
        self.watch = self.loop.watch(fd, self._ready)

    def _ready(self) -> None:
        if self.outgoing:
            self._flush()
            if self.closed or not self.has_room:
                return
        if self.coming is not None:
            return
        try:
            count = self.connection.recv_into(self.loop.buffer)
        except BlockingIOError:
            return
        except OSError:
            count = 0
        data = bytes(self.loop.buffer[:count])
        # a key: one event whose header is that of the event before
        header, kind, number = self.reader.plain
        if kind == frames.EVENT and not self.reader.buffer and number in self.open:
            split = 6 + len(header)
            if (
                count >= split  # else it has ended, or this is the start of a frame
                and data[:split] == frames.PREFIX.pack(count - 4, len(header)) + header
            ):
                try:
                    self.open[number].on_event({}, data[split:])
                except Exception:  # as of any half-served frame
                    self.close()
                    raise
                return
        self._received(data)

    def _received(self, data: bytes) -> None:
        if not data:
            self.close()
            return
        self.coming = self.reader.feed(data)
        self._take_frames()

    def _take_frames(self) -> None:
        """Serves received frames while answers can be sent. The rest waits."""
        if self.coming is None:
            return
        try:
            for frame in self.coming:
                self._take(*frame)
                if self.closed or not self.has_room:
                    return
        except frames.FrameError:
            self.close()
            return
        except Exception:  # a half-served frame: the connection is unusable
            self.close()
            raise
        self.coming = None

    def _take(self, kind: int, number: int, fields: Fields, body: bytes) -> None:
        if kind == frames.REQUEST:
            too_early = not self.greeted and fields.get("op") != "hello"
            if too_early or number in self.open or len(self.open) >= OPEN_REQUESTS:
                raise frames.FrameError("a request that cannot be")
            request = self.open[number] = Request(self, number, fields, body)
            self.serve(request)
        elif kind == frames.CANCEL and number in self.open:
            self.open[number].cancel()
        elif (
            kind == frames.CREDIT
            and number in self.open
            and type(fields.get("n")) is int
            and fields["n"] > 0
        ):
            self.open[number].on_credit(fields["n"])
        elif kind == frames.EVENT and number in self.open:
            self.open[number].on_event(fields, body)

    def serve(self, request: Request) -> None:
        try:
            self.server.serve(request)
        except Refusal as refusal:
            request.refuse(refusal)
        except OSError as error:
            request.refuse(
                Refusal(
                    "EnvironmentUnavailable", "the environment could not do it: %s" % advised(error)
                )
            )
        except frames.FrameError:
            raise
        except Exception as error:  # refused for this client; the others go on
            request.refuse(Refusal("EnvironmentUnavailable", "the resident failed: %r" % error))
            self.loop.on_error()

    def greet(self, token: bytes, observes: bool = False) -> None:
        """Checks the token; a wrong one ends the connection.

        Raises Refusal at the limit of clients.
        """
        server = self.server
        if not _compare_digest(token, server.token):
            raise frames.FrameError("wrong token")
        if not self.greeted and server.attached + server.observers >= CLIENTS:
            raise Refusal(
                "Full",
                "%d clients are attached, the most: close one of them, then try again" % CLIENTS,
            )
        if self.closed:  # closed while the handshake waited
            return
        is_first, self.greeted = not self.greeted, True
        self.timer.cancel()
        self.reader.most = frames.MAX_FRAME
        if is_first and observes:
            self.observes = True
            server.observers += 1
        elif not self.observes:
            server.attached += is_first
            server.on_count()

    def take_blob(self, field: str, name: str) -> int:
        """Removes a blob, and returns its descriptor. Raises Refusal; `field` has named it."""
        fd = self.blobs.pop(name, None)
        if fd is None:
            raise invalid(field, "no such blob on this connection")
        os.lseek(fd, 0, os.SEEK_SET)
        return fd

    def await_ping(self, seconds: float) -> None:
        """Closes the connection after so many seconds, unless another ping comes, or answers are
        being read.
        """
        self.timer.cancel()
        unsent = -1 if self.has_room else self.outgoing_bytes
        self.timer = self.loop.call_later(seconds, lambda: self._silent(seconds, unsent))

    def _silent(self, seconds: float, unsent: int) -> None:
        if self.has_room or self.outgoing_bytes == unsent:
            self.close()
        else:  # pings are not read while much is unsent
            self.await_ping(seconds)

    # -- out
    def send(self, frame: Parts | Promise) -> None:
        """Queues a frame, or a callable that returns it and runs when the socket is writable."""
        if self.closed:
            return
        if callable(frame):
            if not self.has_room:
                self.outgoing.append(frame)
                self._want()
                return
            frame = frame()
        for part in frame:
            rest = part if self.outgoing else self._write(part)
            if rest:
                self.outgoing_bytes += len(rest)
                self.outgoing.append(rest)
        if self.outgoing:
            self._want()

    def _write(self, data: bytes | memoryview) -> bytes | memoryview:
        """Sends what the socket takes now. Returns the rest, which is no copy."""
        try:
            sent = self.connection.send(data)
        except BlockingIOError:
            return data
        except OSError:
            self.close()
            return b""
        return memoryview(data)[sent:] if sent < len(data) else b""

    def _flush(self) -> None:
        while self.outgoing:
            data = self.outgoing.popleft()
            if callable(data):
                parts = data()
                self.outgoing.extendleft(reversed(parts))
                self.outgoing_bytes += sum(map(len, parts))
                continue
            self.outgoing_bytes -= len(data)
            rest = self._write(data)
            if self.closed:
                return
            if rest:
                self.outgoing.appendleft(rest)
                self.outgoing_bytes += len(rest)
                break
        if self.has_room:
            self._take_frames()
        self._want()
        for request in list(self.open.values()):
            request.on_room()

    def _want(self) -> None:
        events = WRITE if self.outgoing else 0
        if self.has_room and self.coming is None:
            events |= READ
        self.loop.want(self.watch, events)

    @property
    def has_room(self) -> bool:
        return self.outgoing_bytes <= UNSENT

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        self.timer.cancel()
        self.loop.unwatch(self.watch)
        self.connection.close()
        if self.bridge is not None:
            self.bridge.close()
        for request in list(self.open.values()):
            self.loop.call(request.abandoned)
        self.open.clear()
        for fd in self.blobs.values():
            os.close(fd)
        self.blobs.clear()
        self.server.left(self)
        waiting, self.when_closed[:] = self.when_closed[:], []
        for left in waiting:
            self.loop.call(left)


def nothing(*_: object) -> None:
    """Default hook."""


class Request:
    """One request of a client. Its handler replies now or later, and sets the hooks."""

    answered = False
    on_cancel: Callable[[], None] | None = None  # replaces the immediate refusal
    abandoned: Callable[[], None] = staticmethod(nothing)  # the connection is closed
    on_credit: Callable[[int], None] = staticmethod(nothing)
    # the client sends more, without an answer
    on_event: Callable[[Fields, bytes], None] = staticmethod(nothing)
    on_room: Callable[[], None] = staticmethod(nothing)

    def __init__(self, client: Client, number: int, fields: Fields, body: bytes) -> None:
        self.client, self.number, self.fields, self.body = client, number, fields, body

    def cancel(self) -> None:
        if self.on_cancel is not None:
            self.on_cancel()
            return
        self.abandoned()
        self.refuse(Refusal("Cancelled", "cancelled by the client"))

    def reply(self, fields: Fields, body: bytes = b"") -> None:
        self._answer(frames.REPLY, fields, body)

    def reply_when_room(self, make: Callable[[], tuple[Fields, bytes]]) -> None:
        """Replies with `make()`, which returns `(fields, body)`, when the socket is writable."""
        if self._finish():
            self.client.send(lambda: self._frame(frames.REPLY, *make()))

    def refuse(self, refusal: Refusal) -> None:
        self._answer(
            frames.ERROR, dict(refusal.fields, error=refusal.kind, message=refusal.message), b""
        )

    def event(self, fields: Fields, body: bytes = b"") -> None:
        if not self.answered:
            self.client.send(frames.frame_parts(frames.EVENT, self.number, fields, body))

    def _answer(self, kind: int, fields: Fields, body: bytes) -> None:
        if self._finish():
            self.client.send(self._frame(kind, fields, body))

    def _frame(self, kind: int, fields: Fields, body: bytes) -> Parts:
        """The answer as a frame, or an error if it is too large."""
        try:
            return frames.frame_parts(kind, self.number, fields, body)
        except frames.FrameError as error:
            refused = {
                "error": "EnvironmentUnavailable",
                "message": "the answer does not fit: %s" % error,
            }
            return frames.frame_parts(frames.ERROR, self.number, refused)

    def _finish(self) -> bool:
        """True the first time: a request is answered once."""
        if self.answered or self.client.closed:
            return False
        self.answered = True
        self.client.open.pop(self.number, None)
        return True
