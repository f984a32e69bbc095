"""The hosts that a program's words name."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from hermetic.policy.tables import names, regex

from .network import host_of
from .programs.table import TABLE

_URL = regex(r"^(?:[\w.:-]+=)?([A-Za-z][\w+.-]*://[^\s]+|(?i:https?|ftps?):/{1,4}[^\s/]\S*)")
_AT_HOST = regex(r"^[\w.-]+@([\w.-]+)(:.*)?$")
_HOST_PATH = regex(
    r"^([A-Za-z0-9][\w.-]*\.[A-Za-z]{2,}\.?|localhost\.?|\d+\.\d+\.\d+\.\d+)([:/].*)?$"
)
_HOST_VALUE = regex(r"^(?:[A-Za-z][\w+.-]*://)?(?:[^@/]*@)?(\[[^\]]+\]|[\w.-]+)(?::\d*)?(?:/.*)?$")
# Programs that take `HOST:PATH`; a path with a slash before the colon is none.
_COPIES = frozenset(names("git scp rsync sshfs mount tar gtar bsdtar"))
_HOST_COLON = regex(r"^((?:[A-Za-z0-9-]+\.)+[A-Za-z]{2,}\.?):(?!//)")
_MODULE = regex(r"^((?:[A-Za-z0-9-]+\.)+[A-Za-z]{2,})/")
_SHARE = regex(r"^[/\\]{2}([\w.-]+)[/\\]")
# `[ADDRESS:]PORT:HOST:PORT`, as -L and -R of ssh take it.
_FORWARD = regex(r"(?:\S*:)?\d+:(\[[^\]]+\]|[\w.-]+):\d+")
_PROXY_COMMAND = regex(r"(?i)ProxyCommand[ =](.*)")
# A connection as one word: `host=HOST dbname=NAME`, also behind a variable's name such as PGHOST.
_CONNECTION = regex(r"(?i)(?:^|[\s;])(?:host|hostaddr|server|data source)\s*=\s*([\w.-]+)")
_DATABASES = frozenset(names("psql pg_dump pg_restore pg_dumpall createdb dropdb sqlcmd"))
# Inline code of languages that are not followed to their connections.
_LOOSE = frozenset(names("perl php lua tclsh Rscript julia"))
_LOOSE_URL = regex(r"[A-Za-z][\w+.-]*://[^\s'\"<>()\\]+")
# Settings that name a proxy, as git -c and wget -e take them.
_PROXY = regex(
    r"(?i)(?:(?:https?|all|ftp)_proxy|(?:https?|remote)\.(?:.*\.)?proxy)[ \t]*=[ \t]*(\S+)"
)
# Addresses of socat that connect: hosts stand between their colons.
_SOCAT = regex(r"(?i)(?:tcp|udp|sctp|dccp|openssl|ssl|socks|proxy)[\w-]*:([^,\s]+)")
_HOST_PORT = regex(r"([A-Za-z0-9][\w.-]*|\[[0-9A-Fa-f:]+\]):\d+")
# An image's name that begins with a registry.
_REGISTRY = regex(r"((?:[A-Za-z0-9-]+\.)+[A-Za-z0-9-]+|localhost)(?::\d+)?(?:/\S*)?")
_ENGINES = frozenset(names("docker podman nerdctl buildah skopeo crane"))
_FETCHES = frozenset(names("pull push run create login from copy inspect search"))


def hosts_in(argv: tuple[str, ...]) -> list[str]:
    """Each host, in small letters and without the dot at its end."""
    found: list[str] = []
    name = argv[0].rsplit("/", 1)[-1] if argv else ""
    row = TABLE.row(name)
    reaches = row.has("reaches")
    found += _of_options(argv, frozenset(row.host.split()))
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
    found = [
        value
        for word in argv[1:]
        if (proxy := _PROXY.fullmatch(word))
        for value in [host_of(proxy[1])]
    ]
    if name == "openssl" and argv[1:2] in (("s_client",), ("s_time",)):
        found += [match[1] for word in argv[2:] if (match := _HOST_PORT.fullmatch(word))]
    if name in _COPIES:
        found += [match[1] for word in argv[1:] if (match := _HOST_COLON.match(word))]
    if name in ("smbclient", "mount", "mount.cifs"):
        found += [match[1] for word in argv[1:] if (match := _SHARE.match(word))]
    if name == "go" and argv[1:2] in (("get",), ("install",)):
        found += [match[1] for word in argv[2:] if (match := _MODULE.match(word))]
    if name in _DATABASES:
        found += [match[1] for word in argv[1:] for match in _CONNECTION.finditer(word)]
    if name in _LOOSE:
        found += [host_of(url) for word in argv[1:] for url in _LOOSE_URL.findall(word)]
    if name == "ssh":
        found += _of_ssh(argv)
    if name == "socat":
        found += [
            part
            for word in argv[1:]
            if (match := _SOCAT.match(word))
            for part in match[1].split(":")
        ]
    verbs = (
        [at for at, word in enumerate(argv[1:], 1) if word in _FETCHES] if name in _ENGINES else []
    )
    for word in argv[verbs[0] + 1 :] if verbs else ():
        if (match := _REGISTRY.fullmatch(word)) and ("/" in word or argv[verbs[0]] == "login"):
            found.append(match[1])
    return [host.strip("[]").lower().rstrip(".") for host in found]


def _of_ssh(argv: tuple[str, ...]) -> Iterator[str]:
    """Hosts behind a tunnel, and those of the program that makes the connection."""
    for word, following in itertools.pairwise((*argv[1:], "")):
        value = (
            following
            if word in ("-L", "-R", "-o")
            else word[2:]
            if word.startswith(("-L", "-R", "-o"))
            else ""
        )
        if match := _FORWARD.fullmatch(value):
            yield match[1]
        if match := _PROXY_COMMAND.match(value):
            yield from hosts_in(tuple(match[1].strip("'\"").split()))


def _of_options(argv: tuple[str, ...], options: frozenset[str]) -> list[str]:
    values = [following for word, following in itertools.pairwise(argv) if word in options]
    values += [
        word.partition("=")[2] for word in argv if "=" in word and word.partition("=")[0] in options
    ]
    short = tuple(option for option in options if len(option) == 2)
    values += (
        [word[2:] for word in argv[1:] if word.startswith(short) and len(word) > 2] if short else []
    )
    found = [_HOST_VALUE.match(part) for value in values for part in value.split(",")]
    return [match[1].strip("[]").lower().rstrip(".") for match in found if match]
