"""Programs that do the same on many machines or reach into a device: ansible, pdsh, adb."""

from __future__ import annotations

import itertools
import re

from hermetic.policy.call import Call, Judge
from hermetic.policy.destroys import CLOUD_CHANGES, CLOUD_DESTROYS
from hermetic.policy.effects import write

from .verbs import words_of


def judge_ansible(call: Call) -> str | None:
    """ansible runs modules on many machines."""
    args = call.args
    text = " ".join(args)
    if (
        "--check" in args
        or "-C" in args
        or "--syntax-check" in args
        or "--list-hosts" in args
        or "--list-tasks" in args
        or "--version" in args
        or "--help" in args
    ):
        return None
    module = next(
        (value for flag, value in itertools.pairwise(args) if flag in ("-m", "--module-name")),
        "command" if call.name == "ansible" else "",
    )
    argument = next((value for flag, value in itertools.pairwise(args) if flag in ("-a", "--args")), "")
    if call.name == "ansible" and module.rsplit(".", 1)[-1] in ("shell", "command", "raw", "script", "win_shell"):
        if argument:
            call.machine.run_text(argument.removeprefix("cmd="), call.shell.elsewhere(), None)
        return None
    if call.name == "ansible" and module.rsplit(".", 1)[-1] in ("ping", "setup", "debug", "gather_facts"):
        return None
    if (
        re.search(r"state[=:\"' ]+(absent|stopped|killed|purged)", text)
        or re.search(r"(teardown|destroy|nuke|wipe|decommission|delete|purge|uninstall)\S*\.ya?ml", text)
        or module.rsplit(".", 1)[-1] in ("reboot", "shutdown", "user", "filesystem", "parted", "win_reboot")
    ):
        call.report(CLOUD_DESTROYS, "stops or removes things on many machines")
    elif call.name == "ansible" and module.rsplit(".", 1)[-1] in (
        "file",
        "copy",
        "lineinfile",
        "template",
        "blockinfile",
    ):
        for path in re.findall(r"(?:path|dest|name)=(\S+)", argument):
            other = call.again(["tee", path])
            other.shell = call.shell.elsewhere()
            write(other, path)
    else:
        call.report(CLOUD_CHANGES, "changes other machines")
    return None


def judge_fabric(call: Call) -> str | None:
    """pdsh, pssh, clush, fab: the same command on many machines."""
    words = words_of(call.args, "-w -h -H -l -t -f -g -x -X -o -e -i -p -u")
    text = " ".join(words)
    if text:
        call.machine.run_text(text, call.shell.elsewhere(), None)
    return None


def judge_device(call: Call) -> str | None:
    """adb and fastboot reach into a phone."""
    words = words_of(call.args, "-s -t -H -P")
    if words[:1] == ["shell"] and len(words) > 1:
        at = call.args.index("shell")
        call.machine.run_text(" ".join(call.args[at + 1 :]), call.shell.elsewhere(), None)
    elif words[:1] and words[0] in ("erase", "format", "flash", "flashing", "oem", "update", "flashall", "wipe-super"):
        call.report(CLOUD_DESTROYS, "overwrites a device")
    elif words[:1] == ["tcpip"]:
        call.report(CLOUD_DESTROYS, "opens a device to the network")
    elif words[:1] in (["uninstall"], ["sideload"], ["reboot"]) or "-w" in call.args:
        call.report(CLOUD_DESTROYS if "-w" in call.args else CLOUD_CHANGES, "changes a device")
    return None


JUDGES: dict[str, Judge] = {
    **dict.fromkeys(("ansible", "ansible-playbook", "ansible-pull"), judge_ansible),
    **dict.fromkeys(("pdsh", "pssh", "fab", "clush", "parallel-ssh", "dsh", "mussh"), judge_fabric),
    **dict.fromkeys(("adb", "fastboot"), judge_device),
}
