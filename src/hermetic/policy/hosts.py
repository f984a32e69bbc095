"""The hosts that a program's words name."""

from __future__ import annotations

import itertools
import re

from hermetic.policy.tables import names

from .network import host_of

_URL = re.compile(r"^(?:[\w-]+=)?([A-Za-z][\w+.-]*://[^\s]+)")
_AT_HOST = re.compile(r"^[\w.-]+@([\w.-]+)(:.*)?$")
_HOST_PATH = re.compile(r"^([A-Za-z0-9][\w.-]*\.[A-Za-z]{2,}\.?|localhost\.?|\d+\.\d+\.\d+\.\d+)([:/].*)?$")
_HOST_VALUE = re.compile(r"^(?:[A-Za-z][\w+.-]*://)?(?:[^@/]*@)?(\[[^\]]+\]|[\w.-]+)(?::\d*)?(?:/.*)?$")
# Programs whose bare operands name hosts.
_REACHES = frozenset(
    names(
        """
ssh scp sftp rsync nc ncat netcat telnet ftp ping curl wget dig host nslookup mosh traceroute socat http https
xh xhs aria2c axel lynx w3m links gnutls-cli websocat wscat grpcurl lftp curlie wget2 ab wrk hey tracepath mtr whois
"""
    )
)
# Options whose value is a host, perhaps with a port or as an address.
_HOST_OPTIONS: dict[str, str] = {
    "openssl": "-connect -host -proxy",
    "ssh": "-J -W",
    "scp": "-J",
    "sftp": "-J",
    "curl": "-x --proxy --preproxy --socks4 --socks4a --socks5 --socks5-hostname --doh-url",
    "psql": "-h --host",
    "pg_dump": "-h --host",
    "mysql": "-h --host",
    "mysqldump": "-h --host",
    "mariadb": "-h --host",
    "redis-cli": "-h",
    "mongosh": "--host",
    "ldapsearch": "-H -h",
    "nc": "-x",
    "ncat": "--proxy -x",
    "docker": "-H --host",
    "kubectl": "-s --server",
    "npm": "--registry",
    "pip": "-i --index-url --extra-index-url --proxy",
}


def hosts_in(argv: tuple[str, ...]) -> list[str]:
    """Each host, in small letters and without the dot at its end."""
    found: list[str] = []
    name = argv[0].rsplit("/", 1)[-1] if argv else ""
    reaches = name in _REACHES
    found += _of_options(argv, frozenset(_HOST_OPTIONS.get(name, "").split()))
    for word in argv[1:]:
        if (url := _URL.match(word)) and not url[1].startswith("file:"):
            found.append(host_of(url[1]))
        elif at := _AT_HOST.match(word):
            found.append(at[1].lower().rstrip("."))
        elif reaches and not word.startswith("-") and (named := _HOST_PATH.match(word)):
            found.append(named[1].lower().rstrip("."))
    return found


def _of_options(argv: tuple[str, ...], options: frozenset[str]) -> list[str]:
    values = [following for word, following in itertools.pairwise(argv) if word in options]
    values += [word.partition("=")[2] for word in argv if "=" in word and word.partition("=")[0] in options]
    found = [_HOST_VALUE.match(part) for value in values for part in value.split(",")]
    return [match[1].strip("[]").lower().rstrip(".") for match in found if match]
