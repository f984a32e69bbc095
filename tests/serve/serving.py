"""A running server for a test, and a client that sends exactly what it is given."""

import asyncio
import signal
import ssl
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple

import msgspec

from hermetic.serve.access import bearer_grant
from hermetic.serve.server import ConsoleServer, ServerOptions
from hermetic.session.environment import Environment

SECONDS = 60.0


class Answer(NamedTuple):
    """An HTTP answer."""

    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes

    @property
    def json(self) -> Any:
        """The decoded body."""
        return msgspec.json.decode(self.body)

    @property
    def code(self) -> str:
        """The code of an error."""
        return str(self.json["error"]["code"])


class HttpClient:
    """Requests to a server at a URL, byte by byte; with a token it is a program."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self.host = url.partition("://")[2].partition("/")[0]
        self.port = int(self.host.rpartition(":")[2])
        self.origin = f"{url.partition('://')[0]}://{self.host}"
        self.token = token
        self.tls: ssl.SSLContext | None = None

    async def send(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        headers: Mapping[str, str | None] | None = None,
        raw: bytes | None = None,
    ) -> Answer:
        """Sends one request; a header that is None is left out."""
        data = raw if raw is not None else b"" if body is None else msgspec.json.encode(body)
        sent: dict[str, str | None] = {"Host": self.host, "Connection": "close"}
        if self.token is not None:
            sent["Authorization"] = f"Bearer {self.token}"
        if data:
            sent |= {"Content-Type": "application/json", "Content-Length": str(len(data))}
        sent |= headers or {}
        lines = [
            f"{method} {path} HTTP/1.1",
            *(f"{name}: {value}" for name, value in sent.items() if value is not None),
        ]
        async with asyncio.timeout(SECONDS):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=self.tls)
            try:
                writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + data)
                return parse(await _read_all(reader))
            finally:
                writer.close()
                with suppress(ConnectionError):
                    await writer.wait_closed()

    async def get(self, path: str, **options: Any) -> Answer:
        """A GET below the prefix of the API."""
        return await self.send("GET", f"/api/v1{path}", **options)

    async def post(self, path: str, body: object = None, **options: Any) -> Answer:
        """A POST below the prefix of the API."""
        return await self.send("POST", f"/api/v1{path}", {} if body is None else body, **options)

    async def delete(self, path: str, **options: Any) -> Answer:
        """A DELETE below the prefix of the API."""
        return await self.send("DELETE", f"/api/v1{path}", **options)


class Client(HttpClient):
    """Requests to a server of this process.

    With scopes it is a program; `log_in` makes it a page.
    """

    def __init__(self, server: ConsoleServer, *scopes: Any) -> None:
        super().__init__(server.access.url)
        self.server = server
        self.access = server.access
        if scopes:
            self.token = self.access.store.create(bearer_grant("test", scopes, 60))

    async def log_in(self, token: str | None = None) -> str:
        """Exchanges a start token for a cookie, as the page does; returns the Cookie header."""
        token = token or self.access.start_url().partition("#token=")[2]
        answer = await self.post(
            "/login", {"token": token}, headers={"Origin": self.origin, "Authorization": None}
        )
        assert answer.status == 204, answer
        return answer.headers["set-cookie"].partition(";")[0]


async def _read_all(reader: asyncio.StreamReader) -> bytes:
    """What came before the end of the connection, however it ended."""
    received = bytearray()
    with suppress(ConnectionError):
        while piece := await reader.read(1 << 16):
            received += piece
    return bytes(received)


def parse(data: bytes) -> Answer:
    """An answer from its bytes."""
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    if headers.get("transfer-encoding") == "chunked":
        body = _joined(body)
    return Answer(int(first.split()[1]) if first else 0, headers, body)


def _joined(body: bytes) -> bytes:
    pieces = []
    while body:
        size, _, rest = body.partition(b"\r\n")
        length = int(size, 16)
        pieces.append(rest[:length])
        body = rest[length + 2 :]
    return b"".join(pieces)


@asynccontextmanager
async def serving(
    prepare: Callable[[ConsoleServer], object] = lambda server: None,
    guard: Callable[[Environment], None] = lambda environment: None,
    **options: Any,
) -> AsyncIterator[ConsoleServer]:
    """A server on a free port of this machine, in this event loop; `prepare` gets it before it
    serves.
    """
    server = ConsoleServer(ServerOptions(**{"port": 0, **options}), guard)
    prepare(server)
    task = asyncio.create_task(server.serve())
    try:
        async with asyncio.timeout(SECONDS):
            while not server.is_started:  # noqa: ASYNC110  # uvicorn has no event for it
                await asyncio.sleep(0.01)
        yield server
    finally:
        server.stop()
        await task


@asynccontextmanager
async def program(
    *words: str, **options: Any
) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """A server process, and the URL that it prints; options are those of a subprocess."""
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "hermetic", "serve", *words, stdout=asyncio.subprocess.PIPE, **options
    )
    assert server.stdout is not None
    try:
        async with asyncio.timeout(SECONDS):
            url = (await server.stdout.readline()).decode().split()[-1]
        yield server, url
    finally:
        if server.returncode is None:
            server.send_signal(signal.SIGTERM)
            await server.wait()
