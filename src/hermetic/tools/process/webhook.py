"""A sink that posts each notice as JSON to a web address."""

import asyncio
import contextlib
import ssl
from urllib.parse import SplitResult, urlsplit

import msgspec

from hermetic.contract.errors import ConfigError
from hermetic.contract.limits import WEBHOOK
from hermetic.contract.notice import Notice

LONGEST_ANSWER = 1 << 16  # bytes of a status line and headers


class Webhook:
    """A sink for notices. An answer other than 2xx, or none in time, is an OSError: then the notice
    is sent again.

    The receiver knows a notice that was sent again by its `id`.
    """

    def __init__(self, url: str) -> None:
        parts = _checked(url)
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._ssl = ssl.create_default_context() if parts.scheme == "https" else None
        self._target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._named = parts.netloc.rpartition("@")[2]

    def __repr__(self) -> str:
        return f"<Webhook at {self._named}>"  # what comes after the host may be a secret

    async def __call__(self, notice: Notice) -> None:
        """Returns when the receiver has taken it. Raises OSError."""
        async with asyncio.timeout(WEBHOOK):
            status = await self._post(msgspec.json.encode(notice), notice.id)
        if not 200 <= status < 300:
            raise OSError(f"{self._named} answered with status {status}")

    async def _post(self, body: bytes, id: str) -> int:
        name = self._host if self._ssl else None
        reader, writer = await asyncio.open_connection(
            self._host, self._port, ssl=self._ssl, server_hostname=name, limit=LONGEST_ANSWER
        )
        try:
            head = (
                f"POST {self._target} HTTP/1.1\r\nHost: {self._named}\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\nIdempotency-Key: {id}\r\nConnection: close\r\n\r\n"
            )
            writer.write(head.encode() + body)
            await writer.drain()
            return _status(await reader.readline())
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


def _checked(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        fits = (
            parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and parts.port != 0
            and url.isascii()
        )
    except ValueError:
        fits = False
    if not fits or any(character <= " " for character in url):
        raise ConfigError(
            f"webhook must be an http or https address, not {url!r}", setting="webhook"
        )
    return parts


def _status(line: bytes) -> int:
    words = line.split(None, 2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
        raise OSError("what answered does not speak HTTP")
    return int(words[1])
