"""Running as another user, or in the host's own view of the machine."""

from __future__ import annotations

import re

from hermetic.policy.call import Call, Judge
from hermetic.policy.effects import write
from hermetic.policy.options import parse_options
from hermetic.policy.rules import Rule
from hermetic.policy.tables import names

from .environment import judge_variable
from .execution import judge_shell
from .unseen import run_code

PRIVILEGE = Rule(
    name="privilege",
    category="privileged-read",
    label="caution",
    severity=3,
    effects=("changes shared state",),
    catches=("sudo ls", "doas cat x"),
    spares=("echo sudo",),
)


ROOT_SHELL = Rule(
    name="root-shell",
    category="permission-ownership",
    severity=7,
    effects=("changes shared state", "executes unseen code"),
    catches=("sudo -i", "sudo su -", "sudo bash", "pkexec sh", "sudo -s", "setpriv --reuid=0 sh"),
    spares=("sudo -l", "sudo -k", "su --help"),
)


PASSWORD_STDIN = Rule(
    name="sudo-password-on-stdin",
    category="permission-ownership",
    severity=6,
    effects=("changes shared state",),
    catches=("echo pw | sudo -S ls", "sudo -S ls", "sudo --stdin -u bob ls"),
    spares=("sudo -n true",),
)


NAMESPACE = Rule(
    name="enter-host",
    category="container-escape",
    severity=9,
    effects=("changes shared state",),
    catches=("nsenter -t 1 -m sh", "sudo chroot /mnt/host /bin/bash", "sudo nsenter --target 1 --all"),
    spares=("unshare --help", "chroot --version"),
)


def report_privilege(call: Call, rest: list[str]) -> None:
    call.report(PRIVILEGE, "runs with the rights of another user")
    name = rest[0].rsplit("/", 1)[-1]
    if name in ("bash", "sh", "zsh", "su", "dash", "fish", "ksh") and not [
        a for a in rest[1:] if a not in ("-", "-l", "-i", "root", "--login")
    ]:
        call.report(ROOT_SHELL, "opens a shell with all rights")


def judge_sudo(call: Call) -> str | None:
    """sudo runs a command as another user."""
    options = parse_options(
        call.args,
        "AbCcDEgHhKpRrTtUu".replace("A", "")
        .replace("b", "")
        .replace("E", "")
        .replace("H", "")
        .replace("K", "")
        .replace("c", ""),
        names(
            """
user group host prompt close-from chdir chroot role type other-user command-timeout
"""
        ),
        stop_early=True,
    )
    call = call.moved(options.value("D", "chdir"))
    rest = options.operands
    while rest and re.match(r"[A-Za-z_]\w*=", rest[0]):
        name, _, value = rest[0].partition("=")
        judge_variable(call, name, value, temporary=True)
        rest = rest[1:]
    if options.has("S", "stdin"):  # its input may also be typed later, when it runs as a process
        call.report(PASSWORD_STDIN, "lets sudo read a password from its input")
    if options.has("e", "edit"):
        for path in rest:
            write(call, path)
        return None
    if not rest:
        if options.has("i", "s", "login", "shell"):
            if call.stdin is not None:
                return judge_shell(call.again(["sh"]))
            call.report(ROOT_SHELL, "opens a shell with all rights")
        elif not options.has("k", "K", "v", "l", "V", "h", "version", "help", "list", "validate"):
            call.report(PRIVILEGE, "runs with the rights of another user")
        return None
    report_privilege(call, rest)
    shell = call.shell
    if options.has("i", "login"):
        shell = call.shell.fork()
        shell.cwd = "/root"
    if options.has("s", "i", "shell", "login"):
        return call.machine.run_text(" ".join(rest), shell, call.stdin)
    return call.run(rest, shell=shell)


def judge_su(call: Call) -> str | None:
    """su and runuser run a shell, or `-c TEXT`, or a command."""
    options = parse_options(
        call.args, "csugGw", ("command", "shell", "user", "group", "session-command"), stop_early=call.name == "runuser"
    )
    text = options.value("c", "command", "session-command")
    call.report(PRIVILEGE, "runs with the rights of another user")
    if text is not None:
        return run_code(call, text, call.name)
    rest = options.operands
    if call.name == "runuser" and options.value("u", "user"):
        return call.run(rest) if rest else None
    if call.stdin is not None:
        return judge_shell(call.again(["sh"]))
    if not options.has("help", "version", "h", "V"):
        call.report(ROOT_SHELL, "opens a shell of another user")
    return None


def judge_namespace(call: Call) -> str | None:
    """nsenter and chroot step into another root or another process's view of the machine."""
    options = parse_options(
        call.args,
        "tSGrw" if call.name == "nsenter" else "",
        ("target", "setuid", "setgid", "userspec", "groups", "wd", "wdns"),
        stop_early=True,
    )
    call = call.moved(
        options.value("w", "wd") if call.name == "nsenter" else options.operands[0] if options.operands else None
    )
    if options.has("help", "version", "V", "h"):
        return None
    call.report(NAMESPACE, "steps out into another root or the host's own view of the machine")
    rest = options.operands if call.name == "nsenter" else options.operands[1:]
    return call.run(rest) if rest else None


def judge_setpriv(call: Call) -> str | None:
    """setpriv changes the user a command runs as."""
    options = parse_options(
        call.args,
        "",
        names(
            """
reuid regid ruid rgid euid egid groups bounding-set inh-caps ambient-caps securebits selinux-label
apparmor-profile
"""
        ),
        stop_early=True,
    )
    rest = options.operands
    if options.value("reuid", "euid", "ruid") in ("0", "root"):
        call.report(ROOT_SHELL, "runs as root")
    return call.run(rest) if rest else None


RULES = (PRIVILEGE, ROOT_SHELL, PASSWORD_STDIN, NAMESPACE)

JUDGES: dict[str, Judge] = {
    "sudo": judge_sudo,
    "sudoedit": lambda call: judge_sudo(call.again(["sudo", "-e", *call.args])),
    "su": judge_su,
    "runuser": judge_su,
    "nsenter": judge_namespace,
    "chroot": judge_namespace,
    "pivot_root": judge_namespace,
    "setpriv": judge_setpriv,
}
