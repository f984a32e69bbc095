"""A session's whole state as text that a fresh bash can source."""

from __future__ import annotations

import os

from ..life.fast_stdlib import pattern
from ..processes.tree import children
from .orders import LIMITS, quote
from .proc_state import is_closed_on_exec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .reports import StateReport

# Read-only or set by bash itself: an assignment fails or has no meaning in another process.
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
    rb"declare -(\S+) ([A-Za-z_]\w*)(=(?:" + _DOUBLE + b"|" + _ANSI + b"|" + _ARRAY + b"))?\n",
    True,
)
# bash before 5.2 prints the names of completed commands as they are: those lines are left out.
_WORD = rb"(?:[\w%+,./:=@^-]|'[^']*'|\\'|" + _ANSI + b")+"
_COMPLETION = pattern(rb"complete(?: " + _WORD + rb")+\n", True)

_ALIAS = pattern(rb"(?:alias (?:-- )?[^\s=]+=(?:'[^']*'|\\')*\n)*", True)
_FUNCTION_NAMES = pattern(rb"(?:declare -f[a-z]* \S+\n)*")
_UMASK = pattern(rb"[0-7]{3,4}\n")
_LIMIT = pattern(rb"unlimited|[0-9]+")
_OPTION = pattern(rb"([a-z0-9_]+)[ \t]+(?:on|off)")


def reload_text(report: StateReport, cwd: str) -> bytes | None:
    """The text to source in a fresh bash; None if the report is not what bash prints."""
    try:
        traps = [b"trap -- %s %s" % (quote(body), name) for name, body in report.traps.items()]
        return cd_command(cwd) + b"\n" + _state_text(report.text, report.disabled, traps)
    except (ValueError, IndexError):
        return None


def _state_text(data: bytes, disabled: list[bytes], traps: list[bytes]) -> bytes:
    """A state, from the output of `STATE`.

    Raises ValueError or IndexError for anything that bash does not print.
    """
    sections = data.split(b"\0")
    variables, functions, aliases, names, umask, limits = sections[:6]
    directories = sections[6 : sections.index(b"", 6)]
    rest = sections[6 + len(directories) + 1 :]
    count = int(rest[0])
    arguments, (completions, options, shopts, shopt) = rest[1 : count + 1], rest[count + 1 :]
    if not (
        _ALIAS.fullmatch(aliases) and _FUNCTION_NAMES.fullmatch(names) and _UMASK.fullmatch(umask)
    ):
        raise ValueError("not what bash prints")
    lines = [*names.splitlines(), b"umask " + umask.strip(), *disabled]
    lines += [b"pushd -n " + quote(path) for path in reversed(directories)]
    lines += [b"set -- " + b" ".join(map(quote, arguments))]
    lines += _limits(limits.split()) + _shell_options(shopt, shopts.split(b":"))
    lines += [b"set -o " + name for name in options.split(b":") if name not in _OF_STARTING]
    # Functions may shadow builtins, so they follow everything that does without `builtin`. They may
    # hold patterns that are a syntax error without extglob.
    text = _declarations(variables) + aliases + _completions(completions)
    text += b"shopt -s extglob\n" + functions
    lines += [*traps, b":"]  # the last one tells that all of it could be read
    return text + b"".join(b"builtin %s\n" % line for line in lines)


# Options that depend on how a shell was started.
_OF_STARTING = frozenset(b"interactive-comments hashall braceexpand".split())


def _limits(values: list[bytes]) -> list[bytes]:
    if len(values) != 2 * len(LIMITS) or not all(map(_LIMIT.fullmatch, values)):
        raise ValueError("not limits")
    names = [b"ulimit -%c -%c " % (kind, letter) for letter in LIMITS for kind in b"SH"]
    return [name + values[at] for at, name in enumerate(names)]


def _shell_options(listed: bytes, switched_on: list[bytes]) -> list[bytes]:
    """`shopt` lists every name. The options that were on before the report are in BASHOPTS."""
    found = [_OPTION.fullmatch(line) for line in listed.splitlines()]
    if not all(found):
        raise ValueError("not options")
    names = [
        line.group(1)
        for line in found
        if line is not None and not line.group(1).endswith(b"_shell")
    ]
    return [b"shopt -%s %s" % (b"s" if name in switched_on else b"u", name) for name in names]


def _declarations(variables: bytes) -> bytes:
    """The declarations that can be repeated, from `declare -p`.

    Raises ValueError for anything else.
    """
    kept = []
    at = 0
    while at < len(variables):
        found = _DECLARATION.match(variables, at)
        if found is None:
            raise ValueError("not what declare prints")
        at = found.end()
        flags, name, value = found.groups()
        if name in _NOT_CARRIED or name.startswith(b"__h"):
            continue
        if value and b"i" in flags:
            # A value that was there before the attribute may be no number: bash would evaluate it,
            # and run a command in a subscript.
            kind = flags.translate(None, b"irxtulc") or b"-"
            kept.append(b"declare -%s %s%s\n" % (kind, name, value))
            kept.append(b"" if b"n" in flags else b"declare -%s %s\n" % (flags, name))
        else:
            kept.append(found.group(0))
    return b"".join(kept)


def shortened(definitions: bytes, limit: int) -> bytes:
    """Definitions without their longest values, where they are longer than the limit: a variable
    without a value counts as unknown.
    """
    variables, end, rest = definitions.partition(b"\0")
    for most in (4096, 256, 0):
        if len(variables) + len(end) + len(rest) <= limit:
            break
        kept, at = [], 0
        while (found := _DECLARATION.match(variables, at)) is not None:
            at = found.end()
            flags, name, value = found.groups()
            if not value or len(value) <= most:
                kept.append(found.group(0))
            elif b"A" not in flags:  # without a value, an associative array is an empty one
                kept.append(b"declare -%s %s\n" % (flags, name))
        variables = b"".join(kept) + variables[at:]
    return variables + end + rest


def _completions(printed: bytes) -> bytes:
    """The completions that can be repeated, from `complete -p`."""
    kept, at = [], 0
    while at < len(printed):
        found = _COMPLETION.match(printed, at)
        if found is not None:
            kept.append(found.group(0))
        at = found.end() if found is not None else printed.find(b"\n", at) + 1 or len(printed)
    return b"".join(kept)


def can_move(pid: int) -> bool:
    """Whether a shell can be moved: it has no jobs and no descriptors of the user's. bash's own are
    close-on-exec.
    """
    try:
        descriptors = [fd for fd in map(int, os.listdir("/proc/%d/fd" % pid)) if fd > 2]
        return not children(pid) and all(is_closed_on_exec(pid, fd) for fd in descriptors)
    except OSError:
        return False


def cd_command(path: str) -> bytes:
    return b"\\builtin cd -- " + quote(os.fsencode(path))
