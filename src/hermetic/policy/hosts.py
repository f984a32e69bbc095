"""The hosts that a program's words name."""

from __future__ import annotations

import re

from hermetic.policy.tables import names

from .network import host_of

_URL = re.compile(r"^(?:[\w-]+=)?([A-Za-z][\w+.-]*://[^\s]+)")
_AT_HOST = re.compile(r"^[\w.-]+@([\w.-]+)(:.*)?$")
_HOST_PATH = re.compile(r"^([A-Za-z0-9][\w.-]*\.[A-Za-z]{2,}|localhost|\d+\.\d+\.\d+\.\d+)([:/].*)?$")
# Programs whose bare operands name hosts.
_REACHES = frozenset(
    names(
        """
ssh scp sftp rsync nc ncat netcat telnet ftp ping curl wget dig host nslookup mosh traceroute socat http https
"""
    )
)


def hosts_in(argv: tuple[str, ...]) -> list[str]:
    """Each host, in small letters."""
    found: list[str] = []
    reaches = argv[0].rsplit("/", 1)[-1] in _REACHES if argv else False
    for word in argv[1:]:
        if (url := _URL.match(word)) and not url[1].startswith("file:"):
            found.append(host_of(url[1]))
        elif at := _AT_HOST.match(word):
            found.append(at[1].lower())
        elif reaches and not word.startswith("-") and (named := _HOST_PATH.match(word)):
            found.append(named[1].lower())
    return found
