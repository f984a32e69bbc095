"""Ending processes: one is everyday, many or the wrong ones are not."""

from __future__ import annotations

import re

from hermetic.policy.call import Call, Judge
from hermetic.policy.marks import LOCAL, NUMBER, PIDS, has_glob, marks_in, shown
from hermetic.policy.options import parse_options
from hermetic.policy.rules import Rule
from hermetic.policy.tables import names

KILL_ALL = Rule(
    name="kill-everything",
    category="process-mass-kill",
    severity=10,
    effects=("changes shared state",),
    hardline=True,
    catches=("kill -9 -1", "kill -KILL -- -1", "killall5 -9", "kill -9 1"),
    spares=("kill -l", "kill 1234", "kill %1", "kill -0 77"),
)
KILL_MANY = Rule(
    name="kill-many",
    category="process-mass-kill",
    severity=7,
    effects=("changes shared state",),
    catches=(
        "pkill -9 -u dev",
        "killall -u dev",
        "pgrep . | xargs kill",
        "pkill -9 sshd",
        "fuser -k /home",
        "kill $(pgrep -u dev)",
    ),
    spares=("pkill -f vite", "killall node", "fuser -k 8080/tcp", "pgrep -fl node"),
)
KILL_SOME = Rule(
    name="kill-some",
    category="process",
    label="caution",
    severity=3,
    effects=("changes shared state",),
    catches=("pkill -9 -f pytest", "killall node", "fuser -k 8080/tcp"),
    spares=("kill %1", "jobs"),
)
RULES = (KILL_ALL, KILL_MANY, KILL_SOME)

_VITAL = frozenset(
    names(
        """
sshd systemd init dbus-daemon dbus Xorg gnome-shell login cron crond rsyslogd dockerd containerd NetworkManager
udevd systemd-logind agetty launchd WindowServer kubelet journald systemd-journald auditd kwin loginwindow
Finder postgres mysqld bash zsh sh nginx explorer lsass svchost Xwayland sddm gdm
"""
    )
)


def _is_wide(pattern: str) -> bool:
    return bool(re.fullmatch(r"[.^$*]*|\.[*+]|\^\.|\[.*\][*+]?|\w|\*", pattern))


MANY = 20
_DAEMONS = frozenset(names("systemd init sshd dbus-daemon dockerd containerd cron crond rsyslogd NetworkManager Xorg"))


def judge_kill(call: Call) -> str | None:
    """kill: a signal, then process ids; -1 is everything, 1 is init."""
    args = list(call.args)
    if args[:1] and args[0] in ("-l", "-L", "--list", "--table", "-V", "--version", "--help"):
        return None
    signal = ""
    if args and re.fullmatch(r"-(\w+)", args[0]) and args[0] not in ("-s", "-n", "-q", "-p", "-a"):
        signal = args.pop(0)[1:]
    while args and args[0] in ("-s", "-n", "-q", "--signal"):
        signal = args[1] if len(args) > 1 else ""
        args = args[2:]
    if args[:1] == ["--"]:
        args.pop(0)
    if signal == "0":
        return None
    if signal == "1" and not args and len(call.args) == 1:
        args = ["-1"]
    for target in args:
        _kill_target(call, target, signal)
    return None


def _kill_target(call: Call, target: str, signal: str) -> None:
    if target in ("-1", "1") or re.fullmatch(r"-0*1", target):
        call.report(KILL_ALL, "ends every process, or the first one")
    elif (
        PIDS in target
        or NUMBER + NUMBER in target  # a long run of numbers
        or has_glob(target)
        or (target.isdigit() and len(call.args) > MANY)
    ):
        call.report(KILL_MANY, "ends many processes at once")
    elif marks_in(target).strip(NUMBER) or (signal in ("9", "KILL", "SIGKILL") and target.startswith("%")):
        call.report(KILL_SOME, f"ends processes: {shown(target)}")


def judge_pkill(call: Call) -> str | None:
    """pkill, killall, skill, pgrep pick processes by name or owner."""
    args = [arg for arg in call.args if not re.fullmatch(r"-(\d+|[A-Z]{2,}\d*)", arg)]
    if "-0" in call.args and call.name != "pgrep":
        return None
    options = parse_options(
        args,
        "ugUGPtsoynrF" if call.name in ("pkill", "pgrep") else "suogZyn",
        names(
            """
signal user euid uid group terminal parent session pidfile ns context older-than younger-than
"""
        ),
    )
    picked = options.operands
    owner = options.value("u", "user", "U", "uid", "euid", "G", "group")
    wide = (
        (owner is not None and not picked)
        or any(_is_wide(name) for name in picked)
        or options.has("v", "inverse", "inverse-match")
        or (options.has("t", "terminal") and not picked)
    )
    if call.name == "pgrep":
        return (PIDS if wide else LOCAL) + "\n"
    if call.name in ("pidof", "killall5") and call.name == "killall5":
        call.report(KILL_ALL, "ends every process")
        return None
    if options.has("l", "list", "V", "version", "h", "help") and not picked:
        return None
    if wide or any(name.lstrip("^").rstrip("$") in _VITAL for name in picked):
        call.report(KILL_MANY, "ends many processes, or ones the system needs")
    elif picked:
        call.report(KILL_SOME, f"ends processes by name: {shown(picked[0])}")
    return None


def judge_fuser(call: Call) -> str | None:
    """fuser -k ends whoever uses a file or a port."""
    options = parse_options(
        [arg for arg in call.args if not re.fullmatch(r"-(\d+|[A-Z]{3,})", arg)], "nN", ("namespace",)
    )
    if not options.has("k", "kill"):
        return LOCAL
    for target in options.operands:
        if re.fullmatch(r"\d+/(tcp|udp)|\d+", target) or call.place(target)[1] in ("workspace", "temp"):
            call.report(KILL_SOME, f"ends who uses {shown(target)}")
        else:
            call.report(KILL_MANY, f"ends every process that uses {shown(target)}")
    return None


def judge_lsof(call: Call) -> str | None:
    """lsof -t lists process ids."""
    operands = [arg for arg in call.args if not arg.startswith("-")]
    if any(re.match(r"-\w*t", arg) for arg in call.args):
        if any(re.match(r"-\w*i", arg) for arg in call.args):
            return LOCAL + "\n"
        return (
            PIDS
            if any(call.place(path)[1] not in ("workspace", "temp") for path in operands) or not operands
            else LOCAL
        ) + "\n"
    return LOCAL + "\n"


def judge_ps(call: Call) -> str | None:
    """ps lists processes; with `e` among its letters it shows their environment."""
    letters = "".join(arg for arg in call.args if not arg.startswith("-"))
    if (
        re.fullmatch(r"[a-z]*e[a-z]*", letters)
        and letters
        and "-" not in "".join(call.args[:1])
        and letters not in ("aux",)
    ):
        return LOCAL
    return PIDS + LOCAL + "\n"


JUDGES: dict[str, Judge] = {
    "kill": judge_kill,
    **dict.fromkeys(
        ("pkill", "killall", "skill", "pgrep", "killall5", "snice", "xkill", "taskkill", "slay"), judge_pkill
    ),
    "fuser": judge_fuser,
    "lsof": judge_lsof,
    "ps": judge_ps,
    "top": lambda _: PIDS + LOCAL + "\n",
    "pidof": lambda call: (PIDS if _DAEMONS.intersection(call.args) else LOCAL) + "\n",
}
