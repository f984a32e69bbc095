"""Who is let in: exact Host and Origin, the cookie of a login, bearer tokens, tickets for
WebSockets, rates.

A page of another site, another port of this machine and a name that was rebound to this address are
refused by Host and Origin; a browser sends both and a page cannot change them. A cookie is sent to
every port of a host, so it alone lets a request in only together with the Origin of this server.
Programs send a bearer token and no cookie.
"""

import secrets
import time
from collections.abc import Mapping

from hermetic.serve.password import Password
from hermetic.serve.rates import Rate
from hermetic.serve.refusals import Refused
from hermetic.serve.tokens import SCOPES, Grant, Scope, Token, TokenStore

START_TOKEN_SECONDS = 600.0
SESSION_SECONDS = 7 * 86400.0
SHARE_SECONDS = 86400.0
TICKET_SECONDS = 30.0
MOST_TICKETS = 128  # of one token, or of all logins by one link
SAFE_METHODS = ("GET", "HEAD")

# At once, and per second in the long run.
FAILED_LOGINS = (10, 10 / 60)
READS = (400, 100)
CHANGES = (100, 20)


class Access:
    """The access control of one server.

    `hosts` are the names and addresses, with port, that it answers to.
    """

    def __init__(
        self,
        store: TokenStore,
        *,
        scheme: str,
        hosts: tuple[str, ...],
        port: int,
        password: Password | None = None,
    ) -> None:
        self.store = store
        self.scheme = scheme
        self.hosts = hosts
        self.cookie = f"hermetic-{port}"
        self.password = password
        self._tickets: dict[str, tuple[Token, float]] = {}
        self._failures = Rate(*FAILED_LOGINS)
        self._reads = Rate(*READS)
        self._changes = Rate(*CHANGES)

    def __repr__(self) -> str:
        return f"<Access to {self.scheme}://{self.hosts[0]}>"

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"{self.scheme}://{self.hosts[0]}/"

    def start_url(self) -> str:
        """The URL of the page with a new one-time token."""
        return start_url(self.store, self.url)

    def share_url(self, name: str, scopes: tuple[Scope, ...], seconds: float) -> tuple[str, Token]:
        """A URL that lets anyone who has it in with these scopes, until it expires or is revoked."""
        secret = self.store.create(_grant("share", name, scopes, seconds))
        token = self.store.find(secret, "share")
        assert token is not None, "it was made just now"
        return f"{self.url}#token={secret}", token

    def check_host(self, headers: Mapping[str, str]) -> str:
        """The Host header, which has to be one of ours. Raises Refused."""
        host = headers.get("host", "").lower()
        if host not in self.hosts:
            raise Refused(403, "wrong_host", "This server has another name.", f"Open {self.url}")
        return host

    def check_origin(self, headers: Mapping[str, str], *, is_required: bool) -> bool:
        """True when the request comes from our page.

        Raises Refused for another page, or without proof if required.
        """
        expected = f"{self.scheme}://{self.check_host(headers)}"
        origin = headers.get("origin")
        if origin is not None:
            if origin != expected:
                raise Refused(
                    403, "foreign_origin", "Another page sent this request.", f"Open {self.url}"
                )
            return True
        if is_required:
            raise Refused(
                403,
                "missing_origin",
                "The request does not say which page it comes from.",
                "Use a token.",
            )
        site, referer = headers.get("sec-fetch-site"), headers.get("referer", "")
        if site is not None:
            return site in ("same-origin", "none")
        return referer.startswith(f"{expected}/")

    def authenticate(
        self, headers: Mapping[str, str], method: str, cookies: Mapping[str, str], peer: str
    ) -> Token:
        """The token of a request: of the bearer header, else of the cookie. Raises Refused."""
        bearer = _bearer(headers)
        if bearer is not None:
            self.check_origin(headers, is_required=False)
            if token := self.store.find(bearer, "bearer"):
                return token
            raise self._failed(
                peer, "wrong_token", "The token is wrong, has expired or was revoked."
            )
        secret = cookies.get(self.cookie)
        is_ours = self.check_origin(
            headers, is_required=secret is not None and method not in SAFE_METHODS
        )
        if secret is None:
            advice = "Open the URL that `hermetic serve` printed, or send a token."
            raise Refused(401, "no_login", "You are not logged in.", advice)
        if not is_ours:
            raise Refused(
                403,
                "missing_origin",
                "The request does not say which page it comes from.",
                "Use a token.",
            )
        if token := self.store.find(secret, "session"):
            return token
        raise self._failed(
            peer, "login_over", "The login is over.", "Open a new URL: hermetic serve url"
        )

    def check_rate(self, token: Token, method: str) -> None:
        """Counts a request. Raises Refused."""
        rate = self._reads if method in SAFE_METHODS else self._changes
        if seconds := rate.take(token.key):
            raise too_many(seconds)

    def log_in(self, token: str | None, password: str | None, peer: str) -> tuple[str, Grant]:
        """A new session for a one-time token, a share's token or the password: its secret and
        grant. Raises Refused.
        """
        if token is not None:
            if found := self.store.take(token, "login"):
                return self._session(found.grant.name, found.grant.scopes, SESSION_SECONDS)
            if found := self.store.find(token, "share"):
                left = min(SESSION_SECONDS, found.grant.expires - time.time())
                return self._session(found.grant.name, found.grant.scopes, left, source=found.key)
        elif password is not None and self.password is not None:
            self._check_failures(peer)
            if self.password.fits(password):
                return self._session("you", ("admin",), SESSION_SECONDS)
        advice = "A start URL works once, for ten minutes. For another one run: hermetic serve url"
        raise self._failed(
            peer,
            "wrong_token",
            "The token or password is wrong, has been used or has expired.",
            advice,
        )

    def ticket(self, token: Token) -> str:
        """A single-use ticket with which a WebSocket takes over the token's grant."""
        now = time.monotonic()
        self._tickets = {text: kept for text, kept in self._tickets.items() if kept[1] > now}
        holder = token.grant.source or token.key
        if (
            sum(
                other.grant.source == holder or other.key == holder
                for other, _ in self._tickets.values()
            )
            >= MOST_TICKETS
        ):
            raise too_many(TICKET_SECONDS)
        text = secrets.token_urlsafe(24)
        self._tickets[text] = token, now + TICKET_SECONDS
        return text

    def take_ticket(self, text: str) -> Token | None:
        """The token of a ticket that was not used and has not expired."""
        token, expires = self._tickets.pop(text, (None, 0.0))
        return token if expires > time.monotonic() else None

    def check_upgrade(self, headers: Mapping[str, str], peer: str) -> None:
        """A WebSocket may be opened by our page, or by a program with a bearer token.

        Raises Refused.
        """
        self.check_host(headers)
        if _bearer(headers) is not None:
            self.authenticate(headers, "GET", {}, peer)
        else:
            self.check_origin(headers, is_required=True)

    def _session(
        self, name: str, scopes: tuple[Scope, ...], seconds: float, *, source: str = ""
    ) -> tuple[str, Grant]:
        grant = _grant("session", name, scopes, seconds, source=source)
        return self.store.create(grant), grant

    def _check_failures(self, peer: str) -> None:
        if self._failures.left(peer) < 1:
            raise too_many(1 / FAILED_LOGINS[1])

    def _failed(self, peer: str, code: str, message: str, advice: str = "") -> Refused:
        """Counts a wrong secret.

        A right one is let in all the same: all programs of this machine have one address.
        """
        if seconds := self._failures.take(peer):
            return too_many(seconds)
        return Refused(401, code, message, advice or "Make a new one: hermetic serve token")


def too_many(seconds: float) -> Refused:
    """The refusal of a caller that sends too much."""
    wait = str(max(1, round(min(seconds, 3600))))
    return Refused(
        429, "too_many", "Too many requests.", f"Wait {wait} s.", headers={"Retry-After": wait}
    )


def start_url(store: TokenStore, url: str) -> str:
    """A page's URL with a new one-time token in its fragment, which browsers do not send to any
    server.
    """
    return f"{url}#token={store.create(_grant('login', 'you', ('admin',), START_TOKEN_SECONDS))}"


def bearer_grant(name: str, scopes: tuple[Scope, ...], seconds: float) -> Grant:
    """The grant of a new token for a program."""
    return _grant("bearer", name, scopes, seconds)


def _grant(
    use: str, name: str, scopes: tuple[Scope, ...], seconds: float, *, source: str = ""
) -> Grant:
    now = time.time()
    assert set(scopes) <= set(SCOPES)
    return Grant(
        use=use,  # type: ignore[arg-type]
        name=name,
        scopes=scopes,
        created=now,
        expires=now + seconds,
        source=source,
    )


def _bearer(headers: Mapping[str, str]) -> str | None:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None
