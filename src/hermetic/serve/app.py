"""The ASGI application: the table of routes, the security headers, and the checks that every
request passes.
"""

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from hermetic.contract import VERSION
from hermetic.contract.printable import one_line
from hermetic.serve.api import (
    approvals,
    environments,
    files,
    metrics,
    processes,
    recordings,
    session,
    stopping,
    tab,
    terminals,
    timeline,
)
from hermetic.serve.clients import ClientOptions
from hermetic.serve.console import Console
from hermetic.serve.e2b.door import E2bDoor
from hermetic.serve.environments import Guarding
from hermetic.serve.mcp import McpDoor
from hermetic.serve.openapi import document
from hermetic.serve.refusals import Refused
from hermetic.serve.routes import PREFIX, Call, Resource, peer_of, refuse, route
from hermetic.serve.static_files import Page, is_page_path
from hermetic.serve.tokens import Token

_log = logging.getLogger("hermetic.serve")

# Every resource of the API. A new file in api/ gets its line here.
RESOURCES: tuple[Resource, ...] = (
    *session.ROUTES,
    *environments.ROUTES,
    *processes.ROUTES,
    *terminals.ROUTES,
    *timeline.ROUTES,
    *files.ROUTES,
    *approvals.ROUTES,
    *stopping.ROUTES,
    *recordings.ROUTES,
    *metrics.ROUTES,
)

# WebSockets by path. The handler accepts the connection; Host and Origin were checked before.
# It gets the token of a ticket from `redeem`; the connection ends when the token does.
SOCKETS: Mapping[str, Callable[[Console, WebSocket, tab.Redeem], Awaitable[None]]] = {
    f"{PREFIX}/tab": tab.serve_tab
}

LOGIN_CHECK_SECONDS = 2.0  # between two checks of an open WebSocket's token
LOGIN_OVER = 4401  # close code

SECURITY_HEADERS = {
    # Nothing inline: what xterm.js styles at run time, the page turns into adopted style sheets.
    "Content-Security-Policy": (
        "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
        "connect-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}


def make_app(
    console: Console, clients: ClientOptions, guard: Guarding = lambda environment: None
) -> ASGIApp:
    """The application of one console, which its lifespan starts and ends.

    `guard` puts rules before environments.
    """
    mcp, e2b = McpDoor(console, clients), E2bDoor(console, clients, guard)
    by_path: defaultdict[str, list[Resource]] = defaultdict(list)
    for resource in (*RESOURCES, OPENAPI):
        by_path[resource.full_path].append(resource)
    routes: list[BaseRoute] = [route(console, resources) for resources in by_path.values()]
    routes += [WebSocketRoute(path, _socket(console, handler)) for path, handler in SOCKETS.items()]
    routes += [*mcp.routes(), *e2b.routes()]
    page = Page()

    async def show_page(request: Request) -> Response:
        if _is_api_path(request.url.path):
            raise _no_such_path()
        if not is_page_path(request.url.path) or request.url.path.startswith("/.well-known/"):
            raise Refused(
                404, "bad_path", "The page has no such path.", f"Open {console.access.url}"
            )
        return await page(request)

    async def refuse_method(request: Request, error: Exception) -> Response:
        """Starlette's own refusal: the path is known, its method is not."""
        assert isinstance(error, HTTPException)
        if request.scope["endpoint"] is show_page and _is_api_path(request.url.path):
            return await answer_refusal(request, _no_such_path())
        allowed = dict(error.headers or {})
        advice = f"Use {allowed.get('Allow', 'GET')}."
        return await answer_refusal(
            request,
            Refused(405, "wrong_method", "This path has no such method.", advice, headers=allowed),
        )

    async def answer_refusal(request: Request, error: Exception) -> Response:
        assert isinstance(error, Refused)
        return refuse(console, error, request.method, request.url.path, peer_of(request.client))

    routes.append(Route("/{path:path}", show_page, methods=["GET"]))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with console, mcp, e2b:
            yield

    handlers = {HTTPException: refuse_method, Refused: answer_refusal}
    return Checked(
        console, Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers)
    )


def _is_api_path(path: str) -> bool:
    """True for a path of the API, also for one that it does not have."""
    return path == "/api" or path.startswith("/api/")


def _no_such_path() -> Refused:
    return Refused(404, "no_such_path", "The API has no such path.", f"See {PREFIX}/openapi.json")


async def _openapi(call: Call) -> object:
    return document((*RESOURCES, OPENAPI), VERSION)


OPENAPI = Resource("GET", "/openapi.json", None, _openapi, "This document.")


def _socket(
    console: Console, handler: Callable[[Console, WebSocket, tab.Redeem], Awaitable[None]]
) -> Callable[[WebSocket], Awaitable[None]]:
    async def endpoint(websocket: WebSocket) -> None:
        try:
            console.access.check_upgrade(websocket.headers, peer_of(websocket.client))
            await console.peers.check_outside(
                websocket.scope.get("client"), websocket.scope.get("server")
            )
        except Refused as refusal:
            refuse(console, refusal, "WebSocket", websocket.url.path, peer_of(websocket.client))
            await websocket.close()  # before it is accepted: the client gets 403
            return
        tokens: list[Token] = []

        def redeem(ticket: str) -> Token | None:
            token = console.access.take_ticket(ticket)
            tokens.extend([token] if token is not None else [])
            return token

        checking = asyncio.create_task(_end_with_login(console, websocket, tokens))
        try:
            await handler(console, websocket, redeem)
        finally:
            checking.cancel()

    return endpoint


async def _end_with_login(console: Console, websocket: WebSocket, tokens: list[Token]) -> None:
    """Closes a WebSocket whose token has expired or was revoked, here or by another program."""
    while all(map(console.access.store.is_valid, tokens)):  # noqa: ASYNC110  # another program may revoke it
        await asyncio.sleep(LOGIN_CHECK_SECONDS)
    with contextlib.suppress(RuntimeError):  # it is being closed already
        await websocket.close(LOGIN_OVER, "the login is over")


class Checked:
    """Checks the Host of every request before anything else, and adds the security headers to every
    answer.
    """

    def __init__(self, console: Console, app: ASGIApp) -> None:
        self._console = console
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_checked(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("Cache-Control", "no-store")
                self._console.metrics.requests[
                    _known_method(scope["method"]), message["status"]
                ] += 1
            await send(message)

        try:
            self._console.access.check_host(Headers(scope=scope))
        except Refused as refusal:
            peer = scope["client"][0] if scope.get("client") else "-"
            response = refuse(self._console, refusal, scope["method"], scope["path"], peer)
            await response(scope, receive, send_checked)
            return
        try:
            await self._app(scope, receive, send_checked)
        except Exception:
            _log.exception("%s %s failed", one_line(scope["method"], 10), one_line(scope["path"]))
            raise


def _known_method(method: str) -> str:
    return method if method in ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS") else "other"
