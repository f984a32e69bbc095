"""The official client over HTTP, attached to a `hermetic serve` in this process."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from hermetic.serve.access import bearer_grant
from hermetic.serve.clients import ClientOptions
from hermetic.serve.server import ConsoleServer
from hermetic.serve.tokens import Scope
from tests.serve.serving import serving

SECONDS = 60.0


@asynccontextmanager
async def mcp_server(kind: str | None = None, **options: Any) -> AsyncIterator[ConsoleServer]:
    """A server whose MCP clients get environments with these options."""
    async with serving(clients=ClientOptions(kind=kind, options=options)) as server:
        yield server


def token(server: ConsoleServer, *scopes: Scope) -> str:
    """A new token."""
    return server.access.store.create(bearer_grant("test", scopes or ("mcp",), 600))


@asynccontextmanager
async def over_http(
    server: ConsoleServer,
    era: str,
    secret: str | None = None,
    headers: Mapping[str, str] = {},
    **options: Any,
) -> AsyncIterator[Client]:
    """A client of the server, with a token of its own unless one is given."""
    sent = {"Authorization": f"Bearer {secret or token(server)}", **headers}
    async with (
        httpx2.AsyncClient(
            headers=sent, trust_env=False, timeout=httpx2.Timeout(SECONDS, read=300.0)
        ) as http_client,
        Client(
            streamable_http_client(f"{server.access.url}mcp", http_client=http_client),
            mode=era,
            **options,
        ) as client,
    ):
        yield client
