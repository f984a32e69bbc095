"""Clients on the Unix socket: who may speak, frames in, frames out, and never more memory than the bounds allow."""

import os
import socket
import struct
from _operator import _compare_digest
from collections import deque

from . import frames
from .loop import READ, WRITE
from .resident import Refusal

GREETING_SECONDS = 5
OPEN_REQUESTS = 1024  # of one client
OUTGOING_BYTES = 1 << 20  # beyond this, answers wait as promises and nothing new is read from that client
CLIENTS = 64
RECEIVE_BYTES = 1 << 16  # what malloc serves without asking the kernel


class Server:
    def __init__(self, loop, path, token, requests):
        self.loop, self.path, self.token, self.requests = loop, path, token, requests
        self.clients = set()
        self.on_count = lambda: None
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        self.socket.setblocking(False)
        self.socket.bind(path)
        os.chmod(path, 0o600)
        self.socket.listen(64)
        self.watch = loop.watch(self.socket.fileno(), self._accept)

    def _accept(self):
        try:
            connection, _ = self.socket.accept()
        except OSError:
            return
        connection.setblocking(False)
        _, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if uid not in (0, os.getuid()) or len(self.clients) >= CLIENTS:
            connection.close()
            return
        self.clients.add(Client(self, connection))

    @property
    def attached(self):
        return sum(client.greeted for client in self.clients)

    def left(self, client):
        self.clients.discard(client)
        self.on_count()

    def close(self):
        for client in list(self.clients):
            client.close()
        self.loop.unwatch(self.watch)
        self.socket.close()


class Client:
    """One connection. Every request gets exactly one last answer, unless the connection ends first."""

    def __init__(self, server, connection):
        self.server, self.loop, self.connection = server, server.loop, connection
        self.reader = frames.FrameReader()
        self.greeted = False
        self.open = {}  # id: Request
        self.outgoing = deque()  # bytes, or a function that makes them when there is room
        self.outgoing_bytes = 0
        self.blobs = {}
        self.closed = False
        self.watch = self.loop.watch(connection.fileno(), self._ready)
        self.timer = self.loop.call_later(GREETING_SECONDS, self._greeting_missed)

    def _greeting_missed(self):
        if not self.greeted:
            self.close()

    def _ready(self):
        if self.outgoing:
            self._flush()
        if self.closed or self.outgoing_bytes > OUTGOING_BYTES:
            return
        try:
            data = self.connection.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            return
        try:
            for frame in self.reader.feed(data):
                self._take(*frame)
                if self.closed:
                    return
        except frames.FrameError:
            self.close()

    def _take(self, kind, number, fields, body):
        if kind == frames.REQUEST:
            if not self.greeted and fields.get("op") != "hello" or number in self.open or len(self.open) >= OPEN_REQUESTS:
                raise frames.FrameError("a request that cannot be")
            request = self.open[number] = Request(self, number, fields, body)
            self._serve(request)
        elif kind == frames.CANCEL and number in self.open:
            self.open[number].cancel()
        elif kind == frames.CREDIT and number in self.open and type(fields.get("n")) is int and fields["n"] > 0:
            self.open[number].on_credit(fields["n"])

    def _serve(self, request):
        try:
            self.server.requests.serve(request)
        except Refusal as refusal:
            request.refuse(refusal)
        except OSError as error:
            request.refuse(Refusal("EnvironmentUnavailable", "the environment could not do it: %s" % error))
        except frames.FrameError:
            raise
        except Exception as error:  # the client hears of it and everybody else goes on
            request.refuse(Refusal("EnvironmentUnavailable", "the resident failed: %r" % error))
            raise

    def greet(self, token):
        """Whether the token is ours; a wrong one ends the connection."""
        if not _compare_digest(token, self.server.token):
            raise frames.FrameError("wrong token")
        self.greeted = True
        self.timer.cancel()
        self.reader.most = frames.MAX_FRAME
        self.server.on_count()

    # -- out
    def send(self, data):
        """Queue bytes, or a function that returns bytes or None and is called when there is room."""
        if self.closed:
            return
        if callable(data):
            if self.outgoing_bytes > OUTGOING_BYTES:
                self.outgoing.append(data)
                return
            data = data()
            if data is None:
                return
        if not self.outgoing:
            try:
                sent = self.connection.send(data)
            except BlockingIOError:
                sent = 0
            except OSError:
                self.close()
                return
            if sent == len(data):
                return
            data = data[sent:]
        self.outgoing.append(data)
        self.outgoing_bytes += len(data)
        self._want()

    def _flush(self):
        while self.outgoing:
            data = self.outgoing[0]
            if callable(data):
                self.outgoing.popleft()
                data = data()
                if data is None:
                    continue
                self.outgoing.appendleft(data)
                self.outgoing_bytes += len(data)
            try:
                sent = self.connection.send(data)
            except BlockingIOError:
                break
            except OSError:
                self.close()
                return
            self.outgoing_bytes -= sent
            self.outgoing.popleft()
            if sent < len(data):
                self.outgoing.appendleft(data[sent:])
                break
        self._want()
        for request in list(self.open.values()):
            request.on_room()

    def _want(self):
        events = WRITE if self.outgoing else 0
        if self.outgoing_bytes <= OUTGOING_BYTES:
            events |= READ
        self.loop.want(self.watch, events)

    @property
    def has_room(self):
        return self.outgoing_bytes <= OUTGOING_BYTES

    def close(self):
        if self.closed:
            return
        self.closed = True
        self.timer.cancel()
        self.loop.unwatch(self.watch)
        self.connection.close()
        for request in list(self.open.values()):
            request.abandoned()
        self.open.clear()
        for fd in self.blobs.values():
            os.close(fd)
        self.blobs.clear()
        self.server.left(self)


def nothing(*_):
    """A hook that nobody has set."""


class Request:
    """One question of a client. Handlers set the hooks they need."""

    def __init__(self, client, number, fields, body):
        self.client, self.number, self.fields, self.body = client, number, fields, body
        self.answered = False
        self.on_cancel = None  # instead of refusing at once
        self.abandoned = nothing  # the connection is gone
        self.on_credit = nothing
        self.on_room = nothing

    def cancel(self):
        if self.on_cancel is not None:
            self.on_cancel()
            return
        self.abandoned()
        self.refuse(Refusal("Cancelled", "cancelled by the client"))

    def reply(self, fields, body=b""):
        self._answer(frames.REPLY, fields, body)

    def reply_when_room(self, make):
        """`make()` returns `(fields, body)`; called when the client has room for it."""
        if self._finish():
            self.client.send(lambda: frames.pack_frame(frames.REPLY, self.number, *make()))

    def refuse(self, refusal):
        self._answer(frames.ERROR, dict(refusal.fields, error=refusal.kind, message=refusal.message), b"")

    def event(self, fields, body=b""):
        if not self.answered:
            self.client.send(frames.pack_frame(frames.EVENT, self.number, fields, body))

    def _answer(self, kind, fields, body):
        if self._finish():
            self.client.send(frames.pack_frame(kind, self.number, fields, body))

    def _finish(self):
        """True the first time: a request is answered once."""
        if self.answered or self.client.closed:
            return False
        self.answered = True
        self.client.open.pop(self.number, None)
        return True
