"""WebSockets: who may open one, and what a client cannot do to the server with it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from starlette.websockets import WebSocket
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.frames import Frame, Opcode
from websockets.typing import Origin

from hermetic.serve import access, app
from hermetic.serve.api.tab import Redeem
from hermetic.serve.console import Console
from hermetic.serve.direct import DirectSocket
from hermetic.serve.server import MOST_FRAME
from tests.serve.serving import SECONDS, Client, serving


async def echo(console: Console, websocket: WebSocket, redeem: Redeem) -> None:
    """Sends every frame back; `?ticket=` logs it in."""
    await websocket.accept()
    redeem(websocket.query_params.get("ticket", ""))
    async for frame in websocket.iter_bytes():
        await websocket.send_bytes(frame)


async def echo_directly(console: Console, websocket: WebSocket, redeem: Redeem) -> None:
    """The same past uvicorn's queue, as the tabs of the console."""
    await websocket.accept()
    socket = DirectSocket(websocket)
    socket.listen(socket.write, lambda: None)
    await socket.wait_closed()


@pytest.fixture(autouse=True)
def with_echo(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sockets beside those of the console."""
    more = {"/api/v1/echo": echo, "/api/v1/direct": echo_directly}
    monkeypatch.setattr(app, "SOCKETS", {**app.SOCKETS, **more})


@asynccontextmanager
async def opened(
    client: Client, path: str = "echo", **options: Any
) -> AsyncIterator[ClientConnection]:
    """A WebSocket of a program, or of a page with `origin`."""
    url = f"ws://{client.host}/api/v1/{path}"
    async with (
        asyncio.timeout(SECONDS),
        connect(url, proxy=None, compression=None, **options) as connection,
    ):
        yield connection


async def refused(client: Client, **options: Any) -> int:
    """The status of a refused upgrade; the server still answers."""
    with pytest.raises(InvalidStatus) as caught:
        async with opened(client, **options):
            pass
    assert (await client.get("/me")).status == 200
    return caught.value.response.status_code


async def test_our_page_and_a_program_with_a_token_may_open_one() -> None:
    async with serving() as server:
        client = Client(server, "view")
        bearer = {"Authorization": f"Bearer {client.token}"}
        for options in ({"origin": Origin(client.origin)}, {"additional_headers": bearer}):
            async with opened(client, **options) as connection:
                await connection.send(b"hello")
                assert await connection.recv() == b"hello"


async def test_other_pages_and_strangers_may_not() -> None:
    async with serving() as server:
        client = Client(server, "view")
        cookie = {"Cookie": await client.log_in()}
        for origin in (
            "http://evil.example",
            f"http://127.0.0.1:{client.port + 1}",
            f"https://{client.host}",
            "null",
        ):
            assert await refused(client, origin=Origin(origin), additional_headers=cookie) == 403
        assert await refused(client, additional_headers=cookie) == 403
        assert await refused(client) == 403
        assert await refused(client, additional_headers={"Authorization": "Bearer wrong"}) == 403
        assert server.console.metrics.refused["foreign_origin"] == 4
        assert server.console.metrics.refused["missing_origin"] == 2


async def test_a_rebinding_host_may_not() -> None:
    async with serving() as server:
        client = Client(server, "view")
        url = f"ws://evil.example:{client.port}/api/v1/echo"
        with pytest.raises(InvalidStatus):
            async with connect(
                url, host="127.0.0.1", port=client.port, origin=Origin(client.origin), proxy=None
            ):
                pass
        assert server.console.metrics.refused["wrong_host"] == 1


async def test_an_oversized_frame_ends_its_connection_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving() as server:
        client = Client(server, "view")
        async with opened(client, origin=Origin(client.origin)) as other:
            async with opened(client, origin=Origin(client.origin)) as connection:
                await connection.send(bytes(MOST_FRAME + 1))
                with pytest.raises(ConnectionClosed):
                    await connection.recv()
                assert connection.close_code == 1009
            assert "closed a WebSocket" in caplog.text
            await other.send(b"still here")
            assert await other.recv() == b"still here"


def frame(data: bytes, opcode: Opcode = Opcode.BINARY) -> bytes:
    """A whole message of a client."""
    return Frame(opcode, data).serialize(mask=True)


async def test_messages_arrive_however_they_are_cut() -> None:
    async with serving() as server:
        client = Client(server, "view")
        async with opened(client, "direct", origin=Origin(client.origin)) as connection:
            messages: list[bytes | str] = [b"", b"k", "grüße", bytes(range(256)) * 256, b"x" * 126]
            for message in messages:
                await connection.send(message)
                assert await connection.recv() == message
            await connection.send([b"in ", b"", b"pieces"])
            assert await connection.recv() == b"in pieces"
            await connection.send(["in ", "words"])
            assert await connection.recv() == "in words"
            long = frame(b"y" * 70_000)
            stream = frame(b"byte by byte") + frame(b"ping", Opcode.PING) + frame(b"z" * 300) + long
            for at in range(400):
                connection.transport.write(stream[at : at + 1])
                await asyncio.sleep(0)
            connection.transport.write(stream[400:] + frame(b"a") + frame(b"b"))
            sizes = [len(await connection.recv()) for _ in range(5)]
            assert sizes == [12, 300, 70_000, 1, 1]
            await (await connection.ping())


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"\x82\x01x", 1002),  # without a mask
        (b"\xc2" + frame(b"x")[1:], 1002),  # a reserved bit
        (b"\x80" + frame(b"x")[1:], 1002),  # goes on with nothing
        (b"\x02" + frame(b"x")[1:] + frame(b"y"), 1002),  # in the middle of another one
        (b"\x81" + frame(b"\xff")[1:], 1007),
        (frame(bytes(MOST_FRAME + 1)), 1009),
        (b"\x82\xff" + bytes([255] * 8), 1009),
    ],
    # a mask is random; without names the workers of one run would collect different tests
    ids=[
        "unmasked",
        "reserved",
        "no-start",
        "amid-another",
        "no-utf-8",
        "too-long",
        "too-long-by-length",
    ],
)
async def test_a_violation_of_the_protocol_ends_its_connection_alone(
    sent: bytes, code: int
) -> None:
    async with serving() as server:
        client = Client(server, "view")
        async with opened(client, "direct", origin=Origin(client.origin)) as other:
            async with opened(client, "direct", origin=Origin(client.origin)) as connection:
                connection.transport.write(sent)
                with pytest.raises(ConnectionClosed):
                    await connection.recv()
                assert connection.close_code == code
            await other.send(b"still here")
            assert await other.recv() == b"still here"


async def test_a_connection_ends_when_its_login_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "LOGIN_CHECK_SECONDS", 0.05)
    async with serving() as server:
        client = Client(server, "admin")
        share = (await client.post("/shares", {"scope": "view"})).json
        page = {
            "Cookie": await client.log_in(share["url"].partition("#token=")[2]),
            "Origin": client.origin,
        }
        ticket = (await client.post("/ticket", headers={**page, "Authorization": None})).json[
            "ticket"
        ]
        url = f"ws://{client.host}/api/v1/echo?ticket={ticket}"
        async with (
            asyncio.timeout(SECONDS),
            opened(client, origin=Origin(client.origin)) as other,
            connect(url, origin=Origin(client.origin), proxy=None, compression=None) as connection,
        ):
            await connection.send(b"hello")
            assert await connection.recv() == b"hello"
            assert (await client.delete(f"/shares/{share['id']}")).status == 204
            with pytest.raises(ConnectionClosed):
                await connection.recv()
            assert connection.close_code == app.LOGIN_OVER
            await other.send(b"still here")
            assert await other.recv() == b"still here"


async def test_a_ticket_is_valid_once() -> None:
    async with serving() as server:
        client = Client(server, "drive")
        ticket = (await client.post("/ticket")).json["ticket"]
        token = server.access.take_ticket(ticket)
        assert token is not None
        assert (token.grant.name, token.grant.scopes) == ("test", ("drive",))
        assert server.access.take_ticket(ticket) is None
        assert server.access.take_ticket("other") is None


async def test_an_expired_ticket_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "TICKET_SECONDS", 0.0)
    async with serving() as server:
        client = Client(server, "drive")
        assert server.access.take_ticket((await client.post("/ticket")).json["ticket"]) is None
