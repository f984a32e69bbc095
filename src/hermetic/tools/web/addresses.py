"""Judges addresses on the web: pages are fetched from public hosts, and from private ones that the
user has named.
"""

import ipaddress
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import NamedTuple

from httpx2 import URL, InvalidURL

from hermetic.contract.concurrency import in_thread
from hermetic.tools.web.errors import FetchError, Refused

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
NO_TARGET = "the page redirects to what is no address"
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]  # (host, port) → addresses


def _networks(text: str) -> tuple[Network, ...]:
    return tuple(map(ipaddress.ip_network, text.split()))


# Not for web servers, though Python counts most of them as global.
_RESERVED = _networks("""
    100.64.0.0/10 168.63.129.16/32 192.0.0.0/24 192.88.99.0/24 224.0.0.0/4 240.0.0.0/4
    3fff::/20 5f00::/16 fec0::/10 ff00::/8
""")
# Services that give out credentials of a cloud machine; no setting allows them.
_METADATA = _networks("""
    169.254.0.0/16 100.100.100.200/32 168.63.129.16/32 192.0.0.192/32 fd00:ec2::/32 fd00:c1::/32 fd20:ce::/32
""")
_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")
# IPv6 addresses whose last 32 bits are an IPv4 address: NAT64, IPv4-compatible, IPv4-translated;
# and ISATAP's mark.
_ENDS_IN_IPV4 = _networks("64:ff9b::/96 64:ff9b:1::/48 ::/96 ::ffff:0:0:0/96")
_ISATAP = (0x5EFE, 0x2005EFE)

_PRIVATE_NAMES = str.split(
    "localhost localdomain local internal intranet private lan home corp home.arpa svc onion test invalid"
)
_WEB_PORTS = (80, 443)  # of those below 1024
_OTHER_SERVICES = str.split("""
    1719 1720 1723 2049 2375 2376 2379 2380 3306 3389 3659 4045 4190 5060 5061 5432 5672 5900 6000
    6379 6443 6566 6665 6666 6667 6668 6669 6679 6697 9042 9200 9300 10080 10250 11211 27017
""")


def is_public(text: str) -> bool:
    """True for an address of the public internet."""
    address = ipaddress.ip_address(text)
    if (inner := _embedded(address)) is not None:
        return is_public(str(inner))
    if isinstance(address, ipaddress.IPv6Address) and (
        address.scope_id or address not in _GLOBAL_UNICAST
    ):
        return False
    return address.is_global and not _is_in(address, _RESERVED)


def is_metadata(text: str) -> bool:
    """True for an address of a cloud's metadata service."""
    address = ipaddress.ip_address(text)
    return _is_in(_embedded(address) or address, _METADATA)


def _is_in(address: Address, networks: Iterable[Network]) -> bool:
    return any(address.version == network.version and address in network for network in networks)


def _embedded(address: Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that an IPv6 address stands for."""
    if isinstance(address, ipaddress.IPv4Address):
        return None
    if address.teredo:
        return address.teredo[1]
    number = int(address)
    if _is_in(address, _ENDS_IN_IPV4) or (number >> 32) & 0xFFFFFFFF in _ISATAP:
        return ipaddress.IPv4Address(number & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour


async def resolve(host: str, port: int) -> list[str]:
    """The addresses of a host, also of `127.1`, `0x7f000001` and other notations of the system.

    Raises OSError.
    """
    found = await in_thread(partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM))
    return list(dict.fromkeys(str(answer[4][0]) for answer in found))


async def read_numeric(host: str, port: int) -> list[str]:
    """The address that a host spells in numbers; [] for a name."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return []
    return [str(answer[4][0]) for answer in found]


class Sites(NamedTuple):
    """The user's rules. Each names a host and covers its subdomains, or is a glob of hosts."""

    allow: tuple[str, ...] = ()  # empty: every host
    deny: tuple[str, ...] = ()
    private: tuple[str, ...] = ()  # hosts that may have private addresses

    def check(self, host: str) -> None:
        """Raises Refused for a host that the rules exclude."""
        self.check_denied(host)
        if self.allow and not _covering(self.allow, host):
            raise Refused(
                f"{host} is not among the hosts of the setting web.allow", rule="web.allow"
            )

    def check_denied(self, host: str) -> None:
        """Raises Refused for a denied host or address."""
        if rule := _covering(self.deny, host):
            raise Refused(f"{host} is denied by the setting web.deny", rule=rule)

    def refuse_private(self, host: str, why: str) -> None:
        """Raises Refused, unless the user has named this host."""
        if not _covering(self.private, host):
            raise Refused(f"{host} {why}; the setting web.private_hosts can allow it")


def _covering(rules: Iterable[str], host: str) -> str:
    """The first rule that covers the host; "" without one."""
    return next((rule for rule in rules if _covers(rule, host)), "")


def _covers(rule: str, host: str) -> bool:
    return f".{host}".endswith(f".{_host(rule)}") or (
        "*" in rule and fnmatchcase(host, rule.lower())
    )


def _host(rule: str) -> str:
    """The host of a rule, which may also be `*.HOST`, `HOST:PORT` or a URL."""
    plain = rule.strip().removeprefix("*.").removeprefix(".")
    try:
        return host_of(URL(plain if "://" in plain else f"//{plain}")) or plain
    except InvalidURL:
        return plain


def host_of(url: URL) -> str:
    """The host in ASCII and small letters, without a dot at its end."""
    return url.raw_host.decode("ascii").rstrip(".")


def read_url(text: str, base: URL | None = None) -> URL:
    """The address that a text spells. Raises Refused."""
    try:
        url = URL(text.strip()) if base is None else base.join(text.strip())
    except (InvalidURL, ValueError) as error:
        # What a page redirects to is not quoted: errors are not marked as untrusted.
        raise Refused(
            f"this is no address of a page: {error}" if base is None else NO_TARGET
        ) from None
    return url.copy_with(fragment=None)


def check_url(url: URL, sites: Sites) -> None:
    """Raises Refused for an address that its text excludes."""
    host, port = host_of(url), url.port
    if url.scheme not in ("http", "https"):
        raise Refused(
            f"an address with the scheme {url.scheme!r} is not fetched; use http or https"
        )
    if not host or "%" in host:
        raise Refused("the address names no host of the internet")
    if url.userinfo:
        raise Refused("the address holds a user name or a password; leave them out")
    if port is not None and (
        str(port) in _OTHER_SERVICES or not (1024 <= port < 65536 or port in _WEB_PORTS)
    ):
        raise Refused(f"port {port} belongs to another service than the web")
    sites.check(host)
    is_bare = "." not in host and ":" not in host and not host.isdigit()
    if is_bare or _covering(_PRIVATE_NAMES, host):
        sites.refuse_private(host, "is a name of a private network")


async def checked_addresses(
    host: str, port: int, sites: Sites, find: Resolve = resolve
) -> Sequence[str]:
    """The addresses that a connection to the host may use. Raises FetchError.

    One private address among public ones refuses the host: a page is served by public ones alone.
    """
    try:
        addresses = await find(host, port)
    except OSError as error:
        raise FetchError(f"{host} cannot be resolved: {error.strerror or error}") from None
    except UnicodeError:
        raise Refused(
            "the address names no host: a part of its name is empty or longer than 63 characters"
        ) from None
    for address in addresses:
        sites.check_denied(address)
        if is_metadata(address):
            raise Refused(f"{host} leads to {address}, a metadata service")
        if not is_public(address):
            sites.refuse_private(host, f"leads to {address}, which is not public")
    return addresses
