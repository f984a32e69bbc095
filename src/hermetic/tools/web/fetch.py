"""The one way to the web: connections to checked addresses, redirects by hand, limits on time,
bytes and unpacking.
"""

import asyncio
import re
import ssl
import zlib
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import NamedTuple

import httpcore2
from httpx2 import URL, InvalidURL

from hermetic.contract import VERSION, limits
from hermetic.contract.errors import ConfigError
from hermetic.tools.web.addresses import (
    Resolve,
    Sites,
    check_url,
    checked_addresses,
    host_of,
    read_numeric,
    read_url,
    resolve,
)
from hermetic.tools.web.errors import FetchError, Refused

EVERY_SITE = Sites()
USER_AGENT = (
    f"Mozilla/5.0 (compatible; Hermetic/{VERSION}; fetches single pages for an agent's user)"
)
_SENT = {"User-Agent": USER_AGENT, "Accept-Encoding": "gzip"}
_PAGE = {
    "Accept": "text/html, application/xhtml+xml, application/pdf;q=0.9, text/*;q=0.8, */*;q=0.1"
}
_MOVED = (301, 302, 303, 307, 308)
_NO_TEXT = re.compile(
    r"(?:image|audio|video|font|model)/|application/(?:zip|gzip|x-(?:tar|gzip|bzip2|xz|7z|rar|executable))"
)
_TOKEN = re.compile(r"(?:[\w.+-]{1,60}(?:/[\w.+-]{1,60})?)?", re.ASCII)  # a media type or a packing
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_FAILURES = (
    httpcore2.NetworkError,
    httpcore2.TimeoutException,
    httpcore2.ProxyError,
    OSError,
    zlib.error,
)


class Answer(NamedTuple):
    """What a server answered; the body is unpacked."""

    url: str  # after redirects
    status: int
    kind: str  # media type
    charset: str  # "" where the server names none
    body: bytes
    is_cut: bool = False  # there is more of the body


class _CheckedNetwork(httpcore2.AsyncNetworkBackend):
    """Connects to addresses that were checked for this connection; nothing is resolved twice."""

    def __init__(self, sites: Sites, find: Resolve) -> None:
        self._sites, self._find = sites, find
        self._network = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """A connection to the first address that takes one. Raises Refused."""
        failure: Exception = FetchError(f"{host} has no address")
        for address in await checked_addresses(host, port, self._sites, self._find):
            try:
                return await self._network.connect_tcp(
                    address, port, limits.WEB_CONNECT, local_address, socket_options
                )
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
        raise failure

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Raises Refused."""
        raise Refused("sockets of this machine are not fetched from")


class Fetcher:
    """Fetches pages for models, and calls APIs that the user has chosen. It keeps no connection, no
    cookie, no login.

    Variables for proxies are ignored; `proxy` is the user's own. It resolves names itself, so then
    only an address's text is checked.
    """

    def __init__(
        self,
        sites: Sites = EVERY_SITE,
        *,
        seconds: float = limits.WEB_TIME,
        most_bytes: int = limits.WEB_BYTES,
        proxy: str | None = None,
        find: Resolve = resolve,
        certificates: ssl.SSLContext | None = None,
    ) -> None:
        self._sites, self._find = sites, find
        self._seconds, self._most = seconds, most_bytes
        self._proxy = None if proxy is None else _proxy(proxy)
        self._network = _CheckedNetwork(sites, find) if proxy is None else None
        self._certificates = certificates
        self._slots = asyncio.Semaphore(limits.WEB_PARALLEL)

    def __repr__(self) -> str:
        return f"<Fetcher of {', '.join(self._sites.allow) or 'public hosts'}>"

    async def page(self, address: str) -> Answer:
        """The page at an address, redirects followed, whatever its status is. Raises FetchError."""
        url = read_url(address)
        async with self._bounded(url, self._seconds):
            for _ in range(limits.WEB_REDIRECTS + 1):
                await _check(url, self._sites)
                async with self._sent(
                    "GET", url, _PAGE, None, self._proxy, self._network
                ) as response:
                    headers = _headers(response)
                    if response.status not in _MOVED or "location" not in headers:
                        return await self._read(url, response, headers)
                    url = read_url(headers["location"], url)
        raise Refused(f"the page redirects more than {limits.WEB_REDIRECTS} times")

    async def call(
        self, method: str, address: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> Answer:
        """The answer of an API at an address of the user's, which may be private.

        Raises FetchError.
        """
        url, proxy = read_url(address), self._proxy
        try:
            await _check(url, EVERY_SITE)
        except Refused:
            proxy = None  # it is on the user's own network
        async with (
            self._bounded(url, limits.WEB_PROVIDER),
            self._sent(method, url, headers, body, proxy, None) as response,
        ):
            return await self._read(url, response, _headers(response))

    def allows(self, address: str) -> bool:
        """False for an address that its text or the user's rules exclude."""
        try:
            check_url(read_url(address), self._sites)
        except Refused:
            return False
        return True

    async def check(self, address: str) -> None:
        """Raises FetchError for an address that `page` would refuse."""
        url = read_url(address)
        async with self._bounded(url, self._seconds):
            await _check(url, self._sites)
            if self._proxy is None:
                await checked_addresses(host_of(url), _port(url), self._sites, self._find)

    @asynccontextmanager
    async def _bounded(self, url: URL, seconds: float) -> AsyncIterator[None]:
        """Within the limits of time and parallel fetches; errors of the network are FetchErrors."""
        try:
            async with self._slots, asyncio.timeout(seconds):
                yield
        except TimeoutError:
            raise FetchError(
                f"{host_of(url)} did not answer completely within {seconds:g} s"
            ) from None
        except httpcore2.ProtocolError:  # its text quotes the server
            raise FetchError(
                f"{host_of(url)} cannot be fetched from: it does not speak HTTP as it should"
            ) from None
        except _FAILURES as error:
            raise FetchError(
                f"{host_of(url)} cannot be fetched from: {error or type(error).__name__}"
            ) from None

    @asynccontextmanager
    async def _sent(
        self,
        method: str,
        url: URL,
        headers: Mapping[str, str],
        body: bytes | None,
        proxy: httpcore2.Proxy | None,
        network: httpcore2.AsyncNetworkBackend | None,
    ) -> AsyncIterator[httpcore2.Response]:
        if self._certificates is None and url.scheme == "https":
            self._certificates = httpcore2.default_ssl_context()
        target = httpcore2.URL(
            scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path
        )
        async with (
            httpcore2.AsyncConnectionPool(
                self._certificates, proxy, network_backend=network
            ) as pool,
            pool.stream(
                method, target, headers=[*_SENT.items(), *headers.items()], content=body
            ) as response,
        ):
            yield response

    async def _read(
        self, url: URL, response: httpcore2.Response, headers: Mapping[str, str]
    ) -> Answer:
        said = headers.get("content-type", "")
        packing = headers.get("content-encoding", "identity").strip().lower()
        kind = said.partition(";")[0].strip().lower()
        # What a server sends is not quoted in errors, which are not marked as untrusted.
        kind, packing = (text if _TOKEN.fullmatch(text) else "unknown" for text in (kind, packing))
        if _NO_TEXT.match(kind):
            raise FetchError(f"this is {kind}, which has no text to read")
        if packing not in ("identity", "gzip", "x-gzip"):
            raise FetchError(f"the answer is packed by {packing}, which was not requested")
        unpacker = None if packing == "identity" else _Unpacker()
        body, received = bytearray(), 0
        async with aclosing(response.aiter_stream()) as parts:
            async for part in parts:
                received += len(part)
                room = self._most + 1 - len(body)
                body += part[:room] if unpacker is None else unpacker.unpack(part, room)
                if len(body) > self._most or received > self._most:
                    break
        if unpacker is not None and len(body) > self._most:
            received -= unpacker.left
            if len(body) > received * limits.WEB_UNPACKED:
                raise Refused(f"{received:,} bytes unpack to more than {self._most:,}")
        charset = _CHARSET.search(said)
        return Answer(
            str(url),
            response.status,
            kind,
            charset[1].lower() if charset else "",
            bytes(body[: self._most]),
            max(len(body), received) > self._most or (unpacker is not None and unpacker.is_inside),
        )


class _Unpacker:
    """Unpacks gzip, which may consist of several members."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(wbits=31)
        self.is_inside = False  # in a member whose end has not come
        self.left = 0  # bytes that were not unpacked

    def unpack(self, data: bytes, room: int) -> bytes:
        """At most `room` bytes. Raises zlib.error."""
        unpacked = b""
        while data and len(unpacked) < room:
            if self._member.eof and not data.startswith(b"\x1f"):
                break  # padding
            if self._member.eof:
                self._member = zlib.decompressobj(wbits=31)
            unpacked += self._member.decompress(data, room - len(unpacked))
            self.is_inside = not self._member.eof
            data = self._member.unused_data or self._member.unconsumed_tail
        self.left = len(data)
        return unpacked


async def _check(url: URL, sites: Sites) -> None:
    """Raises Refused for an address that its text excludes, also where that is a number."""
    check_url(url, sites)
    await checked_addresses(host_of(url), _port(url), sites, read_numeric)


def _headers(response: httpcore2.Response) -> dict[str, str]:
    return {
        name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers
    }


def _port(url: URL) -> int:
    return url.port or (443 if url.scheme == "https" else 80)


def _proxy(text: str) -> httpcore2.Proxy:
    try:
        url = URL(text)
    except InvalidURL:
        url = URL()
    if url.scheme not in ("http", "https") or not url.host:
        raise ConfigError(
            "web.proxy is no address of an HTTP proxy; write http://HOST:PORT", setting="web.proxy"
        )
    login = (url.username, url.password) if url.userinfo else None
    place = httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=_port(url), target=b"/")
    return httpcore2.Proxy(place, auth=login)
