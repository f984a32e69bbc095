"""/mcp: the tools for MCP clients over HTTP, by bearer tokens with the scope `mcp`.

The SDK is the extra `mcp`. It is imported at the first request, so that a server without MCP
clients does not wait for it, and one without the extra answers what to install.
"""

import asyncio
import contextlib
import importlib.util
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from hermetic.mcp.secret_page import HEADERS, MOST, SecretPages
from hermetic.resident.lazy import Lazy, load
from hermetic.serve.access import too_many
from hermetic.serve.clients import ClientOptions
from hermetic.serve.console import Console
from hermetic.serve.rates import Rate
from hermetic.serve.refusals import Refused, refusal_of
from hermetic.serve.routes import peer_of, refuse
from hermetic.serve.tokens import Token

if TYPE_CHECKING:
    from hermetic.mcp import client, http
else:
    client, http = Lazy("hermetic.mcp.client"), Lazy("hermetic.mcp.http")

PATH = "/mcp"
SECRETS = f"{PATH}/secret"
LABEL = "hermetic-client"  # header: tells clients with the same token apart
MOST_LABEL = 200  # characters
REQUESTS = (1000, 200)  # of one token: at once, and per second in the long run
TOKEN_CHECK_SECONDS = 2.0  # between two checks of the token of a request that lasts
MISSING = Refused(
    501,
    "mcp_missing",
    "This server has no MCP: the package mcp is missing.",
    "Run: pip install 'hermetic[mcp]'",
)


class McpDoor:
    """The MCP server of a console. `async with` ends its clients."""

    def __init__(self, console: Console, options: ClientOptions) -> None:
        self._console = console
        self._options = options
        self._pages = SecretPages(f"{console.access.url.rstrip('/')}{SECRETS}")
        self._rate = Rate(*REQUESTS)
        self._starting = asyncio.Lock()
        self._transport: http.HttpTransport | None = None

    def __repr__(self) -> str:
        return f"<McpDoor: {self._transport!r}>"

    async def __aenter__(self) -> "McpDoor":
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._transport is not None:
            await self._transport.__aexit__()

    def routes(self) -> list[BaseRoute]:
        """The routes of the application."""
        return [
            Route(PATH, _Endpoint(self)),
            Route(f"{SECRETS}/{{page}}", self._show_page, methods=["GET", "POST"]),
        ]

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        request = Request(scope)
        try:
            if importlib.util.find_spec("mcp") is None:
                raise MISSING
            token, process = await self._let_in(request)
            transport = await self._started()
        except Exception as error:
            if (refusal := refusal_of(error)) is None:
                raise
            response = refuse(self._console, refusal, request.method, PATH, peer_of(request.client))
            await response(scope, receive, send)
            return
        caller = http.Caller(token.key, process, request.headers.get(LABEL, "")[:MOST_LABEL])
        await self._while_valid(token, transport, caller, (scope, receive, send))

    async def _let_in(self, request: Request) -> tuple[Token, str]:
        """The sender's token, and its process on this machine. Raises Refused."""
        access = self._console.access
        try:
            token = access.authenticate(
                request.headers, request.method, {}, peer_of(request.client)
            )
        except Refused as refusal:
            if refusal.status == 401:
                refusal.headers["WWW-Authenticate"] = 'Bearer realm="hermetic"'
            raise
        if not token.grant.allows("mcp"):
            needed = f"This needs the scope 'mcp'; you have {', '.join(token.grant.scopes)}."
            raise Refused(
                403, "scope_missing", needed, "Make a token: hermetic serve token --scope mcp"
            )
        if seconds := self._rate.take(token.key):
            raise too_many(seconds)
        return token, await self._console.peers.check_outside(
            request.scope.get("client"), request.scope.get("server")
        )

    async def _started(self) -> "http.HttpTransport":
        async with self._starting:
            if self._transport is None:
                given = await asyncio.to_thread(self._load)
                self._transport = await http.HttpTransport(given, self._pages).__aenter__()
        return self._transport

    def _load(self) -> "client.ServeOptions":
        load(http)
        return client.ServeOptions(settings=self._options.settings(), options=self._options.options)

    async def _while_valid(
        self,
        token: Token,
        transport: "http.HttpTransport",
        caller: "http.Caller",
        asgi: tuple[Scope, Receive, Send],
    ) -> None:
        """Serves a request; one that lasts ends with its token."""
        scope, receive, send = asgi
        is_started = False

        async def send_on(message: MutableMapping[str, Any]) -> None:
            nonlocal is_started
            is_started = True
            await send(message)

        serving = asyncio.create_task(transport.handle(caller, scope, receive, send_on))
        try:
            while not serving.done() and self._console.access.store.is_valid(token):
                await asyncio.wait([serving], timeout=TOKEN_CHECK_SECONDS)
            if serving.done():
                await serving
                return
        finally:
            if not serving.done():
                serving.cancel()
                await asyncio.wait([serving])
        if is_started:
            await send({"type": "http.response.body", "body": b""})
        else:
            await Response(status_code=401)(scope, receive, send)

    async def _show_page(self, request: Request) -> Response:
        """A page on which the user types a secret. Only its reader knows its address."""
        try:
            self._console.access.check_origin(request.headers, is_required=False)
            body = await _read(request)
        except Refused as refusal:
            return refuse(self._console, refusal, request.method, SECRETS, peer_of(request.client))
        answer = self._pages.respond(request.method, f"/{request.path_params['page']}", body)
        return Response(answer.body, int(answer.status.split()[0]), headers=HEADERS)


class _Endpoint:
    """Makes Starlette call the door as an ASGI application, with every method."""

    def __init__(self, door: McpDoor) -> None:
        self._door = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._door.serve(scope, receive, send)


async def _read(request: Request) -> bytes:
    """The body of a form. Raises Refused."""
    received = bytearray()
    with contextlib.suppress(ClientDisconnect):
        async for chunk in request.stream():
            received += chunk
            if len(received) > MOST:
                raise Refused(413, "too_large", f"The body has more than {MOST} bytes.")
    return bytes(received)
