"""The shell's own commands that change its state."""

from __future__ import annotations

import itertools
import re
import shlex

from hermetic.policy import marks
from hermetic.policy.call import Call
from hermetic.policy.dynamic_code import run_code
from hermetic.policy.marks import (
    activate_globs,
    is_known,
    is_plain,
    marks_in,
    shown,
    unknown_like,
)
from hermetic.policy.paths import resolve
from hermetic.policy.shell.assignments import makes_local
from hermetic.policy.shell.elements import Several, without_first
from hermetic.policy.shell.expansion import Folder, split_ifs
from hermetic.policy.shell.join import join
from hermetic.policy.shell.setting import HIDDEN_INDEX, set_variable
from hermetic.policy.tables import names
from hermetic.policy.variables import SESSION_ARRAY, judge_variable

MAX_CALLBACKS = 8  # lines that mapfile is followed for
# Builtins that a session needs to say what it holds.
_REPORTING = frozenset({"builtin", "enable", "exec", "export", "set", "trap", "unset"})
RESERVED = frozenset(
    names(
        "if then elif else fi for in select while until do done case esac function time coproc { } ! [[ ]]"
    )
)
_SUBSTITUTION = re.compile(r"\$\(|`")


def _change(call: Call, path: str) -> None:
    call.shell.previous = call.shell.cwd
    call.shell.cwd = resolve(path, call.shell)


def judge_cd(call: Call) -> str | None:
    """cd and pushd move; `cd` alone goes home, CDPATH leads elsewhere."""
    args = [arg for arg in call.args if arg not in ("--", "-P", "-L", "-e", "-@", "-n")]
    if call.name == "pushd":
        call.shell.stack.append(call.shell.cwd)
    if not args:
        if call.name == "cd":
            _change(call, call.shell.scalar("HOME"))
        return ""
    path = args[0]
    if path == "-":
        call.shell.cwd, call.shell.previous = call.shell.previous, call.shell.cwd
    elif path:
        is_plain_name = not path.startswith(("/", ".", "~"))
        is_set = call.env.get("CDPATH") or call.shell.is_set("CDPATH")
        elsewhere = call.env.get("CDPATH") or (call.shell.scalar("CDPATH") if is_set else "")
        bases = elsewhere.split(":")
        base = next((one for one in bases if one not in ("", ".")), None)
        _change(call, f"{base.rstrip('/')}/{path}" if base and is_plain_name else path)
    return ""


def judge_popd(call: Call) -> str | None:
    """popd goes back."""
    call.shell.cwd = call.shell.stack.pop() if call.shell.stack else marks.UNSET
    return ""


def judge_declare(call: Call) -> str | None:
    """export, declare, local, readonly, typeset set variables."""
    flags = "".join(arg[1:] for arg in call.args if arg[:1] in "-+" and len(arg) > 1)
    if "f" in flags or "F" in flags:
        return None
    names = [arg for arg in call.args if arg[:1] not in ("-", "+")]
    if call.shell.exported is not None and (call.name == "export" or "x" in flags):
        call.shell.exported |= {arg.partition("=")[0].rstrip("+") for arg in names}
    if not names:
        call.report("show-environment", "shows the environment, which may hold credentials")
        return marks.SECRET
    for arg in names:
        name, equals, value = arg.partition("=")
        own = name.rstrip("+").partition("[")[0]
        if makes_local(call.argv) and call.shell.hide(own):
            call.shell.variables[own] = ""
        is_reference = "n" in flags and call.name != "export"
        if HIDDEN_INDEX.match(value) or (value[:1] == "(" and _SUBSTITUTION.search(value)):
            call.machine.fold_text(value, call.shell)
        if SESSION_ARRAY in (own, value.partition("[")[0] if is_reference else ""):
            judge_variable(call, SESSION_ARRAY, value, temporary=False)
        if is_reference:  # another name for a variable
            call.shell.refer(name, value)
            continue
        if not equals:
            if "A" in flags and not isinstance(call.shell.variables.get(name), dict | list):
                call.shell.variables[name] = {}
            continue
        if name.endswith("+"):
            name, value = name[:-1], call.shell.scalar(name[:-1]) + value
        value = value.upper() if "u" in flags else value.lower() if "l" in flags else value
        if "[" in name:
            Folder(call.machine, call.shell).set_named(name, value)
            continue
        name = call.shell.resolve(name)
        is_array = {"a", "A"}.intersection(flags) or not isinstance(
            call.shell.get(name), str | None
        )
        if is_array and value[:1] == "(" and value[-1:] == ")" and is_plain(value):
            call.machine.run_text(f"{name}={value}", call.shell, None)
            continue
        if "i" in flags:
            if "$(" in value:
                run_code(call, f'echo "{value}"', "an arithmetic text")
            value = Folder(call.machine, call.shell).calculate(value)
        call.shell.variables[name] = value
        judge_variable(call, name, value, temporary=False)
    return ""


def judge_unset(call: Call) -> str | None:
    """unset forgets variables and functions."""
    for name in call.args:
        if name.startswith("-"):
            continue
        if name == "HISTFILE":
            call.report("clear-history", "stops the shell from recording its history")
        if "-n" in call.args:
            call.shell.references = {k: v for k, v in call.shell.references.items() if k != name}
        elif "-f" not in call.args and "[" not in name:
            call.shell.set(name, "")
        if "-v" not in call.args:
            call.shell.functions.pop(name, None)
        if "[" in name:
            Folder(call.machine, call.shell).unset_element(name)
    return ""


def judge_set(call: Call) -> str | None:
    """set alone shows all variables; `set -- a b` sets the positional parameters."""
    if not call.args:
        call.report("show-environment", "shows all variables, which may hold credentials")
        return marks.SECRET
    if call.args == ["+o", "history"]:
        call.report("clear-history", "stops the shell from recording its history")
    rest = list(call.args)
    while rest and rest[0][:1] in ("-", "+") and rest[0] not in ("--", "-"):
        option = rest.pop(0)
        name = rest.pop(0) if option in ("-o", "+o") and rest else ""
        if name == "allexport" or (name == "" and "a" in option):
            call.shell.exported = None
    if rest:
        call.shell.positional = rest[1:] if rest[0] in ("--", "-") else rest
    return ""


def judge_shopt(call: Call) -> None:
    """shopt sets options; with lastpipe the last command of a pipeline runs in this shell."""
    if "lastpipe" in call.args:
        call.shell.lastpipe = "-u" not in call.args


def judge_shift(call: Call) -> str | None:
    """shift drops positional parameters."""
    if call.shell.positional is not None:
        count = int(call.args[0]) if call.args and call.args[0].isdigit() else 1
        call.shell.positional = without_first(call.shell.positional, min(count, 9999))
    return ""


def judge_read(call: Call) -> str | None:
    """read and mapfile take a line or all lines of standard input into variables."""
    options = call.options
    text = marks.INPUT if call.stdin is None else call.stdin
    part = "nNduti" if call.name == "read" else "nduOsc"
    if options.has(*part) and is_known(text):
        text = unknown_like(text)  # only a part of the input is taken
    names = options.operands
    if call.name != "read":
        name = names[0] if names else "MAPFILE"
        lines: list[str] = [Several(unknown_like(text))]
        if is_known(text):
            lines = text.rstrip("\n").split("\n")
        set_variable(call.machine, call.shell, name, lines)
        for code, line in itertools.product(options.values("C"), lines[:MAX_CALLBACKS]):
            after = call.shell.fork()
            run_code(call, f"{code} {marks.NUMBER} {shlex.quote(line)}", "a callback", after)
            join(call.shell, [call.shell.fork(), after])
        return ""
    line = text.split("\n", 1)[0] if text.split("\n", 1)[0] else marks_in(text)
    array = options.value("a")
    ifs = call.env.get("IFS", call.shell.scalar("IFS"))
    if array is not None:
        fields: list[str] = [Several(line)]
        if is_known(line) and ifs:
            fields = split_ifs(line, ifs)
        set_variable(call.machine, call.shell, array, fields)
        return ""
    known = is_known(line)
    separator = None if ifs == " \t\n" else ifs[:1]
    parts = line.split(separator, max(len(names) - 1, 0)) if ifs and known else [line]
    parts += [""] * len(names)
    for part, name in zip(parts, names or ["REPLY"], strict=False):
        value = part.strip(" \t") if known else line
        Folder(call.machine, call.shell).set_named(name, value)
    return ""


def judge_alias(call: Call) -> str | None:
    """alias names a text; aliases are followed as bash would in a script that turns them on."""
    for arg in call.args:
        name, equals, value = arg.partition("=")
        if equals and name in RESERVED:
            call.report("variable-runs-code", f"gives {name} of the grammar another meaning")
        if equals and is_plain(name):
            call.shell.aliases[name] = value
            if call.machine.probe_text(value, call.shell):
                run_code(call, value, "an alias")
    return ""


def judge_test(call: Call) -> str | None:
    """test evaluates an index inside -v."""
    for flag, value in itertools.pairwise(call.args):
        if flag == "-v" and "[" in value:
            Folder(call.machine, call.shell).named(value)
    return ""


def judge_code_option(call: Call) -> str | None:
    """complete -C, bind -x, enable -f: the shell's own ways to run something later. enable -n lets
    functions stand for builtins.
    """
    if call.name == "enable" and any(arg[:1] == "-" and "n" in arg for arg in call.args):
        off = [arg for arg in call.args if arg in _REPORTING or not is_plain(arg)]
        if off:
            reason = f"lets functions hide what the session holds: enable -n {shown(off[0])}"
            call.report("variable-runs-code", reason)
    for flag, value in itertools.pairwise(call.args):
        match call.name, flag:
            case ("complete" | "compgen", "-C") | ("complete", "-F"):
                run_code(call, value, "a completion")
            case ("complete" | "compgen", "-W"):
                call.machine.fold_text(value, call.shell)
            case ("bind", "-x"):
                run_code(call, value.partition(":")[2].strip(" \"'"), "a key binding")
            case ("enable", "-f"):
                run_code(call, '"$NOT_SEEN_LIBRARY"', "a loaded builtin")
    return _completions(call) if call.name == "compgen" else ""


def _completions(call: Call) -> str:
    """What compgen prints: paths for -G, -f and -d, words for -W, unknown names for the rest."""
    options = call.options
    if options.value("G"):
        return activate_globs(options.value("G") or "") + "\n"
    if options.value("W"):
        return "\n".join((options.value("W") or "").split()) + "\n"
    if options.has("f", "d") or options.value("A") in ("file", "directory"):
        return "".join(options.operands[:1]) + marks.STAR + "\n"
    return marks.UNSET + "\n"


def judge_printenv(call: Call) -> str | None:
    """printenv shows the environment, or one variable."""
    names = [arg for arg in call.args if not arg.startswith("-")]
    if not names:
        call.report("show-environment", "shows the environment, which may hold credentials")
        return marks.SECRET
    return "".join(call.shell.scalar(name) + "\n" for name in names)
