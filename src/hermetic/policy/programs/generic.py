"""The generic rule: what the arguments of any program give away, also of one that no row describes."""

from __future__ import annotations

import itertools
import re

from hermetic.policy.call import Call
from hermetic.policy.dynamic_code import run_code
from hermetic.policy.effects import read, write
from hermetic.policy.marks import SECRET, TOKEN, is_plain, shown
from hermetic.policy.network import is_local, is_metadata
from hermetic.policy.paths import is_secret, resolve
from hermetic.policy.tables import names, regex

from .table import TABLE, alternatives

_CODE_OPTION, _DESTRUCTIVE_VERB, _HARSH_VERB, _GRANTS, _SURE, _OUTPUT, _EDITS = map(
    alternatives,
    names(
        "code-options destructive-verbs harsh-verbs granting-verbs sure-options output-options"
        " edit-options"
    ),
)
_REHEARSES = regex(r"--(dry-?run|check|plan|preview|simulate|help)")
_PRODUCTION = regex(r"(?i)(^|[-_/.:@=])(prod(uction)?|live)($|[-_/.:,\d])")
_AWAY = regex(r"(https?|ftp|tcp|ssh)://|\d+\.\d+\.\d+\.\d+")
_EDITED = names("system startup disk kernel")
_GUARDED = names("system disk startup elsewhere hook kernel history log home")


def judge_anything(call: Call) -> str | None:
    """A program that no row describes: what its arguments give away."""
    if not call.row.has("data"):
        if {"--help", "--version"}.intersection(call.args):
            return None
        report_hidden(call, texts=False)
        report_code_url(call)
        _code_options(call)
        report_verbs(call)
        _outputs(call)
    return _secrets(call)


# Programs that do not run what an address holds.
_FETCH = names("git gh hub svn hg")
_CODE_URL = regex(
    r"(?:\w+\+)?https?://[^\s?#]+\.(?:sh|bash|py|[cm]?js|ts|rb|pl|java|kts?|groovy|lua|ps1|R|jl|jar|exs?|clj)(?:[?#]\S*)?"
)
_RUN_VERBS = frozenset(names("run exec x dlx shell develop eval source script build profile"))


def report_code_url(call: Call) -> None:
    """Report a program that is given the address of code, or runs a package by its address."""
    if "://" not in " ".join(call.args):
        return
    row = call.row
    if row.hook == "http" or row.has("reaches") or row.has("data") or call.name in _FETCH:
        return
    words = call.options.operands
    words = words if words[:1] and words[0] in _RUN_VERBS else []
    for before, arg in itertools.pairwise(["", *call.args]):
        is_value = before.startswith("--") and "=" not in before
        is_code = _CODE_URL.fullmatch(arg) and not is_value
        is_run = row.has("packages") and arg in words[1:2] and "://" in arg
        if (is_code or is_run) and not is_local(arg):
            call.report("run-download", f"runs a program from another machine: {shown(arg)}")


def _secrets(call: Call) -> str | None:
    """Credentials that an argument names, or that are sent to an address."""
    shown_secret, is_data = False, call.row.has("data")
    for arg in call.args if not call.row.has("names") else ():
        for path in _paths_in(arg):
            full = resolve(path, call.shell)
            if is_secret(full, call.shell) or full in call.shell.files:
                shown_secret = SECRET in read(call, path) or shown_secret
            elif re.search(r"(^|/)\.env(\.\w+)?$", path) and not is_data:
                read(call, path)
        if arg.startswith(("http://", "https://")) and is_metadata(arg):
            shown_secret = True
            read(call, "/run/secrets/metadata")
    text = "".join(call.args)
    sends = shown_secret or SECRET in text or TOKEN in text or SECRET in (call.stdin or "")
    if sends and not is_data and any(map(_AWAY.match, call.args)):
        call.report("send-secret", "may send credentials to another machine")
    return SECRET + "\n" if shown_secret else None


def _paths_in(arg: str) -> list[str]:
    """The paths an argument may name: itself, after `=` or `@`, or each part of a list."""
    if not arg or " " in arg or "\n" in arg:
        return []
    found = [arg]
    for mark in "=@:,":
        parts = arg.split(mark) if mark in arg else []
        found += [part for part in parts if part.startswith(("/", "~", "."))]
    return [path.lstrip("@<") for path in found if "/" in path or path.startswith(".")][:6]


def report_hidden(call: Call, *, texts: bool) -> None:
    """Report another command among the arguments, as behind an unknown wrapper; with `texts` also
    one that is a text.
    """
    args, reason = call.args, f"runs a dangerous command behind {shown(call.name)}"
    start = args.index("--") + 1 if "--" in args else -1
    for at, arg in enumerate(args):
        if not is_plain(arg):
            continue
        is_run = is_worth_trying(arg) and (at == start or len(args) > at + 1)
        if is_run and call.machine.probe_argv(args[at:], call.shell):
            call.report("hidden-in-arguments", reason)
            call.run(args[at:])
            return
        text = _text_in(arg).strip() if texts else ""
        is_code = " " in text and is_worth_trying(text.split()[0])
        if is_code and call.machine.probe_text(text, call.shell):
            call.report("hidden-in-arguments", reason)
            run_code(call, text, call.name)
            return


def _text_in(arg: str) -> str:
    """The text that an argument holds behind `=`, or in a macro of rpm; CMake has `;` for blanks."""
    name, equals, value = arg.partition("=")
    text = value.replace(";", " ") if name.startswith("-DCMAKE_") else value if equals else arg
    return re.sub(r"^%\((.*)\)$", r"\1", text)


def _code_options(call: Call) -> None:
    """Options named like code whose value reads as a dangerous command."""
    for arg, following in itertools.pairwise([*call.args, ""]):
        name, equals, value = arg.partition("=")
        if not arg.startswith("-") or not _CODE_OPTION.fullmatch(name):
            continue
        text = re.sub(r"^(shell|!|:!|system|exec[=:]?|run)\s*", "", value if equals else following)
        if text and call.machine.probe_text(text, call.shell):
            reason = f"runs a dangerous command by an option of {shown(call.name)}: {shown(name)}"
            call.report("hidden-in-arguments", reason)
            run_code(call, text, f"an option of {call.name}")


def report_verbs(call: Call) -> None:
    """Report a verb that destroys, with an option that keeps it from asking or a target in use."""
    words = [arg for arg in call.args[:8] if not arg.startswith("-")][:4]
    if any(map(_GRANTS.fullmatch, words)):
        call.report("user-account", f"gives rights away with {shown(call.name)}")
    own = "/" in call.argv[0] and not call.argv[0].startswith(("/usr/", "/bin/", "/opt/"))
    destroys = any(map(_DESTRUCTIVE_VERB.fullmatch, words))
    if own or not (destroys or any(map(_HARSH_VERB.fullmatch, words))):
        return
    if any(map(_REHEARSES.match, call.args)):
        return
    is_live = any(map(_PRODUCTION.search, call.args))
    if is_live or (destroys and any(map(_SURE.fullmatch, call.args))):
        call.report("cloud-destroys", f"destroys something with {shown(call.name)} and asks nobody")


def _outputs(call: Call) -> None:
    """Files that options name as output, or that are edited in place, outside the workspace."""
    edits = any(map(_EDITS.fullmatch, call.args))
    for arg, following in itertools.pairwise([*call.args, ""]):
        name, equals, value = arg.partition("=")
        path = value if equals else following
        if _OUTPUT.fullmatch(name):
            is_path = path and not path.startswith("-") and "://" not in path
            if is_path and call.place(path)[1] in _GUARDED:
                write(call, path)
        elif edits and arg.startswith(("/", "~")) and call.place(arg)[1] in _EDITED:
            write(call, arg)


def is_worth_trying(word: str) -> bool:
    """True for a program that a command hidden among arguments may start with."""
    return TABLE.row(word.rsplit("/", 1)[-1]).has("tried")
