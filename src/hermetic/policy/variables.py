"""Variables that make other programs run something, load something, or trust another source."""

from __future__ import annotations

import re
from functools import lru_cache

from hermetic.policy.tables import names, regex

from .call import Call, program_name
from .marks import is_known, shown
from .network import check_address, host_of, is_local
from .programs.table import TABLE, Entry, alternatives, pattern

_COMMANDS = frozenset(TABLE.words("command-variables"))
_FORGES = TABLE.words("forges")
_KNOWN = "|".join((*TABLE.words("registries"), *map(re.escape, _FORGES)))
_REGISTRY = regex(rf"https?://([^/@\s]*@)?([\w-]+\.)*({_KNOWN})(?=[^\w.-]|$)")
_TRUST, _SERVER = map(alternatives, ("trust-variables", "server-variables"))
SESSION_ARRAY = "__h"  # holds what a session's shell evaluates next
# Values of these count only where a command stands in them.
_TEXTS = names("PS1 PS2 PROMPT RPROMPT TAR_OPTIONS MAILPATH CC CXX RUSTC")
_INTERPRETERS = names("sh bash zsh python python3 perl ruby node curl wget nc")


def is_known_registry(url: str) -> bool:
    """True for a package registry or a forge everybody uses, or one on this machine."""
    return bool(_REGISTRY.match(url)) or is_local(url)


def is_foreign(url: str) -> bool:
    """True for a repository's address that is at none of the hosts everybody uses."""
    is_address = "://" in url and not url.startswith("file:")
    return is_address and not is_local(url) and not host_of(url).endswith(_FORGES)


def import_function(call: Call, name: str, value: str) -> Call:
    """The call with a function that a variable carries into the next bash; the same call for other
    variables.
    """
    carried = re.fullmatch(r"BASH_FUNC_(.+?)(%%|\(\))", name)
    if carried is None:
        return call
    call.report("variable-runs-code", f"replaces the command {shown(carried[1])} in the next shell")
    other = call.moved(call.shell.cwd)
    call.machine.run_text(f"{carried[1]} {value}", other.shell, None)
    return other


@lru_cache(maxsize=4096)
def _acts(name: str) -> bool:
    """Whether some value of a variable counts."""
    return (
        name in _COMMANDS
        or any(known.fullmatch(name) for known in (_SERVER, _TRUST))
        or any(pattern(one.pattern).fullmatch(name) for one in TABLE.texts["variables"])
    )


def judge_variable(call: Call, name: str, value: str, *, temporary: bool) -> None:
    """Judge that a variable is set: for one program, or for everything that follows."""
    if not _acts(name):
        return
    if _SERVER.fullmatch(name) and not value.startswith(("/", "unix:", "fd:")):
        check_address(call, value.split(",")[0])

    def applies(entry: Entry) -> bool:
        return bool(pattern(entry.pattern).fullmatch(name) and pattern(entry.when).search(value))

    if name in _COMMANDS:
        _judge_command(call, name, value)
    elif entry := next(filter(applies, TABLE.texts["variables"]), None):
        named = f"{name}={shown(value)}" if entry.reason.endswith(" ") else ""
        call.report(entry.rule, entry.reason + named)
    elif _TRUST.fullmatch(name):
        if "PROXY" in name.upper() and name != "GOPROXY":
            check_address(call, value)
        elif "://" in value and is_known(value) and not is_known_registry(value):
            reason = f"takes packages from an address nobody has vouched for: {name}={shown(value)}"
            call.report("variable-changes-trust", reason)


def _judge_command(call: Call, name: str, value: str) -> None:
    text = value.lstrip("|").replace("%s", "FILE")
    first = "".join(text.split(None, 1)[:1])
    runs = is_known(text) and call.machine.probe_text(text, call.shell)
    reason = ""
    expands, is_text = "$(" in text or "`" in text, name in _TEXTS
    if runs and (expands or not is_text or name in ("CC", "CXX", "RUSTC")):
        call.shell_text(text)
    elif is_text and not expands:
        if name == "TAR_OPTIONS" and ("checkpoint-action" in value or "to-command" in value):
            reason = f"makes another program run code: {name}={shown(value)}"
    elif not is_known(text):
        reason = f"makes another program run code that cannot be known: {name}"
    elif name.startswith("PS") and "$(" in text:
        call.shell_text(f'echo "{text}"')
    elif "/" in first and not re.match(r"(/usr(/local)?)?/bin/", first):
        reason = f"makes another program run {shown(first)}: {name}"
    elif program_name(first or "-") in _INTERPRETERS and name != "RSYNC_RSH":
        reason = f"makes another program run code: {name}={shown(value)}"
    if reason:
        call.report("variable-runs-code", reason)
