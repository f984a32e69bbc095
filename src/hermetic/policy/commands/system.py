"""The machine itself: disks, power, services, kernel, users, firewall, logs, scheduled jobs."""

from __future__ import annotations

import re

from hermetic.policy.call import Call, Judge
from hermetic.policy.effects import STARTUP_WRITE, SYSTEM_WRITE, read, write
from hermetic.policy.marks import DEVICE, LOCAL
from hermetic.policy.options import parse_options
from hermetic.policy.rules import Rule
from hermetic.policy.tables import names

from .services import SERVICE_RESTART, SERVICE_STOP

KERNEL = Rule(
    name="kernel-module",
    category="kernel-tamper",
    severity=9,
    effects=("changes shared state",),
    catches=("insmod ./x.ko", "modprobe evil", "sysctl -w kernel.sysrq=1", "swapoff -a", "kexec -l /tmp/k"),
    spares=("lsmod", "modinfo x", "sysctl -a", "sysctl kernel.hostname"),
)
MOUNT = Rule(
    name="mount",
    category="container-escape",
    severity=7,
    effects=("changes shared state",),
    catches=("mount /dev/sda1 /mnt", "sudo umount /home", "mount -o remount,rw /"),
    spares=("mount", "mount -l", "mount | grep ext4"),
)
ACCOUNT = Rule(
    name="user-account",
    category="user-account",
    severity=8,
    effects=("changes shared state",),
    catches=("useradd -o -u 0 x", "passwd -d root", "usermod -aG sudo dev", "echo a:b | chpasswd", "deluser bob"),
    spares=("id", "groups dev", "passwd -S", "chage -l dev"),
)
FIREWALL = Rule(
    name="firewall",
    category="firewall",
    severity=8,
    effects=("changes shared state",),
    catches=("iptables -F", "ufw disable", "setenforce 0", "nft flush ruleset", "pfctl -d"),
    spares=("iptables -L", "ufw status", "nft list ruleset", "getenforce"),
)
LOGS = Rule(
    name="clear-logs",
    category="log-wipe",
    severity=7,
    effects=("deletes",),
    catches=("journalctl --vacuum-size=1K", "dmesg -C", "auditctl -e 0"),
    spares=("journalctl -n 20", "dmesg | tail"),
)
TIME = Rule(
    name="system-settings",
    category="system-config-write",
    severity=6,
    effects=("changes shared state",),
    catches=("timedatectl set-ntp false", "hostnamectl set-hostname x", "date -s 2020-01-01", "localectl set-locale x"),
    spares=("timedatectl", "hostnamectl", "date +%s", "date"),
)
NETWORK = Rule(
    name="network-settings",
    category="firewall",
    severity=7,
    effects=("changes shared state", "network"),
    catches=("ip link set eth0 down", "ifconfig eth0 down", "ip route del default", "nmcli networking off"),
    spares=("ip addr show", "ifconfig", "ip route"),
)
RULES = (KERNEL, MOUNT, ACCOUNT, FIREWALL, LOGS, TIME, NETWORK)

_HELPING = frozenset({"--help", "--version", "-V", "-h", "-?"})


def _harmless(call: Call) -> bool:
    return any(arg in _HELPING for arg in call.args) or not call.args


def judge_sysctl(call: Call) -> str | None:
    """sysctl with a value, or from a file, changes the kernel."""
    if any("=" in arg for arg in call.args) or any(
        re.match(r"-\w*[wp]|--load|--system|--write", arg) for arg in call.args
    ):
        call.report(KERNEL, "changes kernel settings")
    return None


def judge_module(call: Call) -> str | None:
    """insmod, modprobe, rmmod, kexec, swapoff …"""
    if _harmless(call) and call.name not in ("depmod",):
        return None
    if call.name == "modprobe" and any(
        arg in ("-n", "--dry-run", "--show-depends", "-c", "--showconfig", "-D") for arg in call.args
    ):
        return None
    call.report(KERNEL, "changes what the kernel runs")
    return None


def judge_mount(call: Call) -> str | None:
    """mount and umount change the tree of files."""
    words = [arg for arg in call.args if not arg.startswith("-")]
    if (
        (not words and not any(arg in ("-a", "--all") for arg in call.args))
        or any(arg in ("--help", "-V", "--version") for arg in call.args)
        or (call.name == "mount" and "-l" in call.args and not words)
    ):
        return DEVICE + LOCAL + "\n"
    if (
        call.name in ("umount", "fusermount", "fusermount3")
        and words
        and all(call.place(word)[1] in ("temp", "workspace", "user") for word in words)
    ):
        call.report(SERVICE_RESTART, "unmounts a directory")
        return None
    call.report(MOUNT, "changes what is mounted")
    return None


def judge_account(call: Call) -> str | None:
    """useradd, passwd, usermod, chpasswd …"""
    if (
        any(arg in ("--help", "--version", "-S", "--status", "-l", "--list") for arg in call.args)
        and call.name not in ("usermod", "passwd")
    ) or (call.name == "passwd" and any(arg in ("-S", "--status", "--help") for arg in call.args)):
        return None
    if call.name == "chage" and not [arg for arg in call.args if arg.startswith("-") and arg not in ("-l", "--list")]:
        return None
    call.report(ACCOUNT, "changes who may use this machine")
    return None


def judge_firewall(call: Call) -> str | None:
    """iptables, nft, ufw, firewall-cmd, setenforce …"""
    text = " ".join(call.args)
    reads = {
        "iptables": r"(^|\s)(-[nv]*L\w*|--list\S*|-S|--list-rules|-C|--check|-V|--version|-h|--help)(\s|$)",
        "nft": r"^(-\w+\s+)*(list|describe|monitor|--check|-c|--version|-v)(\s|$)",
        "ufw": r"^(status|show|version|app (list|info)|--dry-run|--version|help)|--dry-run",
        "firewall-cmd": r"--(list|get|state|query|info|version|help|path|check)\S*",
        "pfctl": r"(^|\s)-\w*s",
        "ipset": r"^(list|-L|save|test|version|help)",
        "getsebool": r".",
        "apparmor_status": r".",
        "aa-status": r".",
        "ebtables": r"(^|\s)-L",
    }
    base = "iptables" if re.match(r"(ip6?tables|ebtables|arptables)(-\w+)?$", call.name) else call.name
    if base.startswith("iptables") and call.name.endswith("-save"):
        return None
    if base == "setenforce":
        if call.args[:1] in (["0"], ["Permissive"], ["permissive"]):
            call.report(FIREWALL, "turns off mandatory access control")
        return None
    if (not call.args and not call.name.endswith("-restore")) or (base in reads and re.search(reads[base], text)):
        return None
    call.report(FIREWALL, "changes the firewall or access control")
    return None


def judge_logs(call: Call) -> str | None:
    """journalctl, dmesg, auditctl, logrotate, wtmp tools."""
    text = " ".join(call.args)
    clears = {
        "journalctl": r"--(vacuum-\w+|rotate|flush|relinquish-var)",
        "dmesg": r"(^|\s)(-\w*[cCDn]\w*|--clear|--read-clear|--console-off)(\s|=|$)",
        "auditctl": r"(^|\s)-(e\s*0|D|d)",
        "logrotate": r"(^|\s)(-f|--force)",
        "utmpdump": r"(^|\s)(-r|--reverse)",
        "wevtutil": r"\bcl\b",
        "faillock": r"--reset",
        "lastlog": r"(^|\s)-[CS]",
        "ausearch": r"(?!)",
        "log": r"^erase",
    }
    if re.search(clears.get(call.name, r"(?!)"), text):
        call.report(LOGS, "clears or stops logs")
        return None
    return "\ue001\n"


def judge_date(call: Call) -> str | None:
    """date -s and hwclock -w set the clock."""
    if (any(re.match(r"-\w*s|--set", arg) for arg in call.args if not arg.startswith("+")) and call.name == "date") or (
        call.name == "hwclock" and any(arg in ("-w", "-s", "--systohc", "--hctosys", "--set") for arg in call.args)
    ):
        call.report(TIME, "sets the clock")
    for path in parse_options(call.args, "dfrs", ("date", "file", "reference", "set")).values("f", "file"):
        read(call, path)
    return "\ue001\n"


def judge_ip(call: Call) -> str | None:
    """ip, ifconfig, route, nmcli, tc: showing is fine."""
    text = " ".join(call.args)
    if call.name == "ip":
        if re.search(r"(^|\s)-(b|ba|bat|batch)\s|\b(set|del|delete|flush|add|change|replace|append|exec)\b", text):
            match = re.search(r"\bnetns exec \S+ (.+)", text)
            if match:
                at = call.args.index("exec")
                return call.run(call.args[at + 2 :])
            call.report(NETWORK, "changes network settings")
    elif call.name in ("ifconfig", "iwconfig"):
        if re.search(r"\b(up|down|netmask|add|del|hw|promisc)\b|\d+\.\d+\.\d+", text):
            call.report(NETWORK, "changes network settings")
    elif call.name == "route":
        if re.search(r"\b(add|del|delete|flush|change)\b", text):
            call.report(NETWORK, "changes network settings")
    elif call.name == "networksetup":
        if re.search(r"-(set|add|remove|create|delete|switch)\w*", text):
            call.report(NETWORK, "changes network settings")
    elif re.search(r"\b(off|down|delete|modify|mod|add|up|disconnect|del|replace|change)\b", text):
        call.report(NETWORK, "changes network settings")
    return None


def judge_settings(call: Call) -> str | None:
    """timedatectl, hostnamectl, localectl, scutil, nvram, bootctl, grub …"""
    text = " ".join(call.args)
    if call.name in (
        "timedatectl",
        "hostnamectl",
        "localectl",
        "resolvectl",
        "networkctl",
        "homectl",
        "machinectl",
        "portablectl",
    ):
        if re.search(
            (
                r"(^|\s)(set-\S+|down|revert|dns\s+\S+\s+\S+|remove|terminate|poweroff|"
                r"reboot|kill|hostname\s+\S+|chassis\s+\S+)"
            ),
            text,
        ):
            call.report(TIME, "changes settings of the machine")
    elif call.name == "hostname":
        if text and not text.startswith("-"):
            call.report(TIME, "changes the machine's name")
    elif (
        text
        and not re.search(
            (
                r"(^|\s)(-l|--list|list|status|show|print|-p|get|read|--help|--version|-v|--get|query|"
                r"is-\w+|--print\S*)(\s|$)"
            ),
            text,
        )
    ) or call.name in ("update-grub", "grub-install", "update-initramfs"):
        call.report(TIME, "changes how the machine starts or is set up")
    return None


def judge_alternatives(call: Call) -> str | None:
    """update-alternatives, dpkg-divert, ldconfig, update-rc.d, authselect …: how the system is wired together."""
    text = " ".join(call.args)
    if re.search(
        (
            r"--(query|display|list|get-selections|help|version|print-cache|listpackage|truename)|"
            r"^-p|^(list|current|check)\b"
        ),
        text,
    ):
        return None
    if call.name in ("update-rc.d", "chkconfig") and re.search(r"\b(disable|remove|off|--del)\b", text):
        call.report(SERVICE_STOP, "keeps a service from starting")
    elif call.name != "ldconfig" or call.args:
        call.report(SYSTEM_WRITE, "changes how the system is wired together")
    return None


def judge_ini(call: Call) -> str | None:
    """crudini, augtool, debconf: edit settings files by key."""
    words = [arg for arg in call.args if not arg.startswith("-")]
    edits = any(
        re.fullmatch(r"--(set|del|merge|inplace)|-[sd]|set|rm|ins|mv|--autosave", arg) for arg in call.args
    ) or call.name in ("sponge",)
    for word in words:
        path = word[6:] if word.startswith("/files/") else word
        if "/" in path and edits:
            write(call, path)
    if call.stdin and call.name == "augtool":
        for path in re.findall(r"(?:set|rm)\s+/files(/\S+)", call.stdin):
            write(call, path)
    return None


def judge_ssh_copy_id(call: Call) -> str | None:
    """ssh-keygen writes keys; -R and -f name files."""
    options = parse_options(call.args, "abCEFfImNnOPRrSsTtVWYzZ", ())
    path = options.value("f")
    if path and not options.has("y", "l", "F", "e", "B"):
        _full, place = call.place(path)
        if place == "startup":
            write(call, path)
    elif path and options.has("y"):
        read(call, path)
    if call.name == "ssh-copy-id":
        call.report(STARTUP_WRITE, "lets a key log in to another machine")
    return None


_ACCOUNT = names(
    """
useradd userdel usermod adduser deluser addgroup delgroup groupadd groupdel groupmod gpasswd passwd chpasswd
chgpasswd newusers chsh chfn chage pwconv pwunconv grpconv vipw vigr dscl sysadminctl pw lpasswd smbpasswd
dseditgroup newuidmap faillog
"""
)

JUDGES: dict[str, Judge] = {
    "sysctl": judge_sysctl,
    **dict.fromkeys(
        ("insmod", "modprobe", "rmmod", "kexec", "swapoff", "depmod", "dkms", "kpatch", "crash"), judge_module
    ),
    **dict.fromkeys(("mount", "umount", "fusermount", "fusermount3", "mount.nfs", "mount.cifs"), judge_mount),
    **dict.fromkeys(_ACCOUNT, judge_account),
    **dict.fromkeys(
        names(
            """
iptables ip6tables iptables-restore ip6tables-restore iptables-legacy iptables-nft ebtables arptables nft ufw
firewall-cmd pfctl setenforce ipset ipfw
"""
        ),
        judge_firewall,
    ),
    **dict.fromkeys(
        names(
            """
journalctl dmesg auditctl logrotate utmpdump wevtutil faillock lastlog log
"""
        ),
        judge_logs,
    ),
    **dict.fromkeys(("date", "hwclock"), judge_date),
    **dict.fromkeys(
        names(
            """
ip ifconfig iwconfig route nmcli tc brctl rfkill networksetup
"""
        ),
        judge_ip,
    ),
    **dict.fromkeys(
        names(
            """
timedatectl hostnamectl hostname localectl resolvectl networkctl scutil bootctl grub-install update-grub grub-mkconfig
update-initramfs dracut mkinitcpio grub-set-default grub-reboot homectl portablectl
"""
        ),
        judge_settings,
    ),
    **dict.fromkeys(
        names(
            """
update-alternatives alternatives dpkg-divert ldconfig update-rc.d chkconfig authselect pam-auth-update
update-ca-certificates update-ca-trust trust dpkg-statoverride update-pciids
"""
        ),
        judge_alternatives,
    ),
    **dict.fromkeys(("crudini", "augtool"), judge_ini),
    **dict.fromkeys(("ssh-keygen", "ssh-copy-id"), judge_ssh_copy_id),
}
