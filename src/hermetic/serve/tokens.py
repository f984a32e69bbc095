"""Tokens of the console: random secrets with scopes and an expiry.

Their hashes are kept, one private file each.
"""

import contextlib
import hashlib
import os
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from hermetic.contract.errors import ConfigError, InvalidArgument
from hermetic.registry.private import make_private
from hermetic.registry.records import SETTING, runtime_root

Scope = Literal["view", "drive", "approve", "admin", "mcp", "e2b"]
SCOPES: tuple[Scope, ...] = ("view", "drive", "approve", "admin", "mcp", "e2b")
# Scope → further ones that include it. A token with mcp or e2b alone sees nothing of the console.
INCLUDED_IN: Mapping[Scope, tuple[Scope, ...]] = {"view": ("drive", "approve"), "mcp": ("drive",)}
Use = Literal["login", "share", "session", "bearer"]

FOLDER = "console"  # in the runtime directory
SHOWN_ID = 12  # characters of a hash by which people name a token


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """What the holder of a token may do, and until when."""

    use: Use
    name: str  # of the holder, as other people see it
    scopes: tuple[Scope, ...]
    created: float  # seconds since 1970
    expires: float
    source: str = ""  # key of the share that a session came from; the session ends with it

    def allows(self, scope: Scope) -> bool:
        """True when the scopes include this one; admin includes all."""
        return any(held in (scope, "admin", *INCLUDED_IN.get(scope, ())) for held in self.scopes)


class Token(NamedTuple):
    """A stored token: the hash that identifies it, and its grant."""

    key: str
    grant: Grant

    @property
    def id(self) -> str:
        """The start of its key, for people."""
        return self.key[:SHOWN_ID]


def read_scopes(text: str | Iterable[str]) -> tuple[Scope, ...]:
    """Scopes from "view,drive" or a list. Raises InvalidArgument."""
    names = [name.strip() for name in text.split(",")] if isinstance(text, str) else list(text)
    chosen = tuple(scope for scope in SCOPES if scope in names)
    if unknown := [name for name in names if name not in SCOPES]:
        raise InvalidArgument(
            f"no scope is called {unknown[0]!r}; there are {', '.join(SCOPES)}", argument="scope"
        )
    if not chosen:
        raise InvalidArgument(f"name at least one scope of {', '.join(SCOPES)}", argument="scope")
    return chosen


class TokenStore:
    """The tokens of one runtime directory, shared by all servers and command lines of this user."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def __repr__(self) -> str:
        return f"<TokenStore in {self._directory}>"

    @classmethod
    def of_this_user(cls) -> "TokenStore":
        """The store in the runtime directory, made if missing. Raises ConfigError."""
        return cls(make_private(runtime_root() / FOLDER, SETTING))

    def create(self, grant: Grant) -> str:
        """Stores a grant; returns its new secret, which is not kept."""
        secret = secrets.token_urlsafe(32)
        path = self._directory / _key(secret)
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ConfigError(
                f"no token can be stored in {self._directory}: {error.strerror}"
            ) from error
        with open(fd, "wb") as file:
            file.write(msgspec.json.encode(grant))
        return secret

    def find(self, secret: str, *uses: Use) -> Token | None:
        """The token with this secret, unless it has expired or is for another use."""
        token = self._read(_key(secret))
        if token is None or token.grant.use not in uses:
            return None
        if not self.is_valid(token):
            self.revoke(token)
            return None
        return token

    def is_valid(self, token: Token) -> bool:
        """False when it was revoked or has expired, or the share that it came from."""
        source = token.grant.source
        return self._read(token.key) is not None and (not source or self._read(source) is not None)

    def take(self, secret: str, *uses: Use) -> Token | None:
        """As `find`, and removes it: of several callers, one gets it."""
        token = self.find(secret, *uses)
        return token if token is not None and self.revoke(token) else None

    def revoke(self, token: Token) -> bool:
        """Removes a token; False when it was removed before."""
        try:
            (self._directory / token.key).unlink()
        except OSError:
            return False
        return True

    def all(self) -> list[Token]:
        """Every valid token, oldest first. Expired ones are removed."""
        return sorted(self._each(), key=lambda token: token.grant.created)

    def _each(self) -> Iterator[Token]:
        with contextlib.suppress(FileNotFoundError):
            for name in os.listdir(self._directory):
                if token := self._read(name):
                    yield token

    def _read(self, key: str) -> Token | None:
        path = self._directory / key
        try:
            grant = msgspec.json.decode(path.read_bytes(), type=Grant)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return None
        if grant.expires <= time.time():
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        return Token(key, grant)


def _key(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
