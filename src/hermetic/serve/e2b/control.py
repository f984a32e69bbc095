"""E2B's REST API: sandboxes are created, listed, connected to, paused, prolonged and ended."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from hermetic.serve.e2b.sandboxes import NewSandbox, Sandbox, Sandboxes
from hermetic.serve.tokens import Token

VERSION = "0.5.7"  # of envd: what its services here can do
CLIENT = "hermetic"
LARGEST_PAGE = 100


class Failed(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Timeout(msgspec.Struct, kw_only=True):
    """How long a sandbox lives from now on."""

    timeout: float | None = None  # seconds


class Caller(NamedTuple):
    """A request of an owner."""

    request: Request
    owner: Token
    sandboxes: Sandboxes
    body: bytes

    def given(self, shape: type[Any]) -> Any:
        """The body in this shape. Raises Failed."""
        try:
            return msgspec.json.decode(self.body or b"{}", type=shape)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Failed(400, f"the body is wrong: {error}") from None

    def sandbox(self) -> Sandbox:
        """The sandbox that the path names. Raises Failed; another owner's is not there."""
        id = self.request.path_params["id"]
        found = self.sandboxes.get(id)
        if found is None or found.owner.key != self.owner.key:
            raise Failed(404, f"sandbox {id} was not found")
        return found


async def create(call: Caller) -> Response:
    """A new sandbox."""
    wanted: NewSandbox = call.given(NewSandbox)
    return _answer(_created(await call.sandboxes.create(call.owner, wanted)), 201)


async def connect(call: Caller) -> Response:
    """A sandbox to use; a paused one goes on."""
    sandbox, given = call.sandbox(), call.given(Timeout)
    was_paused = sandbox.state == "paused"
    await call.sandboxes.resume(sandbox, given.timeout)
    return _answer(_created(sandbox), 201 if was_paused else 200)


async def show(call: Caller) -> Response:
    """One sandbox."""
    sandbox = call.sandbox()
    return _answer({**_listed(sandbox), "envdAccessToken": sandbox.token, "domain": None})


async def list_all(call: Caller) -> Response:
    """The owner's sandboxes, the newest first, by page."""
    query = call.request.query_params
    states = [state for text in query.getlist("state") for state in text.split(",") if state]
    metadata = dict(parse_qsl(query.get("metadata", "")))
    found = [
        sandbox
        for sandbox in call.sandboxes.of(call.owner)
        if (not states or sandbox.state in states)
        and metadata.items() <= sandbox.wanted.metadata.items()
        and query.get("template", sandbox.wanted.template) == sandbox.wanted.template
    ]
    if query.get("order") == "asc":
        found.reverse()
    first, limit = (
        _number(query.get("nextToken"), 0),
        min(_number(query.get("limit"), LARGEST_PAGE), LARGEST_PAGE),
    )
    response = _answer([_listed(sandbox) for sandbox in found[first : first + limit]])
    if first + limit < len(found):
        response.headers["x-next-token"] = str(first + limit)
    return response


async def kill(call: Caller) -> Response:
    """Ends a sandbox."""
    await call.sandboxes.end(call.sandbox())
    return Response(status_code=204)


async def set_timeout(call: Caller) -> Response:
    """Says how long a sandbox lives from now on."""
    sandbox, given = call.sandbox(), call.given(Timeout)
    if given.timeout is None:
        raise Failed(400, "timeout is missing")
    if sandbox.state == "running":
        call.sandboxes.set_timeout(sandbox, given.timeout)
    return Response(status_code=204)


async def pause(call: Caller) -> Response:
    """Freezes a sandbox."""
    sandbox = call.sandbox()
    if sandbox.state == "paused":
        raise Failed(409, f"sandbox {sandbox.id} is paused already")
    await call.sandboxes.pause(sandbox)
    return Response(status_code=204)


async def metrics(call: Caller) -> Response:
    """None are kept."""
    call.sandbox()
    return _answer([])


ROUTES: tuple[tuple[str, str, Callable[[Caller], Awaitable[Response]]], ...] = (
    ("POST", "/sandboxes", create),
    ("POST", "/v2/sandboxes", create),
    ("GET", "/sandboxes", list_all),
    ("GET", "/v2/sandboxes", list_all),
    ("GET", "/sandboxes/{id}", show),
    ("DELETE", "/sandboxes/{id}", kill),
    ("POST", "/sandboxes/{id}/timeout", set_timeout),
    ("POST", "/sandboxes/{id}/pause", pause),
    ("POST", "/sandboxes/{id}/resume", connect),
    ("POST", "/sandboxes/{id}/connect", connect),
    ("POST", "/v2/sandboxes/{id}/connect", connect),
    ("GET", "/sandboxes/{id}/metrics", metrics),
)


def _created(sandbox: Sandbox) -> dict[str, Any]:
    return {
        "templateID": sandbox.wanted.template,
        "sandboxID": sandbox.id,
        "clientID": CLIENT,
        "envdVersion": VERSION,
        "envdAccessToken": sandbox.token,
    }


def _listed(sandbox: Sandbox) -> dict[str, Any]:
    return {
        "templateID": sandbox.wanted.template,
        "sandboxID": sandbox.id,
        "clientID": CLIENT,
        "envdVersion": VERSION,
        "startedAt": _time(sandbox.started),
        "endAt": _time(sandbox.ends),
        "state": sandbox.state,
        "metadata": sandbox.wanted.metadata,
        "cpuCount": 0,
        "memoryMB": 0,
        "diskSizeMB": 0,
    }


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def _number(text: str | None, default: int) -> int:
    return int(text) if text is not None and text.isdigit() else default


def _answer(value: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")
