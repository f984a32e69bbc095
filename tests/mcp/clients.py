"""A `hermetic mcp` of our own on standard input and output, and the official client attached to it."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import mcp_types
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

ERAS = ("legacy", "auto")  # a handshake client, and one of 2026-07-28

Asked = Callable[[Any, mcp_types.ElicitRequestParams], Awaitable[mcp_types.ElicitResult | mcp_types.ErrorData]]


def server(*arguments: str, **variables: str) -> StdioServerParameters:
    """How to start the server in the runtime directory and the home of the tests."""
    kept = {name: os.environ[name] for name in ("HERMETIC_RUNTIME_DIR", "HOME", "PATH")}
    return StdioServerParameters(
        command=sys.executable, args=["-m", "hermetic", "mcp", *arguments], env={**kept, **variables}
    )


@asynccontextmanager
async def connected(era: str, *arguments: str, **options: Any) -> AsyncIterator[Client]:
    """A client of a new server; it and all its environments end with the block."""
    variables: Mapping[str, str] = options.pop("variables", {})
    async with Client(stdio_client(server(*arguments, **variables)), mode=era, **options) as client:
        yield client


async def answer(client: Client, tool: str, arguments: dict[str, Any], **options: Any) -> dict[str, Any]:
    """The JSON answer of a tool."""
    result = await client.call_tool(tool, arguments, **options)
    block = result.content[0]
    assert isinstance(block, mcp_types.TextContent), block
    fields: dict[str, Any] = json.loads(block.text)
    return fields


async def eventually(check: Callable[[], bool], seconds: float = 60.0) -> None:
    """Returns when the check holds."""
    async with asyncio.timeout(seconds):
        while not check():  # noqa: ASYNC110 - nothing reports it
            await asyncio.sleep(0.02)
