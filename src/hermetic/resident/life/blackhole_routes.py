"""Blackhole routes: addresses that no process in an isolated network reaches. They are set before
anything runs.

The capability to change routes is dropped at once, so later processes cannot remove them.
"""

from __future__ import annotations

import _socket
import os
import struct

from .fast_stdlib import ctypes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# Metadata services, which hand out a cloud machine's credentials. DNS resolvers at nearby addresses
# are not included.
METADATA = (
    "169.254.169.254",
    "169.254.170.2",
    "169.254.170.23",
    "100.100.100.200",
    "fd00:ec2::254",
)

CAP_NET_ADMIN = 12
CAPABILITY_VERSION = 0x20080522
NEW_ROUTE, NEW_ROUTE_FLAGS = 24, 0x1 | 0x4 | 0x400 | 0x100  # request, acknowledge, create, replace
UNICAST, UNREACHABLE = 1, 7
DESTINATION, DEVICE = 1, 4
MAIN_TABLE, STATIC, ANYWHERE, ON_LINK = 254, 4, 0, 253
ROUTE_HEADER = 16  # bytes


class Unfenced(Exception):
    """The routes cannot be set here."""


class AddressRange:
    """A range of addresses."""

    def __init__(self, family: int, address: bytes, length: int) -> None:
        self.family, self.address, self.length = family, address, length

    def halves(self) -> Iterator[AddressRange]:
        """The two halves of the range, which take precedence over it in a routing table."""
        bits = 8 * len(self.address)
        first = int.from_bytes(self.address, "big")
        for half in (first, first | 1 << bits - self.length - 1):
            yield AddressRange(
                self.family, half.to_bytes(len(self.address), "big"), self.length + 1
            )

    def holds(self, other: AddressRange) -> bool:
        shift = 8 * len(self.address) - self.length
        one, two = (int.from_bytes(span.address, "big") >> shift for span in (self, other))
        return self.family == other.family and one == two


def put_up(kinds: list[str], outside: int) -> None:
    """Sets the routes. Raises Unfenced if one cannot be set; then nothing may run here.

    `outside` is the inode of the starter's network namespace, which is never changed.
    """
    if ctypes is None:
        raise Unfenced("no ctypes here: the right to change routes could not be given up")
    try:
        if os.stat("/proc/self/ns/net").st_ino == outside:
            raise Unfenced("this environment shares its starter's network")
        with open("/proc/self/status") as status:
            if "NoNewPrivs:\t1" not in status.read():
                raise Unfenced("what runs here could get the right to change routes again")
        near = neighbours()
        kernel = _socket.socket(_socket.AF_NETLINK, _socket.SOCK_RAW | _socket.SOCK_CLOEXEC, 0)
        try:
            has_six = any(span.family == _socket.AF_INET6 for _, span in near)
            for span in map(only, METADATA if "metadata" in kinds else ()):
                if span.family == _socket.AF_INET or has_six:
                    change(kernel, span, UNREACHABLE)
            for device, span in near if "neighbours" in kinds else ():
                for half in span.halves():
                    change(kernel, half, UNREACHABLE)
                for resolver in filter(span.holds, map(only, resolvers())):
                    change(kernel, resolver, UNICAST, _socket.if_nametoindex(device))
        finally:
            kernel.close()
    finally:
        give_up_right()


def only(address: str) -> AddressRange:
    family = _socket.AF_INET6 if ":" in address else _socket.AF_INET
    packed = _socket.inet_pton(family, address)
    return AddressRange(family, packed, 8 * len(packed))


def neighbours() -> list[tuple[str, AddressRange]]:
    """Ranges that are reached without a gateway, each with its device."""
    found = []
    with open("/proc/net/route") as routes:
        for line in list(routes)[1:]:
            device, address, gateway, _, _, _, _, mask = line.split()[:8]
            length = bin(int(mask, 16)).count("1")
            if gateway == "00000000" and 0 < length < 32:
                found.append(
                    (
                        device,
                        AddressRange(_socket.AF_INET, struct.pack("=I", int(address, 16)), length),
                    )
                )
    try:
        with open("/proc/net/ipv6_route") as routes:
            lines = [line.split() for line in routes]
    except FileNotFoundError:
        lines = []
    for fields in lines:
        address, length, device = fields[0], int(fields[1], 16), fields[9]
        is_near = fields[4] == "0" * 32 and not address.startswith(("fe8", "ff")) and device != "lo"
        if is_near and 0 < length < 128:
            found.append((device, AddressRange(_socket.AF_INET6, bytes.fromhex(address), length)))
    return found


def resolvers() -> list[str]:
    """DNS resolvers. A resolver among the neighbours stays reachable."""
    try:
        with open("/etc/resolv.conf") as settings:
            words = [line.split() for line in settings]
    except OSError:
        return []
    return [
        line[1]
        for line in words
        if line[:1] == ["nameserver"] and len(line) > 1 and "%" not in line[1]
    ]


def change(
    kernel: _socket.socket, span: AddressRange, kind: int, device: int | None = None
) -> None:
    """Sets one route. Raises Unfenced."""
    scope = ANYWHERE if device is None else ON_LINK
    route = struct.pack(
        "=BBBBBBBBI", span.family, span.length, 0, 0, MAIN_TABLE, STATIC, scope, kind, 0
    )
    route += struct.pack("=HH", 4 + len(span.address), DESTINATION) + span.address
    if device is not None:
        route += struct.pack("=HHI", 8, DEVICE, device)
    kernel.send(
        struct.pack("=IHHII", ROUTE_HEADER + len(route), NEW_ROUTE, NEW_ROUTE_FLAGS, 1, 0) + route
    )
    (refusal,) = struct.unpack_from("=i", kernel.recv(4096), ROUTE_HEADER)
    if refusal:
        raise Unfenced("a route could not be made: %s" % os.strerror(-refusal))


def give_up_right() -> None:
    """Drops CAP_NET_ADMIN for us and, under no-new-privileges, for all that we start.

    Raises Unfenced.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    header, sets = struct.pack("=Ii", CAPABILITY_VERSION, 0), ctypes.create_string_buffer(24)
    if libc.capget(header, sets):
        raise Unfenced("capget: %s" % os.strerror(ctypes.get_errno()))
    kept = [
        word & ~(1 << CAP_NET_ADMIN) if at < 3 else word
        for at, word in enumerate(struct.unpack("=6I", sets.raw))
    ]
    if libc.capset(header, struct.pack("=6I", *kept)):
        raise Unfenced("capset: %s" % os.strerror(ctypes.get_errno()))
