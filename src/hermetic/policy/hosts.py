"""The hosts that a program's words name."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from hermetic.policy.tables import regex

from .network import host_of
from .programs.table import TABLE, pattern

_URL = regex(r"^(?:[\w.:-]+=)?([A-Za-z][\w+.-]*://[^\s]+|(?i:https?|ftps?):/{1,4}[^\s/]\S*)")
_AT_HOST = regex(r"^[\w.-]+@([\w.-]+)(:.*)?$")
_HOST_PATH = regex(
    r"^([A-Za-z0-9][\w.-]*\.[A-Za-z]{2,}\.?|localhost\.?|\d+\.\d+\.\d+\.\d+)([:/].*)?$"
)
_HOST_VALUE = regex(r"^(?:[A-Za-z][\w+.-]*://)?(?:[^@/]*@)?(\[[^\]]+\]|[\w.-]+)(?::\d*)?(?:/.*)?$")
_PROXY_COMMAND = regex(r"(?i)(?:-o)?ProxyCommand[ =](.*)")
# Settings that name a proxy, as git -c and wget -e take them.
_PROXY = regex(
    r"(?i)(?:(?:https?|all|ftp)_proxy|(?:https?|remote)\.(?:.*\.)?proxy)[ \t]*=[ \t]*(\S+)"
)


def hosts_in(argv: tuple[str, ...]) -> list[str]:
    """Each host, in small letters and without the dot at its end."""
    name, words = argv[0].rsplit("/", 1)[-1] if argv else "", argv[1:]
    row = TABLE.row(name)
    found = list(_of_options(argv, frozenset(row.host.split())))
    for verb, shape in row.addresses:
        behind = [at + 1 for at, word in enumerate(words) if pattern(verb).fullmatch(word)]
        for word in words[behind[0] if behind else 0 :] if behind or not verb else ():
            found += map(host_of, pattern(shape).findall(word))
    for word in words:
        if (url := _URL.match(word)) and not url[1].startswith("file:"):
            found.append(host_of(url[1]))
        elif at := _AT_HOST.match(word):
            found.append(at[1])
        elif row.has("reaches") and not word.startswith("-") and (named := _HOST_PATH.match(word)):
            found.append(named[1])
        if proxy := _PROXY.fullmatch(word):
            found.append(host_of(proxy[1]))
        if command := _PROXY_COMMAND.match(word):
            found += hosts_in(tuple(command[1].strip("'\"").split()))
    return [host.strip("[]").lower().rstrip(".") for host in found]


def _of_options(argv: tuple[str, ...], options: frozenset[str]) -> Iterator[str]:
    values = [following for word, following in itertools.pairwise(argv) if word in options]
    for word in argv:
        name, equals, value = word.partition("=")
        values += [value] if equals and name in options else []
        values += [word[2:]] if word[:2] in options and len(word) > 2 else []
    for part in ",".join(values).split(","):
        if match := _HOST_VALUE.match(part):
            yield match[1]
