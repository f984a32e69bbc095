"""The official client, attached to a server of ours: in this process, or a `hermetic mcp` on its
standard input.
"""

import argparse
import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import mcp_types
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from hermetic.cli.mcp import COMMANDS, serve_options
from hermetic.mcp.client import ServeOptions
from hermetic.mcp.server import Handlers
from tests.sizes import at_full_size, is_full

ERAS = ("legacy", "auto")  # a handshake client, and one of 2026-07-28
# the newer one where what is tested is the server's end, not the protocol
NEWEST = ("auto", *at_full_size("legacy"))

Asked = Callable[
    [Any, mcp_types.ElicitRequestParams], Awaitable[mcp_types.ElicitResult | mcp_types.ErrorData]
]


def server(*arguments: str, **variables: str) -> StdioServerParameters:
    """How to start the server in the runtime directory and the home of the tests."""
    kept = {name: os.environ[name] for name in ("HERMETIC_RUNTIME_DIR", "HOME", "PATH")}
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "hermetic", "mcp", *arguments],
        env={**kept, **variables},
    )


@asynccontextmanager
async def connected(
    era: str,
    *arguments: str,
    variables: Mapping[str, str] = {},
    stdio: bool = False,
    **options: Any,
) -> AsyncIterator[Client]:
    """A client of a new server; it and all its environments end with the block.

    The server runs in this process, unless its transport is what the test is about, or tests run at
    full size.
    """
    if stdio or is_full():
        async with Client(
            stdio_client(server(*arguments, **variables)), mode=era, **options
        ) as client:
            yield client
        return
    async with in_process(era, *arguments, variables=variables, **options) as client:
        yield client


@asynccontextmanager
async def in_process(
    era: str, *arguments: str, variables: Mapping[str, str] = {}, **options: Any
) -> AsyncIterator[Client]:
    """A client of a server in this process."""
    handlers = Handlers(options_of(arguments, variables))
    try:
        async with Client(handlers.server(), mode=era, **options) as client:
            yield client
    finally:
        await handlers.close()


def options_of(arguments: Sequence[str], variables: Mapping[str, str]) -> ServeOptions:
    """What the command line makes of these arguments."""
    parser = argparse.ArgumentParser()
    COMMANDS["mcp"].declare(parser)
    given = parser.parse_args(arguments)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        return serve_options(given)


async def answer(
    client: Client, tool: str, arguments: dict[str, Any], **options: Any
) -> dict[str, Any]:
    """The JSON answer of a tool."""
    result = await client.call_tool(tool, arguments, **options)
    block = result.content[0]
    assert isinstance(block, mcp_types.TextContent), block
    fields: dict[str, Any] = json.loads(block.text)
    return fields


async def send_form(
    browser: httpx2.AsyncClient, page: httpx2.Response, secret: str
) -> httpx2.Response:
    """Sends the form of a page with the Origin that a browser sends under the page's own
    Referrer-Policy.
    """
    url = page.url
    origin = (
        "null"
        if page.headers["referrer-policy"] == "no-referrer"
        else f"{url.scheme}://{url.netloc.decode()}"
    )
    return await browser.post(url, data={"secret": secret}, headers={"Origin": origin})


async def eventually(check: Callable[[], bool], seconds: float = 60.0) -> None:
    """Returns when the check holds."""
    async with asyncio.timeout(seconds):
        while not check():  # noqa: ASYNC110 - nothing reports it
            await asyncio.sleep(0.02)
