"""Web servers for tests: what each path answers is given, what was requested is recorded."""

import asyncio
import contextlib
import socket
import ssl
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import NamedTuple

PUBLIC = "127.0.0.9"  # plays the public internet
Body = bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]  # what is sent, or what sends it


class Said(NamedTuple):
    """What a path answers. A length is sent with bytes alone."""

    body: Body = b"ok"
    kind: str = "text/html; charset=utf-8"
    status: int = 200
    headers: Mapping[str, str] = {}


class Request(NamedTuple):
    """What a client sent."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


class Site:
    """A server and its record of requests."""

    def __init__(self, pages: Mapping[str, Said]) -> None:
        self.pages = pages
        self.connections = 0
        self.requests: list[Request] = []
        self.port = 0

    @property
    def targets(self) -> list[str]:
        return [request.target for request in self.requests]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await self._answer(await _request(reader), writer)

    async def _answer(self, request: Request, writer: asyncio.StreamWriter) -> None:
        self.requests.append(request)
        said = self.pages.get(request.target.partition("?")[0]) or Said(b"<p>not here", status=404)
        lengths = {"Content-Length": str(len(said.body))} if isinstance(said.body, bytes) else {}
        headers = {"Content-Type": said.kind, "Connection": "close", **lengths, **said.headers}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        writer.write(f"HTTP/1.1 {said.status} x\r\n{lines}\r\n".encode("latin-1"))
        if isinstance(said.body, bytes):
            writer.write(said.body)
        else:
            await said.body(writer)
        await writer.drain()


async def _request(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, target, _ = head[0].split(" ")
    headers = {
        name.lower(): value.strip()
        for name, _, value in (line.partition(":") for line in head[1:] if line)
    }
    return Request(
        method, target, headers, await reader.readexactly(int(headers.get("content-length", 0)))
    )


@asynccontextmanager
async def listening(
    handle: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
    host: str | None = PUBLIC,
    context: ssl.SSLContext | None = None,
) -> AsyncIterator[int]:
    """A server for a block, its port; without a host on all addresses of this machine.

    Its connections end with it.
    """
    both = socket.has_dualstack_ipv6() and not host
    family = socket.AF_INET6 if both else socket.AF_INET
    listener = socket.create_server((host or "", 0), family=family, dualstack_ipv6=both)
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handle(reader, writer)
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(begin, sock=listener, ssl=context)
    try:
        yield listener.getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


@asynccontextmanager
async def site(
    pages: Mapping[str, Said], host: str | None = PUBLIC, context: ssl.SSLContext | None = None
) -> AsyncIterator[Site]:
    """A site on a free port, for a block."""
    found = Site(pages)
    async with listening(found.serve, host, context) as found.port:
        yield found


async def bomb(writer: asyncio.StreamWriter) -> None:
    """Sends 3 GB of zeros, packed by gzip."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    first, again = (
        packer.compress(bytes(1_000_000)) + packer.flush(zlib.Z_FULL_FLUSH) for _ in range(2)
    )
    writer.write(first)
    for _ in range(3000):
        writer.write(again)
        await writer.drain()


async def drip(writer: asyncio.StreamWriter) -> None:
    """Sends a few bytes at a time, as long as they are taken."""
    while not writer.is_closing():
        writer.write(b"drop ")
        await writer.drain()
        await asyncio.sleep(0.02)
