"""A session's whole state as text that a fresh bash can take in."""

from __future__ import annotations

import os

from .lean import pattern
from .standing import is_closed_on_exec
from .tree import children

# Read-only, or set by bash itself: assigning them fails or means nothing in another process.
_NOT_CARRIED = frozenset(
    b"BASH BASHOPTS BASHPID BASH_ALIASES BASH_ARGC BASH_ARGV BASH_ARGV0 BASH_CMDS BASH_COMMAND "
    b"BASH_EXECUTION_STRING BASH_LINENO BASH_LOADABLES_PATH BASH_REMATCH BASH_SOURCE BASH_SUBSHELL BASH_VERSINFO "
    b"BASH_VERSION COMP_WORDBREAKS DIRSTACK EPOCHREALTIME EPOCHSECONDS EUID FUNCNAME GROUPS HERMETIC_COMMAND HISTCMD "
    b"HOSTTYPE LINENO MACHTYPE OSTYPE PIPESTATUS PPID PWD RANDOM SHELLOPTS SHLVL SRANDOM UID _".split()
)
_DOUBLE = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
_ANSI = rb"\$'[^'\\]*(?:\\.[^'\\]*)*'"
_ARRAY = rb"\((?:[^\"'()\\$]+|\\.|" + _DOUBLE + b"|" + _ANSI + rb"|\$)*\)"
_DECLARATION = pattern(
    rb"declare (-\S+) ([A-Za-z_]\w*)(?:=(?:" + _DOUBLE + b"|" + _ANSI + b"|" + _ARRAY + b"|[^\n]*))?\n", True
)


def reload_text(data: bytes, cwd: str) -> bytes:
    """What to source, from the answer to the order S: variables, NUL, all else in an order that can be replayed."""
    variables, _, rest = data.partition(b"\0")
    return quote_cd(cwd) + b"\n" + kept_declarations(variables)[1] + rest


def kept_declarations(variables: bytes) -> tuple[set[bytes], bytes]:
    """The names and the text of what can be declared again, from the output of `declare -p`."""
    kept = [
        found
        for found in _DECLARATION.finditer(variables)
        if found.group(2) not in _NOT_CARRIED and not found.group(2).startswith(b"__h")
    ]
    return {found.group(2) for found in kept}, b"".join(found.group(0) for found in kept)


def can_be_carried(pid: int) -> bool:
    """Jobs and descriptors of the user's cannot be. bash's own, besides 0 to 2, are closed on exec."""
    try:
        descriptors = [fd for fd in map(int, os.listdir("/proc/%d/fd" % pid)) if fd > 2]
        return not children(pid) and all(is_closed_on_exec(pid, fd) for fd in descriptors)
    except OSError:
        return False


def quote_cd(path: str) -> bytes:
    return b"builtin cd -- '" + os.fsencode(path).replace(b"'", b"'\\''") + b"'"
