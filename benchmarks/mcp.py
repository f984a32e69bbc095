"""The MCP server: how soon it answers, and what a call through it costs."""

import asyncio
import importlib.util
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import hermetic
from benchmarks.figures import Row, Target, row
from benchmarks.limits import run_program
from benchmarks.measuring import MILLI, Bench, WrongResult, apart, in_turns, once, plainly
from benchmarks.places import Missing
from hermetic.config import load

CALL: dict[str, Any] = {"command": "true"}
HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "benchmark", "version": "1"},
}


class Connection:
    """A client of raw lines: what a call costs is the server's time, not a client library's."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._id = 0

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The result of a request; notifications in between are skipped."""
        self._id += 1
        self.send({"id": self._id, "method": method, "params": params})
        assert self._process.stdout is not None
        while True:
            message: dict[str, Any] = json.loads(await self._process.stdout.readline())
            if message.get("id") == self._id:
                result: dict[str, Any] = message["result"]
                return result

    def send(self, message: dict[str, Any]) -> None:
        """Sends a message."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def call(self) -> None:
        """One call of the terminal tool."""
        result = await self.request("tools/call", {"name": "terminal", "arguments": CALL})
        if result.get("isError"):
            raise WrongResult(result)


@asynccontextmanager
async def connected() -> AsyncIterator[Connection]:
    """A server that has not answered yet. Raises Missing."""
    if importlib.util.find_spec("mcp") is None:
        raise Missing("the package mcp is not installed; pip install 'hermetic[mcp]'")
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "hermetic",
        "mcp",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        limit=1 << 24,
        env=dict(os.environ),
    )
    try:
        yield Connection(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


async def starting(bench: Bench) -> list[Row]:
    """From the start of the process to its reply to `initialize`."""

    async def ours() -> list[float]:
        started = time.perf_counter()
        async with connected() as connection:
            await connection.request("initialize", HELLO)
            return [(time.perf_counter() - started) * MILLI]

    taken, limit = await in_turns(
        bench.times(15, 3),
        ours,
        plainly(lambda: run_program([sys.executable, "-c", "pass"])),
        warm=1,
    )
    return [
        row(
            "mcp.start",
            "`hermetic mcp`: start to the reply to `initialize`",
            "ms",
            taken,
            limit=("bare python -c pass", limit),
            target=Target(of="median", most=400.0),
        )
    ]


async def calling(bench: Bench) -> list[Row]:
    """The terminal tool over stdio beside the same call of a toolbox in this process."""
    async with connected() as connection, hermetic.Toolbox(settings=load()) as toolbox:
        await connection.request("initialize", HELLO)
        connection.send({"method": "notifications/initialized"})

        async def beside() -> None:
            await toolbox.call("terminal", CALL)

        taken, limit = await in_turns(
            bench.times(20, 3), apart(once(connection.call)), apart(once(beside)), warm=3
        )
    return [
        row(
            "mcp.call",
            "a `terminal` call over stdio MCP",
            "ms",
            taken,
            limit=("the same toolbox call", limit),
            target=Target(of="difference", most=3.0),
        )
    ]
