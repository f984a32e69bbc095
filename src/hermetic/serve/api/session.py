"""Logins, tickets for WebSockets, and links for others: /me, /login, /logout, /ticket, /shares."""

import time

import msgspec
from starlette.responses import Response

from hermetic.contract import VERSION
from hermetic.contract.printable import one_line
from hermetic.serve.access import SHARE_SECONDS
from hermetic.serve.refusals import Refused
from hermetic.serve.routes import Call, Resource
from hermetic.serve.tokens import Scope, read_scopes

LONGEST_SHARE = 30 * 86400.0  # seconds
MOST_NAME = 40  # characters


class Me(msgspec.Struct, frozen=True, kw_only=True):
    """Who sends this request."""

    name: str
    scopes: tuple[Scope, ...]
    expires: float  # seconds since 1970
    version: str
    can_terminal: bool


class Login(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A token from the fragment of a URL, or the password."""

    token: str | None = None
    password: str | None = None


class Ticket(msgspec.Struct, frozen=True, kw_only=True):
    """What the first frame of a WebSocket has to hold; it is valid once, for 30 seconds."""

    ticket: str


class NewShare(msgspec.Struct, frozen=True, kw_only=True):
    """A link for others."""

    scope: str | tuple[str, ...] = "view"
    expires: float = SHARE_SECONDS  # seconds from now
    name: str = "guest"


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """A link for others; `url` is shown once."""

    id: str
    name: str
    scopes: tuple[Scope, ...]
    expires: float  # seconds since 1970
    url: str | None = None


class Shares(msgspec.Struct, frozen=True, kw_only=True):
    """Every valid link."""

    shares: tuple[Share, ...]


async def _me(call: Call) -> Me:
    grant = call.grant
    return Me(
        name=grant.name,
        scopes=grant.scopes,
        expires=grant.expires,
        version=VERSION,
        can_terminal=grant.allows("drive"),
    )


async def _log_in(call: Call) -> Response:
    access, given = call.console.access, call.body(Login)
    secret, grant = access.log_in(given.token, given.password, call.peer)
    response = Response(status_code=204)
    response.set_cookie(
        access.cookie,
        secret,
        max_age=int(grant.expires - time.time()),
        path="/",
        httponly=True,
        samesite="strict",
        secure=access.scheme == "https",
    )
    return response


async def _log_out(call: Call) -> Response:
    access = call.console.access
    if call.token is not None and call.token.grant.use == "session":
        access.store.revoke(call.token)
    response = Response(status_code=204)
    response.delete_cookie(access.cookie, path="/", httponly=True, samesite="strict")
    return response


async def _ticket(call: Call) -> Ticket:
    assert call.token is not None, "the route has a scope"
    return Ticket(ticket=call.console.access.ticket(call.token))


async def _share(call: Call) -> Share:
    wanted = call.body(NewShare)
    if not 1 <= wanted.expires <= LONGEST_SHARE:
        raise Refused(400, "invalid", f"expires is in seconds, 1 to {LONGEST_SHARE:g}.")
    scopes, name = read_scopes(wanted.scope), one_line(wanted.name, MOST_NAME) or "guest"
    url, token = call.console.access.share_url(name, scopes, wanted.expires)
    return Share(id=token.id, name=name, scopes=scopes, expires=token.grant.expires, url=url)


async def _shares(call: Call) -> Shares:
    found = [token for token in call.console.access.store.all() if token.grant.use == "share"]
    return Shares(
        shares=tuple(
            Share(
                id=token.id,
                name=token.grant.name,
                scopes=token.grant.scopes,
                expires=token.grant.expires,
            )
            for token in found
        )
    )


async def _unshare(call: Call) -> None:
    store = call.console.access.store
    for token in store.all():
        if token.grant.use == "share" and token.id == call.path("id"):
            store.revoke(token)
            return
    raise Refused(404, "unknown_share", "There is no such link.", "List them again.")


ROUTES = (
    Resource("GET", "/me", "view", _me, "Name and scopes of the sender.", Me),
    Resource(
        "POST",
        "/login",
        None,
        _log_in,
        "Exchanges a token or the password for a cookie.",
        body=Login,
    ),
    Resource("POST", "/logout", "view", _log_out, "Ends the login."),
    Resource("POST", "/ticket", "view", _ticket, "A ticket for one WebSocket.", Ticket),
    Resource("GET", "/shares", "admin", _shares, "Links for others.", Shares),
    Resource("POST", "/shares", "admin", _share, "A new link for others.", Share, body=NewShare),
    Resource(
        "DELETE", "/shares/{id}", "admin", _unshare, "Revokes a link and the logins made with it."
    ),
)
