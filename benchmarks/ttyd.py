"""A terminal through ttyd, the yardstick for terminals of the console where it is installed."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import time

from benchmarks.tab_client import BINARY, Ended, WebSocket

TIMEOUT = 60.0  # seconds
OUTPUT, INPUT = b"0", b"0"  # first bytes of messages


def path() -> str | None:
    """The program: $TTYD, which scripts/engines/up ttyd prints, or the one on PATH."""
    return shutil.which(os.environ.get("TTYD") or "ttyd")


class TtydShell:
    """A command on a terminal of a ttyd of its own, read by the client that reads ours."""

    def __init__(self, program: str, command: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self._server = subprocess.Popen(
            [program, "-W", "-d", "1", "-i", "127.0.0.1", "-p", str(port), "bash", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._web_socket = _connected(f"http://127.0.0.1:{port}")
        self._web_socket.send(
            BINARY, json.dumps({"AuthToken": "", "columns": 80, "rows": 24}).encode()
        )

    def send(self, data: bytes) -> None:
        """Types."""
        self._web_socket.send(BINARY, INPUT + data)

    def receive(self) -> bytes:
        """What is printed next."""
        while True:
            messages = self._web_socket.messages(TIMEOUT)
            pieces = [payload[1:] for _, payload in messages if payload[:1] == OUTPUT]
            if pieces:
                return b"".join(pieces)

    def close(self) -> None:
        """Ends the connection, the server and with it the command."""
        self._web_socket.close()
        self._server.terminate()
        self._server.wait()


def _connected(url: str) -> WebSocket:
    """Connects as soon as the server listens."""
    until = time.monotonic() + TIMEOUT
    while True:
        with contextlib.suppress(ConnectionError):
            return WebSocket(url, "/ws", "tty")
        if time.monotonic() > until:
            raise Ended(f"ttyd does not listen at {url}")
        time.sleep(0.02)
