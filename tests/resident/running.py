"""A resident started by hand, and a plain client for it: what the host's own link would hide can be
seen here.
"""

import contextlib
import os
import secrets
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import msgspec

from hermetic.link.archive import BOOT, build_archive, starting_input
from hermetic.resident.wire.frames import MAX_FRAME, REPLY, REQUEST, FrameReader, pack_frame


class Resident:
    """A living resident."""

    def __init__(self, directory: str, token: bytes, ready: dict[str, Any]) -> None:
        self.directory, self.token, self.ready = directory, token, ready

    @property
    def pid(self) -> int:
        return int(self.ready["pid"])

    def connect(self) -> socket.socket:
        """A connection that has not greeted yet."""
        stream = socket.socket(socket.AF_UNIX)
        stream.settimeout(20)
        try:
            stream.connect(self.ready["socket"])
        except OSError:
            stream.close()
            raise
        return stream

    @contextlib.contextmanager
    def client(self) -> Iterator["Client"]:
        """A client that has greeted."""
        with self.connect() as stream:
            client = Client(stream)
            client.ask("hello", versions=[1], token=self.token, client="test")
            yield client


class Client:
    """Asks one thing at a time."""

    def __init__(self, stream: socket.socket) -> None:
        self.stream, self.number = stream, 0
        self.reader = FrameReader(MAX_FRAME)
        self.came: list[Any] = []

    def ask(self, op: str, body: bytes = b"", **fields: Any) -> tuple[dict[str, Any], bytes]:
        """The answer to a request; an error is an AssertionError."""
        self.number += 1
        self.stream.sendall(pack_frame(REQUEST, self.number, {"op": op, **fields}, body))
        kind, number, said, found = self.next_frame()
        assert (kind, number) == (REPLY, self.number), said
        return said, found

    def next_frame(self) -> Any:
        while not self.came:
            data = self.stream.recv(65536)
            if not data:
                raise EOFError
            self.came = list(self.reader.feed(data))
        return self.came.pop(0)

    def run(self, text: str, **fields: Any) -> tuple[dict[str, Any], bytes]:
        return self.ask(
            "run", text.encode(), id=f"c{self.number}", text=len(text.encode()), **fields
        )


@contextlib.contextmanager
def running(
    python: str = sys.executable, boot: str = BOOT, pass_fds: tuple[int, ...] = (), **config: Any
) -> Iterator[Resident]:
    """A resident under any interpreter, ended with the block."""
    directory, token = tempfile.mkdtemp(prefix="r-", dir="/tmp"), secrets.token_bytes(16)
    given: dict[str, Any] = {
        "id": secrets.token_hex(4),
        "token": token,
        "directory": directory,
        "spool": None,
        "environ": dict(os.environ),
        "cwd": "/",
        "lease": 60.0,
        "login": False,
        **config,
    }
    stdin = starting_input(build_archive(), msgspec.msgpack.encode(given))
    argv = [python, "-I", "-S", "-c", boot]
    started = subprocess.run(
        argv, input=stdin, stdout=subprocess.PIPE, timeout=60, check=True, pass_fds=pass_fds
    )
    [(kind, _, ready, _)] = FrameReader(MAX_FRAME).feed(started.stdout)
    assert kind == REPLY, ready
    resident = Resident(directory, token, ready)
    try:
        yield resident
    finally:
        with resident.client() as client:
            client.ask("shutdown", grace=0.0)
