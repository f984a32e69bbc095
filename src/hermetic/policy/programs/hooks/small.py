"""Ending processes, and small hooks of one function each."""

from __future__ import annotations

import re

from hermetic.policy.call import Call
from hermetic.policy.marks import LOCAL, NUMBER, PIDS, STAR, has_glob, marks_in, shown
from hermetic.policy.paths import resolve
from hermetic.policy.programs.table import TABLE
from hermetic.policy.programs.texts import judge_patterns


def judge_ls(call: Call) -> str | None:
    """ls prints names: of its operands with -d, else of what is in them."""
    names = call.options.operands or ["."]
    if any(resolve(name, call.shell) == "/proc" for name in names):
        return PIDS + "\n"
    if call.options.has("d", "directory"):
        return "".join(f"{name}\n" for name in names)
    return "".join(
        f"{name}\n" if re.search(rf"\.\w+$|{STAR}\.\w", name) else f"{STAR}\n" for name in names
    )


def judge_fd(call: Call) -> str | None:
    """fd PATTERN ROOT prints what is below the root; -x COMMAND runs it on each match."""
    found = [f"{root.rstrip('/')}/{STAR}" for root in call.options.operands[1:] or ["."]]
    command = [word for word in call.options.rest if word not in (";", "\\;")]
    for path in found[:4] if command else ():
        filled = [part.replace("{}", path) for part in command]
        call.run(filled if filled != command else [*command, path], stdin="")
    return None if command else "".join(f"{path}\n" for path in found)


def judge_words(call: Call) -> None:
    """A program whose words as a whole are code of its language, beside what it reads."""
    is_whole = call.row.language == "powershell"  # its options are part of the code
    words = [arg for arg in call.args if is_whole or not arg.startswith("-")]
    judge_patterns(call, " ".join(words), call.row.language)
    if call.stdin is not None:
        judge_patterns(call, call.stdin, call.row.language)


def judge_windows(call: Call) -> str | None:
    """cmd /c TEXT runs a command of Windows."""
    at = next(
        (at for at, arg in enumerate(call.args) if arg.lower() in ("/c", "/k")), len(call.args)
    )
    return call.run(" ".join(call.args[at + 1 :]).split())


MANY = 20
_VITAL, _DAEMONS = map(TABLE.words, ("vital", "daemons"))


def _is_wide(pattern: str) -> bool:
    return bool(re.fullmatch(r"[.^$*]*|\.[*+]|\^\.|\[.*\][*+]?|\w|\*", pattern))


def judge_kill(call: Call) -> None:
    """kill: a signal, then process ids; -1 is everything, 1 is init."""
    args = list(call.args)
    if args[:1] and args[0] in ("-l", "-L", "--list", "--table", "-V", "--version", "--help"):
        return
    signal = ""
    if args and re.fullmatch(r"-(\w+)", args[0]) and args[0] not in ("-s", "-n", "-q", "-p", "-a"):
        signal = args.pop(0)[1:]
    while args and args[0] in ("-s", "-n", "-q", "--signal"):
        signal = args[1] if len(args) > 1 else ""
        args = args[2:]
    if args[:1] == ["--"]:
        args.pop(0)
    if signal == "0":
        return
    if signal == "1" and not args and len(call.args) == 1:
        args = ["-1"]
    for target in args:
        _kill_target(call, target, signal)


def _kill_target(call: Call, target: str, signal: str) -> None:
    if target in ("-1", "1") or re.fullmatch(r"-0*1", target):
        call.report("kill-everything", "ends every process, or the first one")
    elif (
        PIDS in target
        or NUMBER + NUMBER in target  # a long run of numbers
        or has_glob(target)
        or (target.isdigit() and len(call.args) > MANY)
    ):
        call.report("kill-many", "ends many processes at once")
    elif marks_in(target).strip(NUMBER) or (
        signal in ("9", "KILL", "SIGKILL") and target.startswith("%")
    ):
        call.report("kill-some", f"ends processes: {shown(target)}")


def judge_pkill(call: Call) -> str | None:
    """pkill, killall and pgrep pick processes by name or owner."""
    if "-0" in call.args and call.name != "pgrep":
        return None
    call = call.named(
        call.name, [arg for arg in call.args if not re.fullmatch(r"-(\d+|[A-Z]{2,}\d*)", arg)]
    )
    options, picked = call.options, call.options.operands
    owner = options.value("u", "user", "U", "uid", "euid", "G", "group") or options.has(
        "t", "terminal"
    )
    wide = (
        (owner and not picked)
        or any(map(_is_wide, picked))
        or options.has("v", "inverse", "inverse-match")
    )
    if call.name == "pgrep":
        return (PIDS if wide else LOCAL) + "\n"
    if options.has("l", "list", "V", "version", "h", "help") and not picked:
        return None
    if wide or any(name.lstrip("^").rstrip("$") in _VITAL for name in picked):
        call.report("kill-many", "ends many processes, or ones the system needs")
    elif picked:
        call.report("kill-some", f"ends processes by name: {shown(picked[0])}")
    return None


def judge_fuser(call: Call) -> None:
    """fuser -k ends the programs that use a file or a port."""
    call = call.named(
        call.name, [arg for arg in call.args if not re.fullmatch(r"-(\d+|[A-Z]{3,})", arg)]
    )
    if not call.options.has("k", "kill"):
        return
    for target in call.options.operands:
        if re.fullmatch(r"\d+(/(tcp|udp))?", target) or call.place(target)[1] in (
            "workspace",
            "temp",
        ):
            call.report("kill-some", f"ends who uses {shown(target)}")
        else:
            call.report("kill-many", f"ends every process that uses {shown(target)}")


def judge_lsof(call: Call) -> str | None:
    """lsof -t lists process ids."""
    words = [arg for arg in call.args if not arg.startswith("-")]
    ids, ports = (any(re.match(rf"-\w*{letter}", arg) for arg in call.args) for letter in "ti")
    own = words and all(call.place(path)[1] in ("workspace", "temp") for path in words)
    return (PIDS if ids and not ports and not own else LOCAL) + "\n"


def judge_pidof(call: Call) -> str | None:
    """pidof prints the ids of a program's processes."""
    return (PIDS if set(_DAEMONS).intersection(call.args) else LOCAL) + "\n"
