"""A session's whole state as text that a fresh bash can take in."""

import os
import re

# Read-only or set by bash itself: assigning them fails or means nothing in another process.
_NOT_CARRIED = re.compile(
    rb"(?:BASHOPTS|BASHPID|BASH_ALIASES|BASH_ARGC|BASH_ARGV|BASH_ARGV0|BASH_CMDS|BASH_COMMAND|BASH_EXECUTION_STRING|BASH_LINENO|BASH_LOADABLES_PATH"
    rb"|BASH_REMATCH|BASH_SOURCE|BASH_SUBSHELL|BASH_VERSINFO|BASH_VERSION|COMP_WORDBREAKS|DIRSTACK|EPOCHREALTIME|EPOCHSECONDS|EUID|FUNCNAME"
    rb"|GROUPS|HISTCMD|HOSTTYPE|LINENO|MACHTYPE|OPTIND|OSTYPE|PIPESTATUS|PPID|PWD|RANDOM|SECONDS|SHELLOPTS|SHLVL|SRANDOM|UID|_|__h\w*)"
)
_DECLARATION = re.compile(rb"declare (-\S+) ([A-Za-z_]\w*)")


def reload_text(data, cwd):
    """What to source. Each part stands alone: one that fails loses itself and nothing behind it."""
    kept = []
    for line in _declarations(data):
        found = _DECLARATION.match(line)
        if found is None or b"f" in found.group(1):
            kept.append(line)
        elif not _NOT_CARRIED.fullmatch(found.group(2)):
            kept.append(line)
    return b"\n".join([b"builtin cd -- '" + os.fsencode(cwd).replace(b"'", b"'\\''") + b"'"] + kept) + b"\n"


def _declarations(data):
    """Lines of `declare -p` and what follows it, a value's own newlines kept with their declaration.

    bash prints newlines inside values and functions as they are, so a line belongs to the one before it unless that one is complete.
    """
    at, lines = 0, data.split(b"\n")
    while at < len(lines):
        line = lines[at]
        at += 1
        while not _is_complete(line) and at < len(lines):
            line += b"\n" + lines[at]
            at += 1
        yield line


def _is_complete(line):
    """Whether the quotes of a declaration are closed. Functions and everything else are passed on line by line."""
    if not line.startswith(b"declare -"):
        return True
    quote, skip = None, False
    previous = b""
    for byte in (line[i:i + 1] for i in range(len(line))):
        if skip:
            skip = False
        elif quote is None:
            if byte == b'"':
                quote = b'"'
            elif byte == b"'":
                quote = b"$'" if previous == b"$" else b"'"
        elif byte == b"\\" and quote != b"'":
            skip = True
        elif byte == quote[-1:]:
            quote = None
        previous = byte
    return quote is None
