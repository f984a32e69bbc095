"""A session's whole state as text that a fresh bash can take in."""

import os
import re

# Read-only, or set by bash itself: assigning them fails or means nothing in another process.
_NOT_CARRIED = frozenset(
    b"BASH BASHOPTS BASHPID BASH_ALIASES BASH_ARGC BASH_ARGV BASH_ARGV0 BASH_CMDS BASH_COMMAND BASH_EXECUTION_STRING BASH_LINENO "
    b"BASH_LOADABLES_PATH BASH_REMATCH BASH_SOURCE BASH_SUBSHELL BASH_VERSINFO BASH_VERSION COMP_WORDBREAKS DIRSTACK EPOCHREALTIME "
    b"EPOCHSECONDS EUID FUNCNAME GROUPS HISTCMD HOSTTYPE LINENO MACHTYPE OSTYPE PIPESTATUS PPID PWD RANDOM SHELLOPTS SHLVL SRANDOM "
    b"UID _".split()
)
_DOUBLE = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
_ANSI = rb"\$'[^'\\]*(?:\\.[^'\\]*)*'"
_ARRAY = rb"\((?:[^\"'()\\$]+|\\.|" + _DOUBLE + b"|" + _ANSI + rb"|\$)*\)"
_DECLARATION = re.compile(
    rb"declare (-\S+) ([A-Za-z_]\w*)(?:=(?:" + _DOUBLE + b"|" + _ANSI + b"|" + _ARRAY + b"|[^\n]*))?\n", re.DOTALL
)


def reload_text(data, cwd):
    """What to source, from the answer to the order S: variables, NUL, everything else in an order that can be replayed."""
    variables, _, rest = data.partition(b"\0")
    kept = [
        found.group(0) for found in _DECLARATION.finditer(variables)
        if found.group(2) not in _NOT_CARRIED and not found.group(2).startswith(b"__h")
    ]
    return quote_cd(cwd) + b"\n" + b"".join(kept) + rest


def quote_cd(path):
    return b"builtin cd -- '" + os.fsencode(path).replace(b"'", b"'\\''") + b"'"
