"""MCP over streamable HTTP, in both protocol eras. Another server routes requests here after its
own checks.

A client of the handshake era is identified by its session, which only the token that began it may
use. A client of 2026-07-28 has none: it is the holder of a token with a name, and further by what
`Caller` and the cookie say.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Hashable, MutableMapping
from typing import Any, NamedTuple

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.context import CallNext, HandlerResult
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from hermetic.contract.limits import LEASE
from hermetic.mcp.client import ServeOptions
from hermetic.mcp.secret_page import SecretPages
from hermetic.mcp.server import Context, Handlers

MOST_SESSIONS = 512
MOST_BODY = 4 << 20  # bytes of a request
COOKIE = "hermetic-mcp"
SESSION, VERSION, METHOD = b"mcp-session-id", b"mcp-protocol-version", b"mcp-method"
KEY = "hermetic.client"  # in the scope of a request

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Caller(NamedTuple):
    """Who sends a request: two that differ in any of it share nothing."""

    token: str  # identifies the token, without being its secret
    process: str = ""  # on this machine; "": not known
    label: str = ""  # that the client gives itself


class HttpTransport:
    """Serves MCP to any number of clients.

    Use it in `async with`; `pages` answers requests for secret pages.
    """

    def __init__(self, given: ServeOptions, pages: SecretPages) -> None:
        known = {**given.settings.options, **given.options}
        lease = float(known.get("lease") or LEASE)
        self._handlers = Handlers(given, _client_of, lease=lease, pages=pages)
        server = self._handlers.server()
        server.middleware.append(self._mark_present)
        self._manager = StreamableHTTPSessionManager(
            server,
            session_idle_timeout=lease,
            max_sessions=MOST_SESSIONS,
            max_request_body_size=MOST_BODY,
        )
        self._stopping = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<HttpTransport: {self._handlers.clients!r}>"

    async def __aenter__(self) -> "HttpTransport":
        ready = asyncio.Event()
        # The manager's task group belongs to one task; requests come in others.
        self._running = asyncio.create_task(self._run(ready))
        await ready.wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stopping.set()
        if self._running is not None:
            await self._running
        await self._handlers.close()

    async def handle(self, caller: Caller, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI, for a request that was let in."""
        headers = dict(scope["headers"])
        version = headers.get(VERSION, b"").decode("latin-1")
        access = AccessToken(token="", client_id=caller.token, scopes=[])
        scope = {**scope, "user": AuthenticatedUser(access)}
        session = headers.get(SESSION)
        if version and version not in HANDSHAKE_PROTOCOL_VERSIONS:
            cookie = _cookie(headers.get(b"cookie", b"").decode("latin-1"))
            if not cookie and headers.get(METHOD) == b"server/discover":
                send = _setting_cookie(send, secrets.token_urlsafe(12))
            scope[KEY] = (*caller, cookie)
            await self._manager.handle_request(scope, receive, send)
        elif session is None:  # begins one
            await self._manager.handle_request(scope, receive, send)
        else:
            scope[KEY] = key = (caller.token, session)
            with self._handlers.clients.present(key):
                await self._manager.handle_request(scope, receive, send)
            if scope["method"] == "DELETE":
                await self._handlers.clients.leave(key)

    async def _run(self, ready: asyncio.Event) -> None:
        async with self._manager.run():
            ready.set()
            await self._stopping.wait()

    async def _mark_present(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """A client of 2026-07-28 is there while one of its requests lasts; those of sessions were
        counted before.
        """
        if ctx.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS:
            return await call_next(ctx)
        with self._handlers.clients.present(_client_of(ctx)):
            return await call_next(ctx)


def _client_of(context: Context) -> Hashable:
    assert context.request is not None, "this transport has requests"
    key: Hashable = context.request.scope[KEY]
    if context.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS:
        return key
    params = context.session.client_params
    return key, params.client_info.name if params is not None else ""


def _cookie(header: str) -> str:
    """The value of our cookie."""
    for pair in header.split(";"):
        name, _, value = pair.strip().partition("=")
        if name == COOKIE:
            return value[:64]
    return ""


def _setting_cookie(send: Send, value: str) -> Send:
    """A client that keeps cookies differs from others with the same token.

    It is set before the first call.
    """

    async def send_with_cookie(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            cookie = f"{COOKIE}={value}; Path=/mcp; HttpOnly; SameSite=Strict".encode()
            message = {**message, "headers": [*message["headers"], (b"set-cookie", cookie)]}
        await send(message)

    return send_with_cookie
