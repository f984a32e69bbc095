"""Power, services and scheduled jobs."""

from __future__ import annotations

import re

from hermetic.policy.call import Call, Judge
from hermetic.policy.effects import read
from hermetic.policy.marks import shown
from hermetic.policy.options import parse_options
from hermetic.policy.rules import Rule
from hermetic.policy.tables import names

from .unseen import execute

POWER = Rule(
    name="power",
    category="system-power",
    severity=9,
    effects=("changes shared state",),
    hardline=True,
    catches=(
        "reboot",
        "sudo shutdown -h now",
        "init 0",
        "systemctl poweroff",
        "telinit 6",
        "systemctl isolate reboot.target",
    ),
    spares=("echo reboot", "man 8 shutdown", "shutdown --help", "systemctl status", "shutdown -c"),
)


SERVICE_STOP = Rule(
    name="stop-service",
    category="service-stop",
    severity=7,
    effects=("changes shared state",),
    catches=(
        "systemctl stop nginx",
        "service ssh stop",
        "/etc/init.d/mysql stop",
        "launchctl unload x.plist",
        "pm2 delete all",
    ),
    spares=("systemctl status nginx", "service nginx status", "pm2 list"),
)


SERVICE_RESTART = Rule(
    name="restart-service",
    category="service",
    label="caution",
    severity=3,
    effects=("changes shared state",),
    catches=("systemctl restart nginx", "service apache2 reload"),
    spares=("systemctl cat ssh",),
)


SERVICE_ENABLE = Rule(
    name="enable-service",
    category="persistence",
    severity=7,
    effects=("changes shared state", "executes unseen code"),
    catches=("systemctl --user enable --now x.service", "systemctl link ./x.service", "loginctl enable-linger dev"),
    spares=("systemctl is-enabled x", "systemctl list-units"),
)


CRON = Rule(
    name="crontab",
    category="persistence",
    severity=8,
    effects=("changes shared state", "executes unseen code"),
    catches=("crontab -r", "echo '* * * * * x' | crontab -", "crontab jobs.txt"),
    spares=("crontab -l",),
)


def judge_power(call: Call) -> str | None:
    """shutdown, reboot, halt, poweroff, init."""
    if any(arg in ("--help", "--version", "-c", "--show", "-k", "--wtmp-only", "-w") for arg in call.args):
        return None
    if call.name in ("init", "telinit"):
        if call.args and call.args[0] in ("0", "6", "1", "s", "S", "u", "q", "single"):
            call.report(POWER, "stops or restarts the machine")
        return None
    call.report(POWER, "stops or restarts the machine")
    return None


def judge_systemctl(call: Call) -> str | None:
    """systemctl: the verb says what happens to the units."""
    options = parse_options(
        call.args,
        "HMtnopsP",
        names(
            """
host machine type state property lines output signal kill-whom root job-mode what image
"""
        ),
    )
    words = options.operands
    verb = words[0] if words else ""
    units = words[1:]
    if options.has("help", "h", "version"):
        return None
    if verb in names(
        """
poweroff reboot halt kexec suspend hibernate hybrid-sleep suspend-then-hibernate rescue emergency exit
soft-reboot switch-root default sleep
"""
    ):
        call.report(POWER, f"stops, restarts or suspends the machine: {verb}")
    elif verb in ("start", "isolate", "restart") and any(
        re.fullmatch(
            (
                r"(reboot|poweroff|halt|kexec|shutdown|rescue|emergency|suspend|hibernate|ctrl-alt-del|"
                r"sleep)(\.target|\.service)?"
            ),
            unit,
        )
        for unit in units
    ):
        call.report(POWER, "stops or restarts the machine")
    elif verb in ("stop", "disable", "mask", "kill", "revert", "freeze", "clean"):
        call.report(SERVICE_STOP, f"stops services: {' '.join(shown(unit) for unit in units[:4])}")
    elif verb == "isolate" or verb in (
        "set-default",
        "set-environment",
        "import-environment",
        "unset-environment",
        "set-property",
        "edit",
        "bind",
        "mount-image",
    ):
        call.report(SERVICE_ENABLE, f"changes how the machine starts: {verb}")
    elif verb in ("enable", "link", "preset", "reenable", "add-wants", "add-requires", "preset-all"):
        call.report(SERVICE_ENABLE, "makes something start by itself")
    elif verb in names(
        """
start restart reload try-restart reload-or-restart daemon-reload daemon-reexec reset-failed unmask condrestart
force-reload
"""
    ):
        call.report(SERVICE_RESTART, f"starts or restarts services: {verb}")
    return None


def judge_service(call: Call) -> str | None:
    """service, rc-service, invoke-rc.d and scripts of /etc/init.d."""
    words = [arg for arg in call.args if not arg.startswith("-")]
    verbs = words if call.argv[0].startswith("/etc/") else words[1:]
    if any(verb in ("stop", "zap", "force-stop", "remove", "delete", "once", "down", "exit") for verb in verbs):
        call.report(SERVICE_STOP, "stops a service")
    elif any(verb in ("restart", "reload", "start", "force-reload", "condrestart", "try-restart") for verb in verbs):
        call.report(SERVICE_RESTART, "starts or restarts a service")
    return None


def judge_crontab(call: Call) -> str | None:
    """crontab: -l shows, everything else changes what runs by itself."""
    if any(arg in ("-l", "--help", "-h", "-V", "-T") for arg in call.args) and "-r" not in call.args:
        return "\ue001\n"
    if any(re.match(r"-\w*[re]", arg) for arg in call.args) or call.args or call.stdin is not None:
        call.report(CRON, "changes what runs by itself at set times")
    return None


def judge_dbus(call: Call) -> str | None:
    """dbus-send, busctl, gdbus can ask the system to stop services or the machine."""
    text = " ".join(call.args)
    if re.search(
        (
            r"\.(PowerOff|Reboot|Halt|Suspend|Hibernate|KExec|HybridSleep)\b|\b(PowerOff|Reboot|Halt|"
            r"Suspend|Hibernate)\b"
        ),
        text,
    ):
        call.report(POWER, "stops or restarts the machine")
    elif re.search(
        (
            r"\b(StopUnit|KillUnit|DisableUnitFiles|MaskUnitFiles|KillSession|TerminateSession|TerminateUser|"
            r"KillUser)\b"
        ),
        text,
    ):
        call.report(SERVICE_STOP, "stops services")
    elif re.search(r"\b(StartTransientUnit|EnableUnitFiles|LinkUnitFiles)\b", text):
        call.report(SERVICE_ENABLE, "makes something start by itself")
    return None


def judge_loginctl(call: Call) -> str | None:
    """loginctl ends sessions, powers off, lets services linger."""
    words = " ".join(arg for arg in call.args if not arg.startswith("-"))
    if re.match(r"(poweroff|reboot|halt|suspend|hibernate|hybrid-sleep|kexec)", words):
        call.report(POWER, "stops or restarts the machine")
    elif re.match(r"(terminate|kill)-", words):
        call.report(SERVICE_STOP, "ends a person's sessions")
    elif re.match(r"(enable-linger|attach)", words):
        call.report(SERVICE_ENABLE, "lets services run when nobody is logged in")
    return None


def judge_launchctl(call: Call) -> str | None:
    """launchctl loads and unloads macOS services."""
    verb = next((arg for arg in call.args if not arg.startswith("-")), "")
    if verb in ("unload", "bootout", "remove", "stop", "disable", "kill"):
        call.report(SERVICE_STOP, "stops a service")
    elif verb in ("load", "bootstrap", "submit", "enable", "start", "setenv"):
        call.report(SERVICE_ENABLE, "makes something start by itself")
    return None


def judge_run_parts(call: Call) -> str | None:
    """run-parts runs every program of a directory."""
    for path in call.args:
        if not path.startswith("-"):
            content = read(call, path)
            execute(call, content, "a script") if "\ue003" in content else None
    return None


_POWER = names(
    """
shutdown reboot halt poweroff init telinit pm-hibernate
"""
)

RULES = (POWER, SERVICE_STOP, SERVICE_RESTART, SERVICE_ENABLE, CRON)

JUDGES: dict[str, Judge] = {
    **dict.fromkeys(_POWER, judge_power),
    "systemctl": judge_systemctl,
    **dict.fromkeys(("service", "rc-service", "invoke-rc.d", "rc.d"), judge_service),
    "crontab": judge_crontab,
    **dict.fromkeys(("dbus-send", "busctl", "gdbus", "qdbus"), judge_dbus),
    "loginctl": judge_loginctl,
    "launchctl": judge_launchctl,
    "run-parts": judge_run_parts,
}
