"""The hosts that a program's words name."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

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
    name, words = argv[0].rsplit("/", 1)[-1] if argv else "", argv[1:]
    row = TABLE.row(name)
    found = [*_of_options(argv, frozenset(row.host.split())), *_of_operands(name, words)]
    for word in words:
        if (url := _URL.match(word)) and not url[1].startswith("file:"):
            found.append(host_of(url[1]))
        elif at := _AT_HOST.match(word):
            found.append(at[1])
        elif row.has("reaches") and not word.startswith("-") and (named := _HOST_PATH.match(word)):
            found.append(named[1])
    return [host.strip("[]").lower().rstrip(".") for host in found]


def _of_operands(name: str, words: tuple[str, ...]) -> Iterator[str]:
    """Hosts in operands that only some programs take for addresses, and in settings of a proxy."""
    yield from map(host_of, _matches(_PROXY, words, whole=True))
    if name == "openssl" and words[:1] in (("s_client",), ("s_time",)):
        yield from _matches(_HOST_PORT, words[1:], whole=True)
    if name in _COPIES:
        yield from _matches(_HOST_COLON, words)
    if name in ("smbclient", "mount", "mount.cifs"):
        yield from _matches(_SHARE, words)
    if name == "go" and words[:1] in (("get",), ("install",)):
        yield from _matches(_MODULE, words[1:])
    if name in _DATABASES:
        yield from (host for word in words for host in _CONNECTION.findall(word))
    if name in _LOOSE:
        yield from (host_of(url) for word in words for url in _LOOSE_URL.findall(word))
    if name == "ssh":
        yield from _of_ssh(words)
    if name == "socat":
        yield from (part for one in _matches(_SOCAT, words) for part in one.split(":"))
    fetches = [at for at, word in enumerate(words) if word in _FETCHES and name in _ENGINES]
    for at in fetches[:1]:
        images = [word for word in words[at + 1 :] if "/" in word or words[at] == "login"]
        yield from _matches(_REGISTRY, images, whole=True)


def _matches(
    pattern: re.Pattern[str], words: Sequence[str], *, whole: bool = False
) -> Iterator[str]:
    """The first group of each word that matches."""
    for word in words:
        if match := (pattern.fullmatch if whole else pattern.match)(word):
            yield match[1]


def _of_ssh(words: tuple[str, ...]) -> Iterator[str]:
    """Hosts behind a tunnel, and those of the program that makes the connection."""
    values = [word[2:] for word in words if word.startswith(("-L", "-R", "-o"))]
    values += [value for word, value in itertools.pairwise(words) if word in ("-L", "-R", "-o")]
    yield from _matches(_FORWARD, values, whole=True)
    for command in _matches(_PROXY_COMMAND, values):
        yield from hosts_in(tuple(command.strip("'\"").split()))


def _of_options(argv: tuple[str, ...], options: frozenset[str]) -> Iterator[str]:
    values = [following for word, following in itertools.pairwise(argv) if word in options]
    for word in argv:
        name, equals, value = word.partition("=")
        values += [value] if equals and name in options else []
        values += [word[2:]] if word[:2] in options and len(word) > 2 else []
    return _matches(_HOST_VALUE, [part for value in values for part in value.split(",")])
