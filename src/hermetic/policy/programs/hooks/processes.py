"""Programs that end processes, and those that name them."""

from __future__ import annotations

import re

from hermetic.policy.call import Call
from hermetic.policy.marks import LOCAL, NUMBER, PIDS, has_glob, marks_in, shown
from hermetic.policy.programs.table import TABLE
from hermetic.policy.tables import names

MANY = 20
_SURE = ("9", "KILL", "SIGKILL")
_VITAL, _DAEMONS = map(TABLE.words, ("vital", "daemons"))


def _is_wide(pattern: str) -> bool:
    return bool(re.fullmatch(r"[.^$*]*|\.[*+]|\^\.|\[.*\][*+]?|\w|\*", pattern))


def judge_kill(call: Call) -> None:
    """kill: a signal, then process ids; -1 is everything, 1 is init."""
    args, signal = list(call.args), ""
    if args[:1] and re.fullmatch("-[lLV]|--(list|table|version|help)", args[0]):
        return
    if args[:1] and args[0] in ("-s", "-n", "-q", "--signal"):
        signal, args = "".join(args[1:2]), args[2:]
    elif args and (match := re.fullmatch(r"-(\w+)", args[0])):
        signal, args = match[1], args[1:]
    args = args[args[:1] == ["--"] :]
    if signal == "1" and len(call.args) == 1:
        args = ["-1"]
    for target in args if signal != "0" else ():
        _kill_target(call, target, signal)


def _kill_target(call: Call, target: str, signal: str) -> None:
    if target in ("-1", "1") or re.fullmatch(r"-0*1", target):
        call.report("kill-everything", "ends every process, or the first one")
    elif PIDS in target or NUMBER * 2 in target or has_glob(target) or len(call.args) > MANY:
        call.report("kill-many", "ends many processes at once")
    elif marks_in(target).strip(NUMBER) or (signal in _SURE and target.startswith("%")):
        call.report("kill-some", f"ends processes: {shown(target)}")


def judge_pkill(call: Call) -> str | None:
    """pkill, killall and pgrep pick processes by name or owner."""
    if "-0" in call.args and call.name != "pgrep":
        return None
    args = [arg for arg in call.args if not re.fullmatch(r"-(\d+|[A-Z]{2,}\d*)", arg)]
    call = call.named(call.name, args)
    options, picked = call.options, call.options.operands
    owner = options.has("t", *names("terminal u user U uid euid G group"))
    wide = (owner and not picked) or any(map(_is_wide, picked))
    wide = (
        wide or options.value("P", "parent") == "1" or options.has("v", "inverse", "inverse-match")
    )
    if call.name == "pgrep":
        return (PIDS if wide else LOCAL) + "\n"
    if options.has("l", "list", "V", "version", "h", "help") and not picked:
        return None
    if wide or any(name in _VITAL for one in picked for name in re.split(r"[\^$|()]+", one)):
        call.report("kill-many", "ends many processes, or ones the system needs")
    elif picked:
        call.report("kill-some", f"ends processes by name: {shown(picked[0])}")
    return None


def judge_fuser(call: Call) -> None:
    """fuser -k ends the programs that use a file or a port."""
    for target in call.options.operands if call.options.has("k", "kill") else ():
        is_port = re.fullmatch(r"\d+(/(tcp|udp))?", target)
        if is_port or call.place(target)[1] in ("workspace", "temp"):
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
