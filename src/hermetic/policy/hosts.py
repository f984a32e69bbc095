"""The hosts that a program's words name."""

from __future__ import annotations

import itertools
import re

from hermetic.policy.tables import names

from .network import host_of

_URL = re.compile(r"^(?:[\w.-]+=)?([A-Za-z][\w+.-]*://[^\s]+|(?i:https?|ftps?):/{1,4}[^\s/]\S*)")
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
# Settings that name a proxy, as git -c and wget -e take them.
_PROXY = re.compile(r"(?i)(?:(?:https?|all|ftp)_proxy|(?:https?|remote)\.(?:.*\.)?proxy)[ \t]*=[ \t]*(\S+)")
# Addresses of socat that connect: hosts stand between their colons.
_SOCAT = re.compile(r"(?i)(?:tcp|udp|sctp|dccp|openssl|ssl|socks|proxy)[\w-]*:([^,\s]+)")
_HOST_PORT = re.compile(r"([A-Za-z0-9][\w.-]*|\[[0-9A-Fa-f:]+\]):\d+")
# An image's name that begins with a registry.
_REGISTRY = re.compile(r"((?:[A-Za-z0-9-]+\.)+[A-Za-z0-9-]+|localhost)(?::\d+)?(?:/\S*)?")
_ENGINES = frozenset(names("docker podman nerdctl buildah skopeo crane"))
_FETCHES = frozenset(names("pull push run create login from copy inspect search"))


def hosts_in(argv: tuple[str, ...]) -> list[str]:
    """Each host, in small letters and without the dot at its end."""
    found: list[str] = []
    name = argv[0].rsplit("/", 1)[-1] if argv else ""
    reaches = name in _REACHES
    found += _of_options(argv, frozenset(_HOST_OPTIONS.get(name, "").split()))
    found += _of_operands(name, argv)
    for word in argv[1:]:
        if (url := _URL.match(word)) and not url[1].startswith("file:"):
            found.append(host_of(url[1]))
        elif at := _AT_HOST.match(word):
            found.append(at[1].lower().rstrip("."))
        elif reaches and not word.startswith("-") and (named := _HOST_PATH.match(word)):
            found.append(named[1].lower().rstrip("."))
    return found


def _of_operands(name: str, argv: tuple[str, ...]) -> list[str]:
    """Hosts in operands that only some programs take for addresses, and in settings of a proxy."""
    found = [value for word in argv[1:] if (proxy := _PROXY.fullmatch(word)) for value in [host_of(proxy[1])]]
    if name == "openssl" and argv[1:2] in (("s_client",), ("s_time",)):
        found += [match[1] for word in argv[2:] if (match := _HOST_PORT.fullmatch(word))]
    if name == "socat":
        found += [part for word in argv[1:] if (match := _SOCAT.match(word)) for part in match[1].split(":")]
    verbs = [at for at, word in enumerate(argv[1:], 1) if word in _FETCHES] if name in _ENGINES else []
    for word in argv[verbs[0] + 1 :] if verbs else ():
        if (match := _REGISTRY.fullmatch(word)) and ("/" in word or argv[verbs[0]] == "login"):
            found.append(match[1])
    return [host.strip("[]").lower().rstrip(".") for host in found]


def _of_options(argv: tuple[str, ...], options: frozenset[str]) -> list[str]:
    values = [following for word, following in itertools.pairwise(argv) if word in options]
    values += [word.partition("=")[2] for word in argv if "=" in word and word.partition("=")[0] in options]
    short = tuple(option for option in options if len(option) == 2)
    values += [word[2:] for word in argv[1:] if word.startswith(short) and len(word) > 2] if short else []
    found = [_HOST_VALUE.match(part) for value in values for part in value.split(",")]
    return [match[1].strip("[]").lower().rstrip(".") for match in found if match]
