"""Whatever is refused is logged at the level of `hermetic serve`, and the server goes on."""

import asyncio
import json
import logging
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Origin, Subprotocol

import hermetic
from hermetic.serve import access, frames, protocol, routes
from hermetic.serve.server import MOST_FRAME
from tests.serve.serving import SECONDS, Client, serving

Expect = Callable[[str], Any]


@pytest.fixture
def warned(caplog: pytest.LogCaptureFixture) -> Iterator[Expect]:
    """A block in which a line of the log says this, once or more often."""

    @contextmanager
    def expect(text: str) -> Iterator[None]:
        caplog.clear()
        yield
        lines = [record.getMessage() for record in caplog.records]
        assert any(text in line for line in lines), (text, lines)
        assert all(line.isprintable() for line in lines)

    with caplog.at_level(logging.WARNING, "hermetic.serve"):
        yield expect


@asynccontextmanager
async def ready() -> AsyncIterator[Client]:
    """A client with all rights; at the end the server still answers it."""
    async with serving() as server, asyncio.timeout(3 * SECONDS):
        client = Client(server, "admin")
        yield client
        assert (await client.get("/me")).status == 200


async def test_requests_that_are_refused(warned: Expect, monkeypatch: pytest.MonkeyPatch) -> None:
    async with ready() as client:
        start = client.access.start_url().partition("#token=")[2]
        page: dict[str, str | None] = {"Authorization": None, "Cookie": await client.log_in(start)}
        other_port = f"http://127.0.0.1:{client.port + 1}"
        for headers, code in (
            ({**page, "Origin": "http://evil.example"}, "foreign_origin"),
            ({**page, "Origin": other_port}, "foreign_origin"),
            (page, "missing_origin"),
            ({"Host": f"evil.example:{client.port}"}, "wrong_host"),
            ({"Authorization": None}, "no_login"),
            ({"Authorization": "Bearer wrong"}, "wrong_token"),
        ):
            with warned(code):
                assert (await client.get("/me", headers=headers)).code == code
        own = {"Origin": client.origin, "Authorization": None}
        with warned("wrong_token"):  # used before
            assert (await client.post("/login", {"token": start}, headers=own)).status == 401
        late = client.access.start_url().partition("#token=")[2]
        now = time.time()
        with monkeypatch.context() as later, warned("wrong_token"):
            later.setattr(time, "time", lambda: now + access.START_TOKEN_SECONDS + 1)
            assert (await client.post("/login", {"token": late}, headers=own)).status == 401
        for path in ("/../../etc/passwd", "/%2e%2e/etc/passwd", "/assets/..%2f..%2fserver.py"):
            with warned("bad_path"):
                assert (await client.send("GET", path)).code == "bad_path"
        with warned("too_large"):
            large = {"Content-Length": str(1 << 30)}
            assert (await client.post("/shares", headers=large)).code == "too_large"
        monkeypatch.setattr(routes, "BODY_SECONDS", 0.2)
        with warned("slow_body"):
            slow = {"Content-Length": "100"}
            answer = await client.send("POST", "/api/v1/shares", raw=b"{", headers=slow)
            assert answer.code == "slow_body"


async def test_web_sockets_that_are_refused(warned: Expect) -> None:
    async with ready() as client:
        cookie = {"Cookie": await client.log_in()}
        for origin, code in (
            ("http://evil.example", "foreign_origin"),
            (f"http://127.0.0.1:{client.port + 1}", "foreign_origin"),
            (None, "missing_origin"),
        ):
            given = None if origin is None else Origin(origin)
            with warned(code), pytest.raises(InvalidStatus):
                async with tab_socket(client, origin=given, additional_headers=cookie):
                    pass
        with warned("no valid ticket"):
            async with tab_socket(client, origin=Origin(client.origin)) as web_socket:
                await web_socket.send(json.dumps({"op": "hello", "ticket": "used"}))
                with pytest.raises(ConnectionClosed):
                    await web_socket.recv()
        with warned("closed a WebSocket"):
            async with tab_socket(client, origin=Origin(client.origin)) as web_socket:
                await web_socket.send(bytes(MOST_FRAME + 1))
                with pytest.raises(ConnectionClosed):
                    await web_socket.recv()


async def test_a_viewer_that_sends_input_or_takes_over(warned: Expect) -> None:
    async with hermetic.open("local", login=False) as environment, ready() as client:
        process = await environment.start("cat", pty=True)
        viewer = Client(client.server, "view")
        bearer = {"Authorization": f"Bearer {viewer.token}"}
        async with tab_socket(viewer, additional_headers=bearer) as web_socket:
            ticket = (await viewer.post("/ticket")).json["ticket"]
            await operate(web_socket, "hello", ticket=ticket)
            where = {"environment": environment.id, "process": process.id, "from": 0}
            await operate(web_socket, "attach", channel=1, **where)
            await until(web_socket, "attached")
            with warned("refused to type: test may only view"):
                await web_socket.send(frames.pack(frames.INPUT, 1, 1, b"intruder\r"))
                assert (await until(web_socket, "error"))["code"] == "forbidden"
            with warned("refused to take over a terminal: test may only view"):
                await operate(web_socket, "take", channel=1)
                assert (await until(web_socket, "error"))["code"] == "not_permitted"
        await process.kill()
        assert b"intruder" not in (await process.read()).data


async def test_connections_that_are_half_open_or_not_read(
    warned: Expect, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with hermetic.open("local", login=False) as environment, ready() as client:
        connections = client.server.connections
        with warned("made room for another one"):
            half_open = [
                await asyncio.open_connection("127.0.0.1", client.port) for _ in range(1000)
            ]
            for _, writer in half_open:
                writer.write(b"GET /api/v1/me HTTP/1.1\r\nHost: ")
            assert (await client.get("/me")).status == 200
            assert connections() <= protocol.MOST_CONNECTIONS
        for _, writer in half_open:
            writer.close()
        await closed(connections)
        monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.2)
        with warned("did not finish its request"):
            _, writer = await asyncio.open_connection("127.0.0.1", client.port)
            writer.write(b"GET /api/v1/me HTTP/1.1\r\nHost: ")
            await met(connections)
            await closed(connections)
            writer.close()
        monkeypatch.setattr(protocol, "READ_SECONDS", 0.2)
        process = await environment.start("head -c 4000000 /dev/zero")
        await process.wait(SECONDS)
        path = f"/api/v1/environments/{environment.id}/processes/{process.id}/output?limit=4000000"
        head = f"GET {path} HTTP/1.1\r\nHost: {client.host}\r\nAuthorization: Bearer {client.token}\r\n\r\n"
        with warned("did not read its answer"), socket.socket() as reader:
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            reader.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(reader, ("127.0.0.1", client.port))
            await loop.sock_sendall(reader, head.encode())
            await met(connections)
            await closed(connections)


async def met(connections: Callable[[], int]) -> None:
    """Returns when the server has a connection."""
    while not connections():  # noqa: ASYNC110  # uvicorn has no event for it
        await asyncio.sleep(0.01)


async def closed(connections: Callable[[], int]) -> None:
    """Returns when it has none."""
    while connections():  # noqa: ASYNC110
        await asyncio.sleep(0.01)


@asynccontextmanager
async def tab_socket(client: Client, **options: Any) -> AsyncIterator[ClientConnection]:
    """A WebSocket to the console, before its greeting."""
    url = f"ws://{client.host}/api/v1/tab"
    subprotocols = [Subprotocol("hermetic.tab.1")]
    async with connect(
        url, subprotocols=subprotocols, proxy=None, compression=None, **options
    ) as web_socket:
        yield web_socket


async def operate(web_socket: ClientConnection, op: str, **fields: object) -> None:
    """Sends an operation."""
    await web_socket.send(json.dumps({"op": op, **fields}))


async def until(web_socket: ClientConnection, event: str) -> Any:
    """The next event of this name."""
    while True:
        message = await web_socket.recv()
        if isinstance(message, str) and (found := json.loads(message))["event"] == event:
            return found
