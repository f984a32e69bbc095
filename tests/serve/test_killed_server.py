"""The console's server killed at any moment: terminals and processes go on, and the next server
shows every byte.
"""

import asyncio
import contextlib
import json
import shutil
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException
from websockets.typing import Subprotocol

import hermetic
from hermetic.registry.records import runtime_path
from hermetic.serve import frames
from hermetic.serve.access import bearer_grant
from hermetic.serve.tokens import TokenStore
from hermetic.session.environment import Environment
from tests.sizes import is_full

SECONDS = 60.0
LINES = 400_000
MOMENTS = 20 if is_full() else 4
# In steps, so that every server finds it running.
COUNTING = "i=0; while [ $i -lt 40 ]; do seq $((i * 10000 + 1)) $((i * 10000 + 10000)); i=$((i + 1)); sleep 0.05; done"
WHOLE = "".join(f"{number}\n" for number in range(1, LINES + 1)).encode()


@asynccontextmanager
async def server() -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """A server of its own process, killed with the block; and its address."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "hermetic",
        "serve",
        "--port",
        "0",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(SECONDS):
            words = (await process.stdout.readline()).decode().split()
        yield process, next(word for word in words if word.startswith("http")).split("/")[2]
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def ticket(host: str, token: str) -> str:
    """A ticket of the API, by a plain request."""
    reader, writer = await asyncio.open_connection(*host.split(":"))
    writer.write(
        f"POST /api/v1/ticket HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n"
        "Content-Length: 0\r\n\r\n".encode()
    )
    body = (await reader.read()).partition(b"\r\n\r\n")[2]
    writer.close()
    await writer.wait_closed()
    if not body:
        raise ConnectionResetError("the server was killed")
    return str(json.loads(body)["ticket"])


class Screens:
    """What a browser has of several processes, over all servers."""

    def __init__(self, environment: Environment, processes: list[str]) -> None:
        self.environment, self.processes = environment, processes
        self.output = [bytearray() for _ in processes]
        self.ended: set[int] = set()

    async def watch(self, host: str, token: str, more: int) -> None:
        """Takes output until so many more bytes came, or all has ended; the rest is for the next
        server.
        """
        wanted = sum(map(len, self.output)) + more
        options: dict[str, Any] = {
            "additional_headers": {"Authorization": f"Bearer {token}"},
            "compression": None,
        }
        url = f"ws://{host}/api/v1/tab"
        subprotocols = [Subprotocol("hermetic.tab.1")]
        async with connect(url, subprotocols=subprotocols, proxy=None, **options) as websocket:
            await websocket.send(json.dumps({"op": "hello", "ticket": await ticket(host, token)}))
            for channel, process in enumerate(self.processes):
                given = {
                    "environment": self.environment.id,
                    "process": process,
                    "from": len(self.output[channel]),
                }
                await websocket.send(json.dumps({"op": "attach", "channel": channel, **given}))
            async with asyncio.timeout(SECONDS):
                while sum(map(len, self.output)) < wanted and len(self.ended) < len(self.processes):
                    await self._receive(websocket)

    async def _receive(self, websocket: ClientConnection) -> None:
        message = await websocket.recv()
        if isinstance(message, str):
            event = json.loads(message)
            assert event["event"] != "error", event
            if event["event"] == "ended":
                assert event["exit_code"] == 0
                self.ended.add(event["channel"])
        elif message[0] == frames.OUTPUT:
            channel, offset = (
                int.from_bytes(message[1:5], "big"),
                int.from_bytes(message[5:13], "big"),
            )
            assert offset == len(self.output[channel])
            self.output[channel] += message[13:]
            await websocket.send(frames.pack(frames.ACK, channel, len(self.output[channel])))


@pytest.fixture(autouse=True)
def no_questions_left() -> Iterator[None]:
    """A killed server leaves its directory for questions."""
    yield
    shutil.rmtree(runtime_path() / "approvals", ignore_errors=True)


@pytest.mark.slow
async def test_terminals_survive_a_killed_server() -> None:
    token = TokenStore.of_this_user().create(bearer_grant("test", ("view", "drive"), 600))
    async with hermetic.open("local", login=False) as environment:
        run = await environment.start(COUNTING)
        shell = await environment.start(COUNTING, pty=True, personal=True)
        screens = Screens(environment, [run.id, shell.id])
        for moment in range(MOMENTS):
            async with server() as (process, host):
                with contextlib.suppress(WebSocketException, OSError):
                    # Some are killed while they attach, some after a few bytes, some in a flood.
                    watching = asyncio.create_task(
                        screens.watch(host, token, 1 + moment * 37_000 % 300_000)
                    )
                    if moment % 3 == 0:
                        await asyncio.sleep(0.01 * moment)
                        process.kill()
                    await watching
        async with server() as (_, host):
            while len(screens.ended) < 2:
                await screens.watch(host, token, len(WHOLE))
        assert screens.output[0] == WHOLE
        assert screens.output[1] == WHOLE.replace(b"\n", b"\r\n")
