"""Servers of files: a directory offered to every client."""

from __future__ import annotations

import itertools
import re

from hermetic.policy.call import Call
from hermetic.policy.paths import is_secret
from hermetic.policy.tables import regex

_HARMLESS = regex(
    r"(^|\s)(-t|-T|-V|-v|-h|-G|--help|--version|--test|status|info|list\w*|peers)(\s|$)"
)
# Options that name the directory which servers inside other programs offer.
_INSIDE = {"python": ("-d", "--directory"), "php": ("-t",), "git-daemon": ("--base-path",)}


def judge_server(call: Call) -> None:
    """serve, http-server, caddy, httpd …: what an option names, the first operand, or the current
    directory.
    """
    if call.name == "caddy" and call.args[:1] != ["file-server"]:
        return
    if not _HARMLESS.search(" ".join(call.args)) or call.row.serves:
        options = tuple(
            f"-{name}" if len(name) == 1 else f"--{name}" for name in call.row.serves.split()
        )
        check_served(call, served(call.args, options))


def served(args: list[str], options: tuple[str, ...]) -> str:
    """The directory a server offers by its options or its first operand; the current one without."""
    for flag, value in itertools.pairwise([*args, ""]):
        name, equals, glued = flag.partition("=")
        if name in options:
            return glued if equals else value
    words = [
        arg
        for arg in args
        if not arg.startswith("-") and not re.fullmatch(r"[\w.:\[\]]*:?\d+", arg)
    ]
    return next(
        (word for word in words if word not in ("file-server", "web", "serve", "http")), "."
    )


def check_served(call: Call, directory: str) -> None:
    """Report a directory that holds credentials, or everything a person has."""
    full, place = call.place(directory)
    if place in ("home", "root", "startup", "system", "history", "unknown") or is_secret(
        full, call.shell
    ):
        call.report("serve-files", f"offers files to whoever connects: {directory}", full)


def serve_with(name: str, call: Call, args: list[str]) -> None:
    """Judge that a program serves a directory in the way the named server does."""
    check_served(call, served(args, _INSIDE[name]))
