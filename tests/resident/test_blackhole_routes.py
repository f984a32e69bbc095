"""Fences are put up in a network of one's own, and nowhere else; each test has one that nobody else
uses.
"""

import subprocess
import sys
import textwrap

from hermetic.resident.life.blackhole_routes import AddressRange, neighbours, only
from tests.programs import need, need_root

SETUP = """
    import os, socket, struct, subprocess, sys
    from hermetic.resident.life import blackhole_routes as fences
    def ip(*words): subprocess.run(["ip", *words], check=True)
    ip("link", "add", "one", "type", "veth", "peer", "name", "two")
    ip("addr", "add", "10.9.0.2/16", "dev", "one")
    ip("-6", "addr", "add", "fd99::2/64", "dev", "one", "nodad")
    ip("link", "set", "one", "up")
    ip("link", "set", "two", "up")
    ip("link", "set", "lo", "up")
    ip("route", "add", "default", "via", "10.9.0.1")
    def leads(address):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as stream:
            try:
                stream.connect((address, 9))
            except OSError as error:
                return error.strerror
            return "somewhere"
"""


def alone(code: str) -> list[str]:
    """What Python code says in a network of its own, where nothing can get new privileges."""
    need("ip")
    need_root("only root makes a network of its own")
    unshare, setpriv = need("unshare"), need("setpriv")
    words = [
        unshare,
        "--net",
        setpriv,
        "--no-new-privs",
        sys.executable,
        "-c",
        textwrap.dedent(SETUP + code),
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_metadata_and_neighbours_lead_nowhere_and_all_else_does() -> None:
    said = alone("""
    fences.resolvers = lambda: []
    print(leads("10.9.3.4"), leads("fd99::3"), leads("169.254.169.254"))
    fences.put_up(["metadata", "neighbours"], 1)
    for address in ("10.9.0.1", "10.9.200.1", "fd99::3", "169.254.169.254", "fd00:ec2::254", "192.0.2.1", "10.9.0.2"):
        print(leads(address))
    """)
    assert said == [
        "somewhere somewhere somewhere",
        *["No route to host"] * 5,
        "somewhere",
        "somewhere",
    ]


def test_metadata_alone_leaves_the_neighbours() -> None:
    said = alone("""
    fences.put_up(["metadata"], 1)
    print(leads("10.9.0.1"), leads("100.100.100.200"))
    """)
    assert said == ["somewhere No route to host"]


def test_a_resolver_among_the_neighbours_stays() -> None:
    said = alone("""
    fences.resolvers = lambda: ["10.9.0.1", "192.0.2.53"]
    fences.put_up(["neighbours"], 1)
    print(leads("10.9.0.1"), leads("10.9.0.3"))
    """)
    assert said == ["somewhere No route to host"]


def test_the_starters_own_network_is_left_alone() -> None:
    said = alone("""
    try:
        fences.put_up(["metadata", "neighbours"], os.stat("/proc/self/ns/net").st_ino)
    except fences.Unfenced as error:
        print(error)
    print(leads("10.9.0.1"))
    """)
    assert said == ["this environment shares its starter's network", "somewhere"]


def test_the_right_is_given_up_for_good() -> None:
    said = alone("""
    fences.put_up(["metadata"], 1)
    print(subprocess.run(["ip", "route", "del", "unreachable", "169.254.169.254"], capture_output=True).returncode != 0)
    print(leads("169.254.169.254"))
    """)
    assert said == ["True", "No route to host"]


def test_two_halves_are_the_whole() -> None:
    for text, length in (("172.17.0.0", 16), ("10.0.0.0", 8), ("192.168.1.4", 31), ("fd00::", 64)):
        whole = AddressRange(only(text).family, only(text).address, length)
        first, second = whole.halves()
        assert first.address == whole.address != second.address
        assert first.length == second.length == length + 1
        assert whole.holds(first)
        assert whole.holds(second)
        assert not first.holds(second)


def test_a_device_is_named_with_each_neighbourhood() -> None:
    assert all(device and 0 < span.length < 128 for device, span in neighbours())
