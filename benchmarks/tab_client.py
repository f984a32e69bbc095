"""A WebSocket over a plain socket, so that the client costs little, and a tab of the console on it."""

import base64
import json
import os
import select
import socket
import struct
import time
import urllib.error
import urllib.request
from typing import Any, NoReturn

OUTPUT, INPUT, ACK, RESIZE = 1, 2, 3, 4
TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10  # kinds of messages
ACK_BYTES = 1 << 16
HEAD = struct.Struct(">BIQ")
BUFFER = 1 << 20


class Ended(Exception):
    """The server closed the connection."""


class WebSocket:
    """One connection, without compression."""

    def __init__(self, url: str, path: str, protocol: str, *headers: str) -> None:
        host, _, port = url.partition("://")[2].partition(":")
        self.socket = socket.create_connection((host, int(port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        key = base64.b64encode(os.urandom(16)).decode()
        head = (
            f"GET {path} HTTP/1.1",
            f"Host: {host}:{port}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Key: {key}",
            "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Protocol: {protocol}",
            *headers,
        )
        self.socket.sendall("\r\n".join([*head, "", ""]).encode())
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += self.socket.recv(1) or _ended(answer)
        if b" 101 " not in answer.split(b"\r\n")[0]:
            _ended(answer)
        self._buffer = bytearray()
        self._view = memoryview(bytearray(BUFFER))

    def messages(self, timeout: float = 60.0) -> list[tuple[int, bytes]]:
        """All whole messages that came, at least one: kind, payload. Raises TimeoutError, Ended."""
        while not (found := self._messages()):
            if not select.select([self.socket], [], [], timeout)[0]:
                raise TimeoutError
            count = self.socket.recv_into(self._view)
            if not count:
                raise Ended
            self._buffer += self._view[:count]
        return found

    def _messages(self) -> list[tuple[int, bytes]]:
        found: list[tuple[int, bytes]] = []
        at, buffer = 0, self._buffer
        while len(buffer) - at >= 2:
            length, head = buffer[at + 1] & 127, 2
            if length == 126:
                length, head = int.from_bytes(buffer[at + 2 : at + 4], "big"), 4
            elif length == 127:
                length, head = int.from_bytes(buffer[at + 2 : at + 10], "big"), 10
            if len(buffer) - at < head + length:
                break
            kind, start = buffer[at] & 15, at + head
            if kind == CLOSE and found:
                break  # what came before it is read first
            at = start + length
            payload = bytes(memoryview(buffer)[start:at])
            if kind == CLOSE:
                raise Ended(payload)
            if kind == PING:
                self.send(PONG, payload)
            else:
                found.append((kind, payload))
        del buffer[:at]
        return found

    def send(self, kind: int, payload: bytes) -> None:
        """Sends a message."""
        size = len(payload)
        head = bytes([0x80 | kind])
        if size < 126:
            head += bytes([0x80 | size])
        elif size < 1 << 16:
            head += bytes([0x80 | 126]) + size.to_bytes(2, "big")
        else:
            head += bytes([0x80 | 127]) + size.to_bytes(8, "big")
        # a mask of zeros leaves the payload as it is
        self.socket.sendall(head + bytes(4) + payload)

    def close(self) -> None:
        """Closes the connection at once."""
        self.socket.close()


def _ended(answer: bytes) -> NoReturn:
    raise Ended(answer.decode("utf-8", "replace"))


class TabClient:
    """One connection.

    `read` returns what came; output is acknowledged when the caller says that it is parsed.
    """

    def __init__(self, url: str, token: str) -> None:
        self.url, self.token = url.rstrip("/"), token
        ticket = self.api("POST", "/ticket")["ticket"]
        self._web_socket = WebSocket(
            self.url, "/api/v1/tab", "hermetic.tab.1", f"Authorization: Bearer {token}"
        )
        self._acked: dict[int, int] = {}
        self._kept: list[tuple[int, int, int, bytes]] = []
        self.events: list[dict[str, Any]] = []
        self.op("hello", ticket=ticket)
        self.event("hello")

    def api(self, method: str, path: str, **body: object) -> Any:
        """The answer of the HTTP API."""
        request = urllib.request.Request(
            f"{self.url}/api/v1{path}",
            method=method,
            data=json.dumps(body).encode() if method == "POST" else None,
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"},
        )
        while True:
            try:
                with urllib.request.urlopen(request, timeout=60) as answer:
                    return json.loads(answer.read() or b"null")
            except urllib.error.HTTPError as error:
                if error.code != 429:
                    raise
                # the server bounds requests of one client
                time.sleep(float(error.headers.get("Retry-After", 1)))

    def op(self, op: str, **fields: object) -> None:
        """Sends an operation."""
        self._web_socket.send(TEXT, json.dumps({"op": op, **fields}).encode())

    def frame(self, type: int, channel: int, offset: int, payload: bytes = b"") -> None:
        """Sends a binary frame."""
        self._web_socket.send(BINARY, HEAD.pack(type, channel, offset) + payload)

    def parsed(self, channel: int, offset: int, *, now: bool = False) -> None:
        """Acknowledges output, at most every 64 KiB."""
        if now or offset - self._acked.get(channel, 0) >= ACK_BYTES:
            self._acked[channel] = offset
            self.frame(ACK, channel, offset)

    def attach(
        self, environment: str, process: str, channel: int = 1, offset: int | None = 0
    ) -> dict[str, Any]:
        """Attaches; the event that says so."""
        self.op(
            "attach",
            channel=channel,
            environment=environment,
            process=process,
            rows=24,
            cols=80,
            **{"from": offset},
        )
        return self.event("attached")

    def event(self, name: str, timeout: float = 60.0) -> dict[str, Any]:
        """The next event of that name; frames that come meanwhile are kept for `read`."""
        kept: list[tuple[int, int, int, bytes]] = []
        while True:
            for index, event in enumerate(self.events):
                if event["event"] == name:
                    self._kept = kept + self._kept
                    return self.events.pop(index)
            kept += self.read(timeout)

    def read(self, timeout: float = 60.0) -> list[tuple[int, int, int, bytes]]:
        """Binary frames that came: type, channel, offset, payload.

        Events are kept. Raises TimeoutError, Ended.
        """
        if self._kept:
            kept, self._kept = self._kept, []
            return kept
        found = []
        for kind, payload in self._web_socket.messages(timeout):
            if kind == BINARY:
                found.append((*HEAD.unpack_from(payload), payload[HEAD.size :]))
            else:
                self.events.append(json.loads(payload))
        return found

    def close(self) -> None:
        """Closes the connection at once."""
        self._web_socket.close()
