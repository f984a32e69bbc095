"""Clients that go: by closing, by a signal, without a word; and many clients at once."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from hermetic.mcp.secret_page import SecretPages
from hermetic.registry.records import runtime_root
from tests.mcp.clients import ERAS, answer, connected, eventually, in_process
from tests.scenarios.living import is_alive
from tests.sizes import scale

HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "x", "version": "1"},
}


class Server:
    """A `hermetic mcp` that is spoken to line by line, so that it can be left in any way."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self._id = 0

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The result of a request."""
        self._id += 1
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        message = {"jsonrpc": "2.0", "id": self._id, "method": method, "params": params}
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        while True:
            reply = json.loads(await self.process.stdout.readline())
            if reply.get("id") == self._id:
                result: dict[str, Any] = reply["result"]
                return result

    async def start_sleeping(self) -> int:
        """The pid of a background process."""
        await self.request("initialize", HELLO)
        call = {"name": "terminal", "arguments": {"command": "sleep 1000", "background": True}}
        result = await self.request("tools/call", call)
        return int(json.loads(result["content"][0]["text"])["pid"])


@contextlib.asynccontextmanager
async def started(*arguments: str) -> AsyncIterator[Server]:
    """A server of our own; it is killed at the end if it still runs."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "hermetic",
        "mcp",
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=1 << 16,
    )
    try:
        yield Server(process)
    finally:
        if process.returncode is None:
            process.kill()
        assert process.stdout is not None
        await process.stdout.read()
        await process.wait()


async def test_a_killed_server_leaves_nothing_after_its_lease() -> None:
    async with started("-o", "lease=1") as server:
        pid = await server.start_sleeping()
        server.process.kill()
        await server.process.wait()
        await eventually(lambda: not is_alive(pid))
        await eventually(
            lambda: not [name for name in os.listdir(runtime_root()) if not name.startswith(".")]
        )


@pytest.mark.parametrize("numbers", [[signal.SIGHUP], [signal.SIGQUIT], [signal.SIGTERM] * 3])
async def test_a_signal_ends_the_server_and_its_environments(numbers: list[signal.Signals]) -> None:
    async with started() as server:
        pid = await server.start_sleeping()
        for number in numbers:
            with contextlib.suppress(ProcessLookupError):  # it is done already
                server.process.send_signal(number)
            await asyncio.sleep(0.01)  # signals that come at once count as one
        assert await asyncio.wait_for(server.process.wait(), 60) == 0
        assert not is_alive(pid)


async def test_a_client_that_stops_reading_is_left_when_it_closes() -> None:
    async with started() as server:
        pid = await server.start_sleeping()
        assert server.process.stdin is not None
        big = {"name": "terminal", "arguments": {"command": "head -c 40000 /dev/zero | tr '\\0' x"}}
        for id in range(100, 130):
            message = {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": big}
            server.process.stdin.write(json.dumps(message).encode() + b"\n")
        server.process.stdin.close()
        await eventually(lambda: server.process.returncode == 0)
        assert not is_alive(pid)


async def test_a_client_whose_page_fails_to_close_leaves_no_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def fail(_: SecretPages) -> None:
        raise OSError("the page does not close")

    monkeypatch.setattr(SecretPages, "close", fail)
    pids: list[int] = []

    async def leave() -> None:
        async with in_process("legacy") as client:
            started = await answer(
                client, "terminal", {"command": "sleep 1000", "background": True}
            )
            pids.append(started["pid"])

    with pytest.raises(OSError, match="does not close"):
        await leave()
    [pid] = pids
    assert not is_alive(pid)


@pytest.mark.slow
async def test_many_clients_at_once_have_an_environment_each_and_leave_nothing() -> None:
    pids: list[int] = []

    async def one(number: int) -> None:
        async with connected(ERAS[number % 2]) as client:
            first = await answer(client, "terminal", {"command": f"mine={number}"})
            assert first["exit_code"] == 0
            started = await answer(
                client, "terminal", {"command": "sleep 1000", "background": True}
            )
            pids.append(started["pid"])
            second = await answer(client, "terminal", {"command": "echo $mine"})
            assert second["output"] == f"{number}\n"

    await asyncio.gather(*map(one, range(scale(50))))
    assert len(set(pids)) == scale(50)
    await eventually(lambda: not any(map(is_alive, pids)))
