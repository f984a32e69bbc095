"""/e2b: routes of E2B's API, and who is let in.

The REST API takes tokens with the scope `e2b` as API keys. The services of a sandbox take the token
that its creator got with it; URLs of files may be signed with it instead.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

import msgspec
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from hermetic.contract.errors import (
    ConfigError,
    EnvironmentUnavailable,
    ExecutionError,
    Unreachable,
)
from hermetic.serve.access import too_many
from hermetic.serve.clients import ClientOptions
from hermetic.serve.console import Console
from hermetic.serve.e2b import connect, control, files, processes
from hermetic.serve.e2b.connect import Message, RpcError, rpc_error
from hermetic.serve.e2b.control import Caller, Failed
from hermetic.serve.e2b.sandboxes import Sandbox, Sandboxes
from hermetic.serve.environments import Guarding
from hermetic.serve.rates import Rate
from hermetic.serve.refusals import Refused
from hermetic.serve.routes import MOST_BODY, peer_of, refuse
from hermetic.serve.tokens import Token

PATH = "/e2b"
REQUESTS = (1000, 200)  # of one API key: at once, and per second in the long run
BODY_SECONDS = 30.0
NOT_FOUND = "The sandbox was not found"  # its SDKs look for these words

Calls = Mapping[str, Callable[[Sandbox, Message], Awaitable[Message]]]
Streams = Mapping[str, Callable[[Sandbox, Message, Headers], AsyncIterator[Message]]]


class E2bDoor:
    """E2B's API of a console. `async with` ends its sandboxes."""

    def __init__(self, console: Console, options: ClientOptions, guard: Guarding) -> None:
        self._console = console
        self._sandboxes = Sandboxes(options, guard)
        self._rate = Rate(*REQUESTS)

    def __repr__(self) -> str:
        return f"<E2bDoor: {self._sandboxes!r}>"

    async def __aenter__(self) -> "E2bDoor":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._sandboxes.close()

    def routes(self) -> list[BaseRoute]:
        """The routes of the application."""
        rest = [
            Route(f"{PATH}{path}", self._control(handler), methods=[method])
            for method, path, handler in control.ROUTES
        ]
        return [
            *rest,
            Route(f"{PATH}/process.Process/StreamInput", self._stream_input, methods=["POST"]),
            Route(
                f"{PATH}/process.Process/{{method}}",
                _rpc(self, processes.CALLS, processes.STREAMS),
                methods=["POST"],
            ),
            Route(
                f"{PATH}/filesystem.Filesystem/{{method}}",
                _rpc(self, files.CALLS, files.STREAMS),
                methods=["POST"],
            ),
            Route(f"{PATH}/files", self._files, methods=["GET", "POST"]),
            # its SDKs leave the path out of signed URLs
            Route("/files", self._files, methods=["GET", "POST"]),
            Route(f"{PATH}/health", self._health, methods=["GET"]),
        ]

    def _control(
        self, handler: Callable[[Caller], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            try:
                owner = await self._owner(request)
                return await handler(Caller(request, owner, self._sandboxes, await _body(request)))
            except Refused as refusal:
                response = refuse(
                    self._console, refusal, request.method, PATH, peer_of(request.client)
                )
                return _failed(refusal.status, str(refusal), dict(response.headers))
            except Failed as failed:
                return _failed(failed.status, str(failed))
            except ConfigError as error:
                return _failed(400, str(error))
            except (ExecutionError, Unreachable, EnvironmentUnavailable) as error:
                return _failed(503, str(error))

        return endpoint

    async def _owner(self, request: Request) -> Token:
        """The sender's API key. Raises Refused."""
        access = self._console.access
        key = request.headers.get("x-api-key", "")
        headers = {**request.headers, "authorization": f"Bearer {key}"}
        token = access.authenticate(headers, request.method, {}, peer_of(request.client))
        if not token.grant.allows("e2b"):
            raise Refused(
                403,
                "scope_missing",
                "The API key needs the scope 'e2b': hermetic serve token --scope e2b",
            )
        if seconds := self._rate.take(token.key):
            raise too_many(seconds)
        await self._console.peers.check_outside(
            request.scope.get("client"), request.scope.get("server")
        )
        return token

    def sandbox(self, request: Request, operation: str = "") -> Sandbox:
        """The sandbox that a request is for. Raises Failed."""
        try:
            self._console.access.check_origin(request.headers, is_required=False)
        except Refused as refusal:
            raise Failed(refusal.status, str(refusal)) from None
        if operation and request.query_params.get("signature"):
            for sandbox in self._sandboxes.all():
                if files.is_signed(sandbox, request.query_params, operation):
                    return self._usable(sandbox)
            raise Failed(401, "the signature is wrong or has expired")
        found = self._sandboxes.get(request.headers.get("e2b-sandbox-id", ""))
        if found is None:
            raise Failed(502, NOT_FOUND)
        if not secrets.compare_digest(
            found.token.encode(), request.headers.get("x-access-token", "").encode()
        ):
            raise Failed(401, "the access token of the sandbox is wrong")
        return self._usable(found)

    def _usable(self, sandbox: Sandbox) -> Sandbox:
        """Raises Failed for one that is paused, or whose API key has expired or was revoked."""
        if not self._console.access.store.is_valid(sandbox.owner):
            raise Failed(401, "the API key that made the sandbox is not valid any more")
        if sandbox.state == "paused":
            raise Failed(502, f"{NOT_FOUND}: it is paused; connect to it again")
        return sandbox

    async def _stream_input(self, request: Request) -> Response:
        try:
            done = await processes.stream_input(
                self.sandbox(request), connect.read_messages(request)
            )
        except Failed as failed:
            return _failed(failed.status, str(failed))
        except Exception as error:
            return connect.failed(request, rpc_error(error))
        return connect.stream(_once(done))

    async def _files(self, request: Request) -> Response:
        try:
            sandbox = self.sandbox(request, "read" if request.method == "GET" else "write")
            connect.check_own(sandbox.users, request.query_params.get("username", ""), "files")
            if request.method == "GET":
                data = await files.download(sandbox, request.query_params.get("path"))
                return Response(data, media_type="application/octet-stream")
            written = await files.upload(sandbox, request)
            return Response(msgspec.json.encode(written), media_type="application/json")
        except Failed as failed:
            return _failed(failed.status, str(failed))
        except Exception as error:
            found = rpc_error(error)
            return _failed(connect.STATUSES.get(found.code, 500), str(found))

    async def _health(self, request: Request) -> Response:
        try:
            self.sandbox(request)
        except Failed as failed:
            return _failed(failed.status, str(failed))
        return Response(status_code=204)


def _rpc(door: E2bDoor, calls: Calls, streams: Streams) -> Callable[[Request], Awaitable[Response]]:
    """The methods of a service."""

    async def endpoint(request: Request) -> Response:
        try:
            sandbox, method = door.sandbox(request), request.path_params["method"]
            if calls is files.CALLS:
                connect.check_own(sandbox.users, connect.named_user(request.headers), "files")
            if method in streams:
                return connect.stream(
                    streams[method](sandbox, await connect.read_message(request), request.headers)
                )
            if method not in calls:
                raise RpcError("unimplemented", f"{method} is not known here")
            return connect.single(await calls[method](sandbox, await connect.read_message(request)))
        except Failed as failed:
            return _failed(failed.status, str(failed))
        except Exception as error:
            return connect.failed(request, rpc_error(error))

    return endpoint


async def _once(message: Message) -> AsyncIterator[Message]:
    yield message


async def _body(request: Request) -> bytes:
    received = bytearray()
    async with asyncio.timeout(BODY_SECONDS):
        async for chunk in request.stream():
            received += chunk
            if len(received) > MOST_BODY:
                raise Failed(413, f"the body has more than {MOST_BODY} bytes")
    return bytes(received)


def _failed(status: int, message: str, headers: "dict[str, str] | None" = None) -> Response:
    kept = {name: value for name, value in (headers or {}).items() if name == "retry-after"}
    body = msgspec.json.encode({"code": status, "message": message})
    return Response(body, status, media_type="application/json", headers=kept)
