"""What tells one act from all others, so that an approval of one is never an approval of another."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache

import msgspec

from hermetic.contract.verdict import Source
from hermetic.policy.programs.table import alternatives

from .call import Call
from .marks import UNSET, is_known, shown
from .rules import Finding
from .shell import Shell, Value

# Variables by which the same words reach another account, cluster, database, repository or program.
# They count for any origin, and also where they are not exported.
_CONTEXT = alternatives("context-variables")
# Variables that say how things look, and where a shell has been. Any other one may change what a
# program does.
_HARMLESS = alternatives("harmless-variables")


def counts(name: str, *, passed_on: bool) -> bool:
    """Whether a variable that was changed is part of every act after it; `passed_on`: programs get
    it.
    """
    is_part = passed_on or name in ("PATH", "BASH_CMDS") or bool(_CONTEXT.match(name))
    return is_part and not _HARMLESS.fullmatch(name)


@lru_cache(maxsize=4096)  # asked about the same variables before every command
def always_counts(name: str) -> bool:
    """Whether a variable is part of every act, also where a session has begun with it."""
    return bool(_CONTEXT.match(name)) and name not in ("HOME", "TMPDIR", "IFS")


def of_call(finding: Finding, call: Call, *, redirecting: bool) -> Finding:
    """The finding with the program that does it, or beside which a redirection does it."""
    argv = tuple(map(shown, call.argv))
    source: Source = "redirect" if redirecting else "program"
    exact = around = ""
    if finding.rule.label == "dangerous":
        around = around_of(call.shell, call.env)
        exact = _exact(finding, call, around) if around else ""
    return msgspec.structs.replace(finding, argv=argv, source=source, exact=exact, around=around)


def around_of(shell: Shell, env: Mapping[str, str]) -> str:
    """A digest of directory and variables that is equal only where a program meets the same; empty
    when not all of them are known.
    """
    variables = _variables(shell, env)
    known = [shell.cwd, shell.secrets, *variables.values()]
    if not all(map(is_known, known)):
        return ""
    named = (f"{name}={value}" for name, value in sorted(variables.items()))
    return _digest([shell.cwd, str(shell.remote), shell.secrets, *named])


def _variables(shell: Shell, env: Mapping[str, str]) -> dict[str, str]:
    """The variables that are part of the act: those that its session was given, and those of the
    text itself.
    """
    if shell.context is None:  # the session's variables are unknown
        named = filter(_CONTEXT.match, shell.variables)
        found = {name: _text(shell.variables[name]) for name in named}
    else:
        found = dict(shell.context)
    for name, value in shell.variables.items():
        passed_on = shell.exported is None or name in shell.exported
        if shell.began.get(name) != value and counts(name, passed_on=passed_on):
            found[name] = _text(value)
    # the branch that was taken is unknown
    found.update({name: UNSET for name in shell.choices if name in found})
    found.update(env)
    return {name: value for name, value in found.items() if not _HARMLESS.fullmatch(name)}


def _text(value: Value) -> str:
    return value if isinstance(value, str) else str(value)


def _exact(finding: Finding, call: Call, around: str) -> str:
    """A digest that is equal only for the same words, input, directory and variables.

    Empty when a part of them cannot be known, or when unknown code runs: then one approval is
    good for one time alone.
    """
    rule, shell = finding.rule, call.shell
    if "executes unseen code" in rule.effects:
        return ""
    words = [rule.name, finding.reason, finding.path or "", call.stdin or "", *call.argv]
    if not all(map(is_known, words)):
        return ""
    # that run it, such as sudo
    words += [" ".join(argv) for argv in call.machine.carriers if argv != call.argv]
    # that this text wrote before
    words += [f"{path}={content}" for path, content in sorted(shell.files.items())]
    return _digest([around, *words])


def _digest(words: list[str]) -> str:
    return hashlib.sha256("\0".join(words).encode("utf-8", "surrogatepass")).hexdigest()[:32]
