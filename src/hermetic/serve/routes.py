"""Resources of the API: path, scope, fields and handler of each, from which routes and OpenAPI
document are made.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from hermetic.contract.printable import one_line
from hermetic.serve.access import SAFE_METHODS
from hermetic.serve.console import Console
from hermetic.serve.refusals import Failure, Refused, refusal_of
from hermetic.serve.tokens import Grant, Scope, Token

PREFIX = "/api/v1"
MOST_BODY = 1 << 20  # bytes
BODY_SECONDS = 30.0  # for a body to arrive
SUSPICIOUS = (401, 403, 408, 413, 429)  # statuses of refusals that are logged as warnings

_log = logging.getLogger("hermetic.serve")
S = TypeVar("S", bound=msgspec.Struct)


class Call:
    """One request, with its sender and its checked fields."""

    def __init__(
        self, console: Console, request: Request, token: Token | None, body: Any, query: Any
    ) -> None:
        self.console = console
        self.request = request
        self.token = token
        self._body = body
        self._query = query

    def __repr__(self) -> str:
        return f"<Call {self.request.method} {self.request.url.path}>"

    @property
    def grant(self) -> Grant:
        """What its sender may do."""
        assert self.token is not None, "the route has no scope"
        return self.token.grant

    @property
    def peer(self) -> str:
        """The sender's address."""
        return peer_of(self.request.client)

    def path(self, name: str) -> str:
        """A part of the path."""
        return str(self.request.path_params[name])

    def body(self, shape: type[S]) -> S:
        """The body, as the route declares it."""
        assert isinstance(self._body, shape)
        return self._body

    def query(self, shape: type[S]) -> S:
        """The query, as the route declares it."""
        assert isinstance(self._query, shape)
        return self._query


Handler = Callable[[Call], Awaitable[object]]


class Resource(NamedTuple):
    """One method of one path.

    A handler returns a value for JSON, a Response, or None for an empty answer.
    """

    method: str
    path: str
    scope: Scope | None  # None: also without a login
    handler: Handler
    summary: str
    answer: Any = None  # type of the JSON answer; None: empty, or not JSON
    body: type[msgspec.Struct] | None = None
    query: type[msgspec.Struct] | None = None
    prefix: str = PREFIX

    @property
    def full_path(self) -> str:
        """The path from the root of the server."""
        return self.prefix + self.path


def route(console: Console, resources: list[Resource]) -> Route:
    """The route of one path, with its methods."""
    by_method = {resource.method: resource for resource in resources}

    async def endpoint(request: Request) -> Response:
        resource = by_method["GET" if request.method == "HEAD" else request.method]
        try:
            return await _answer(console, resource, request)
        except Exception as error:
            refusal = refusal_of(error)
            if refusal is None:
                _log.exception("%s %s failed", request.method, one_line(request.url.path))
                refusal = Refused(500, "failed", "The server failed.", "Look at its log.")
            return refuse(
                console, refusal, request.method, request.url.path, peer_of(request.client)
            )

    return Route(resources[0].full_path, endpoint, methods=sorted(by_method))


async def _answer(console: Console, resource: Resource, request: Request) -> Response:
    token = None
    if resource.scope is None and request.method not in SAFE_METHODS:
        console.access.check_origin(request.headers, is_required=True)
    if resource.scope is not None:
        headers, peer = request.headers, peer_of(request.client)
        token = console.access.authenticate(headers, request.method, request.cookies, peer)
        if not token.grant.allows(resource.scope):
            needed = f"This needs the scope {resource.scope!r}; you have {', '.join(token.grant.scopes)}."
            raise Refused(
                403, "scope_missing", needed, "Ask for a link or a token with that scope."
            )
        console.access.check_rate(token, request.method)
    if request.method not in SAFE_METHODS:  # after what costs less: it looks at every process
        await console.peers.check_outside(request.scope.get("client"), request.scope.get("server"))
    query = (
        None
        if resource.query is None
        else _checked(dict(request.query_params), resource.query, is_text=True)
    )
    body = None
    if resource.body is not None:
        value = await _json(request)
        _check_fields(value, resource.body)
        body = _checked(value, resource.body)
    given = await resource.handler(Call(console, request, token, body, query))
    if isinstance(given, Response):
        return given
    if given is None:
        return Response(status_code=204)
    return json_response(given)


def json_response(value: object, status: int = 200) -> Response:
    """A value as JSON."""
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def refuse(console: Console, refusal: Refused, method: str, path: str, peer: str) -> Response:
    """The answer to a refused request, which is counted and logged without its query and headers."""
    code = refusal.problem.code
    console.metrics.refused[code] += 1
    _log.log(
        logging.WARNING if refusal.status in SUSPICIOUS or code == "bad_path" else logging.INFO,
        "refused %s %s from %s: %s",
        one_line(method, 10),
        one_line(path),
        peer,
        code,
    )
    response = json_response(Failure(error=refusal.problem), refusal.status)
    response.headers.update(refusal.headers)
    return response


def peer_of(client: Any) -> str:
    """The address of a client."""
    return client.host if client is not None else "-"


async def _json(request: Request) -> Any:
    """The body of a request. Raises Refused for a large, slow or wrong one."""
    too_large = Refused(
        413, "too_large", f"The body has more than {MOST_BODY} bytes.", "Send less at once."
    )
    length = request.headers.get("content-length", "0")
    if not length.isdigit() or int(length) > MOST_BODY:
        raise too_large
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refused(
            400, "not_json", "The body has to be JSON.", "Send Content-Type: application/json."
        )
    received = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                received += chunk
                if len(received) > MOST_BODY:
                    raise too_large
    except (TimeoutError, ClientDisconnect):
        raise Refused(408, "slow_body", "The body did not arrive in time.") from None
    try:
        return msgspec.json.decode(received)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refused(
            400,
            "not_json",
            f"The body is no JSON: {one_line(str(error))}",
            "Send an object, {} where no field is needed.",
        ) from None


def _check_fields(value: Any, shape: type[msgspec.Struct]) -> None:
    """Raises Refused for a field that the body does not have: what it was to choose would be left
    to the default, which may be every environment.
    """
    known = {field.encode_name for field in msgspec.structs.fields(shape)}
    unknown = sorted(value.keys() - known) if isinstance(value, dict) else []
    if unknown:
        fields = ", ".join(sorted(known)) or "none"
        raise Refused(
            400, "invalid", one_line(f"There is no field {unknown[0]!r}."), f"The fields: {fields}."
        )


def _checked(value: Any, shape: type[S], *, is_text: bool = False) -> S:
    try:
        return msgspec.convert(value, shape, strict=not is_text)
    except msgspec.ValidationError as error:
        raise Refused(
            400, "invalid", one_line(str(error)), "See /api/v1/openapi.json for the fields."
        ) from None
