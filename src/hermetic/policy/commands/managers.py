"""Programs that manage services, backups, virtual machines, access control and firmware, known by their verbs."""

from __future__ import annotations

from hermetic.policy.call import Call, Judge
from hermetic.policy.effects import LOG_WIPE, SYSTEM_WRITE, read
from hermetic.policy.network import check_sent

from .disks import FORMAT
from .services import CRON, POWER, SERVICE_ENABLE, SERVICE_RESTART, SERVICE_STOP
from .system import ACCOUNT, FIREWALL, KERNEL, MOUNT, NETWORK, TIME
from .verbs import Verbs, judge_with

_HOST_DISK = r"config device add .*source=/(\s|$|etc|root|home|var|dev|proc)"
_TABLE: dict[str, Verbs] = {
    "supervisorctl": Verbs(
        (
            ("^(stop|shutdown|remove)", SERVICE_STOP, "stops services"),
            ("^(restart|reload|update|start)", SERVICE_RESTART, "restarts services"),
        )
    ),
    "pm2": Verbs(
        (
            ("^(delete|kill|del)|^stop all", SERVICE_STOP, "stops services"),
            ("^(startup|save)", SERVICE_ENABLE, "makes something start by itself"),
            ("^(stop|restart|reload|start)", SERVICE_RESTART, "restarts services"),
        )
    ),
    "initctl": Verbs(
        (("^stop", SERVICE_STOP, "stops a service"), ("^(start|restart|reload)", SERVICE_RESTART, "restarts a service"))
    ),
    "sv": Verbs(
        (
            ("^(down|stop|exit|force-stop|shutdown|kill|d|x) ", SERVICE_STOP, "stops a service"),
            ("^(up|restart|start)", SERVICE_RESTART, "restarts a service"),
        )
    ),
    "s6-svc": Verbs((("!-[dxDk]", SERVICE_STOP, "stops a service"),)),
    "monit": Verbs(
        (
            ("^(stop|unmonitor|quit)", SERVICE_STOP, "stops services"),
            ("^(restart|start|reload)", SERVICE_RESTART, "restarts services"),
        )
    ),
    "rc-update": Verbs(
        (
            ("^(del|delete)", SERVICE_STOP, "keeps a service from starting"),
            ("^add", SERVICE_ENABLE, "makes a service start"),
        )
    ),
    "svcadm": Verbs(
        (
            ("^disable", SERVICE_STOP, "stops a service"),
            ("^(restart|refresh|enable)", SERVICE_RESTART, "restarts a service"),
        )
    ),
    "sc": Verbs((("^(stop|delete|config)", SERVICE_STOP, "stops a service"),)),
    "net": Verbs(
        (
            ("^stop", SERVICE_STOP, "stops a service"),
            ("^(user|localgroup) .*", ACCOUNT, "changes who may use this machine"),
            ("^(usershare add|share) ", NETWORK, "offers files to other machines"),
        )
    ),
    "nginx": Verbs(
        (
            ("!-s (stop|quit)", SERVICE_STOP, "stops the web server"),
            ("!-s reload", SERVICE_RESTART, "reloads the web server"),
        )
    ),
    "apachectl": Verbs((("^(stop|graceful-stop)", SERVICE_STOP, "stops the web server"),)),
    "apache2ctl": Verbs((("^(stop|graceful-stop)", SERVICE_STOP, "stops the web server"),)),
    "pg_ctl": Verbs(
        (
            ("(^|\\s)(stop|kill)", SERVICE_STOP, "stops the database"),
            ("restart|reload|promote", SERVICE_RESTART, "restarts the database"),
        )
    ),
    "pg_ctlcluster": Verbs(
        (("stop", SERVICE_STOP, "stops the database"), ("restart|reload", SERVICE_RESTART, "restarts the database"))
    ),
    "rabbitmqctl": Verbs(
        (
            (
                (
                    "^(stop|stop_app|shutdown|reset|force_reset|delete_\\w+|purge_queue|close_all\\w*|forget_cluster_"
                    "node|clear_\\w+)"
                ),
                SERVICE_STOP,
                "stops or empties the message broker",
            ),
        )
    ),
    "tccutil": Verbs((("^reset", SYSTEM_WRITE, "resets privacy settings"),)),
    "csrutil": Verbs((("^(disable|clear|authenticated-root)", KERNEL, "turns off system protection"),)),
    "spctl": Verbs((("!--(master-disable|global-disable|add)", KERNEL, "turns off system protection"),)),
    "diskutil": Verbs(
        (
            (
                (
                    "^(erase\\w*|partitionDisk|reformat|zeroDisk|secureErase|randomDisk|unmountDisk|apfs "
                    "delete\\w*|eraseVolume)"
                ),
                FORMAT,
                "erases a disk",
            ),
        )
    ),
    "tmutil": Verbs((("^(delete\\w*|disable|thin\\w*)", LOG_WIPE, "deletes backups"),)),
    "vssadmin": Verbs((("^delete", LOG_WIPE, "deletes backups"),)),
    "bcdedit": Verbs((("!/(set|delete)", KERNEL, "changes how the machine starts"),)),
    "reg": Verbs((("^(delete|add|import)", SYSTEM_WRITE, "changes the registry"),)),
    "schtasks": Verbs((("!/(create|delete|change)", CRON, "changes what runs by itself"),)),
    "cipher": Verbs((("!/w", FORMAT, "overwrites free space"),)),
    "diskpart": Verbs((("!.*", FORMAT, "changes disks"),)),
    "netsh": Verbs((("advfirewall|firewall", FIREWALL, "changes the firewall"),)),
    "snapper": Verbs((("^(-c \\S+ )?(delete|rollback|undochange)", LOG_WIPE, "deletes snapshots"),)),
    "timeshift": Verbs((("!--(delete|delete-all|restore)", LOG_WIPE, "deletes or restores snapshots"),)),
    "restic": Verbs(
        (("(^|\\s)(forget|prune|unlock|key remove)", LOG_WIPE, "deletes backups"),), harmless="--dry-run|-n"
    ),
    "borg": Verbs((("(^|\\s)(delete|prune|compact|recreate)", LOG_WIPE, "deletes backups"),), harmless="--dry-run|-n"),
    "duplicity": Verbs((("(^|\\s)(remove-\\S+|cleanup)", LOG_WIPE, "deletes backups"),)),
    "rclone": Verbs(
        (
            (
                "^(delete|purge|deletefile|rmdirs?|cleanup|sync|dedupe|move)( |$)",
                LOG_WIPE,
                "deletes files in remote storage",
            ),
        ),
        harmless="--dry-run|(^|\\s)-n(\\s|$)",
    ),
    "pvesm": Verbs((("^(free|remove)", FORMAT, "deletes a volume"),)),
    "virsh": Verbs(
        (
            (
                (
                    "^(destroy|undefine|qemu-agent-command|shutdown|reboot|vol-delete|pool-delete|pool-destroy|net-destroy|snapshot-dele"
                    "te|reset)"
                ),
                SERVICE_STOP,
                "stops or deletes machines",
            ),
        )
    ),
    "VBoxManage": Verbs(
        (
            (
                "(unregistervm|controlvm .* (poweroff|reset)|closemedium .*delete|snapshot .* delete)",
                SERVICE_STOP,
                "stops or deletes machines",
            ),
        )
    ),
    "vagrant": Verbs((("^destroy", SERVICE_STOP, "deletes a machine"),)),
    "multipass": Verbs((("^(delete|purge|stop)", SERVICE_STOP, "deletes machines"),)),
    "lxc": Verbs(
        (
            ("^(delete|stop|image delete|storage delete|network delete)", SERVICE_STOP, "deletes containers"),
            (_HOST_DISK, MOUNT, "opens the host to a container"),
        )
    ),
    "incus": Verbs(
        (("^(delete|stop)", SERVICE_STOP, "deletes containers"), (_HOST_DISK, MOUNT, "opens the host to a container"))
    ),
    "gnome-session-quit": Verbs((("!--(power-off|reboot)", POWER, "powers the machine off"),)),
    "xfce4-session-logout": Verbs((("!--(halt|reboot)", POWER, "powers the machine off"),)),
    "qm": Verbs((("^(destroy|stop|shutdown|reset)", SERVICE_STOP, "stops or deletes machines"),)),
    "pct": Verbs((("^(destroy|stop|shutdown)", SERVICE_STOP, "stops or deletes containers"),)),
    "xl": Verbs((("^(destroy|shutdown)", SERVICE_STOP, "stops machines"),)),
    "tailscale": Verbs(
        (("^(up|down|logout|funnel|serve|set)", NETWORK, "changes who can reach this machine"),),
        harmless="serve status|funnel status",
    ),
    "wg-quick": Verbs((("^(up|down)", NETWORK, "changes network settings"),)),
    "wg": Verbs((("^(set|setconf|addconf|syncconf)", NETWORK, "changes network settings"),)),
    "semanage": Verbs((("!-[admD]|--(add|delete|modify)", FIREWALL, "changes access control"),)),
    "setsebool": Verbs((("!.", FIREWALL, "changes access control"),)),
    "aa-teardown": Verbs((("!.*", FIREWALL, "turns off access control"),)),
    "aa-disable": Verbs((("!.*", FIREWALL, "turns off access control"),)),
    "aa-complain": Verbs((("!.*", FIREWALL, "turns off access control"),)),
    "apparmor_parser": Verbs((("!(^|\\s)-(R|-remove)", FIREWALL, "turns off access control"),)),
    "fail2ban-client": Verbs((("^(stop|unban|set)|^reload --unban", FIREWALL, "turns off protection"),)),
    "freshclam": Verbs(()),
    "chronyc": Verbs((("^(settime|makestep|offline)", TIME, "changes the clock"),)),
    "dpkg-reconfigure": Verbs((("!.", SYSTEM_WRITE, "changes how a package is set up"),)),
    "bpftool": Verbs((("(^|\\s)(load|attach|detach|pin|loadall)", KERNEL, "changes what the kernel runs"),)),
    "ipcrm": Verbs((("!.", KERNEL, "removes shared memory"),)),
    "swapon": Verbs((("!^/", KERNEL, "changes swap"),)),
    "nvram": Verbs((("!=|-[cd]", KERNEL, "changes firmware settings"),)),
    "efibootmgr": Verbs(
        (("!-[BbocnON]|--(delete|create|bootorder|bootnext)", KERNEL, "changes how the machine starts"),)
    ),
    "flashrom": Verbs((("!-[wE]", KERNEL, "overwrites firmware"),)),
    "fwupdmgr": Verbs((("^(update|install|downgrade)", KERNEL, "changes firmware"),)),
    "ipmitool": Verbs(
        (("power (off|cycle|reset|soft)|sel clear|user set|chassis power", POWER, "powers a machine off"),)
    ),
    "rtcwake": Verbs((("!.", POWER, "suspends the machine"),)),
    "pm-suspend": Verbs((("!.*", POWER, "suspends the machine"),)),
    "incrontab": Verbs((("!-[er]|^-$|^[^-]", CRON, "changes what runs by itself"),)),
    "anacron": Verbs((("!-\\w*[fn]", CRON, "starts jobs before their time"),)),
    "defaults": Verbs(
        (
            ("(?i)^(write|delete) .*(loginhook|loginwindow|launch|autostart)", CRON, "changes what runs by itself"),
            ("^(write|delete|import) /", SYSTEM_WRITE, "changes settings of the machine"),
        )
    ),
    "gsettings": Verbs((("^set .*(custom-keybinding|proxy|lockdown|autorun|command)", CRON, "changes the desktop"),)),
    "dconf": Verbs((("^(write|load|reset)", CRON, "changes the desktop"),)),
    "debconf-set-selections": Verbs((("!.*", SYSTEM_WRITE, "changes how packages are set up"),)),
    "apt-mark": Verbs((("^(hold|auto)", SYSTEM_WRITE, "keeps packages from being mended"),)),
    "pmset": Verbs((("^(sleepnow|displaysleepnow|schedule|repeat)|!-[abcu] ", POWER, "suspends the machine"),)),
    "xattr": Verbs((("!-\\w*d\\S* com\\.apple\\.quarantine", KERNEL, "turns off system protection"),)),
    "icacls": Verbs((("!/(grant|setowner|reset|remove)", ACCOUNT, "changes who may use files"),)),
    "takeown": Verbs((("!.", ACCOUNT, "changes who owns files"),)),
    "mokutil": Verbs((("!--(disable|import|delete|reset|enable|revoke)", KERNEL, "changes what the machine starts"),)),
    "grubby": Verbs((("!--(update|remove|set|add|args)", KERNEL, "changes how the machine starts"),)),
    "conntrack": Verbs((("!-[FDU]|--(flush|delete)", FIREWALL, "changes the firewall"),)),
    **dict.fromkeys(("ifdown", "ifup"), Verbs((("!.", NETWORK, "changes network settings"),))),
    **dict.fromkeys(
        ("ldapadd", "ldapdelete", "ldapmodify", "ldapmodrdn", "ldappasswd"),
        Verbs((("!.", ACCOUNT, "changes who may log in"),), harmless="(^|\\s)-n(\\s|$)"),
    ),
    **dict.fromkeys(
        ("kadmin", "kadmin.local"),
        Verbs((("!\\b(addprinc|delprinc|modprinc|cpw|ktadd|delete|add|change)", ACCOUNT, "changes who may log in"),)),
    ),
    "ipa": Verbs((("-(add|del|mod|disable|remove)\\b|^passwd", ACCOUNT, "changes who may log in"),)),
    "samba-tool": Verbs((("\\b(add|create|delete|setpassword|disable|remove)", ACCOUNT, "changes who may log in"),)),
    "wmic": Verbs((("\\bcall (shutdown|reboot|win32shutdown)|process call create", POWER, "stops the machine"),)),
    **dict.fromkeys(
        ("Restart-Computer", "Stop-Computer", "zzz", "ZZZ", "hibernate"), Verbs((("!.*", POWER, "stops the machine"),))
    ),
    "rabbitmqadmin": Verbs((("\\b(delete|purge)\\b", SERVICE_STOP, "empties the message broker"),)),
    "neo4j-admin": Verbs((("\\b(delete|load|unbind)\\b", SERVICE_STOP, "deletes a database"),)),
    "bmaptool": Verbs((("^copy .*/dev/", FORMAT, "overwrites a disk"),)),
    "machinectl": Verbs((("^shell \\.host|^(poweroff|reboot|terminate|kill|remove)", MOUNT, "reaches the host"),)),
    "resolvconf": Verbs((("!-[ad]", NETWORK, "changes network settings"),)),
    **dict.fromkeys(("update-locale", "locale-gen"), Verbs((("!.", SYSTEM_WRITE, "changes settings of the machine"),))),
    "setpci": Verbs((("!=", KERNEL, "changes a device"),)),
    "wrmsr": Verbs((("!.", KERNEL, "changes the processor"),)),
    "nvidia-smi": Verbs((("!(^|\\s)(-r|--gpu-reset|-pm|-pl|-e|-c|-lgc)(\\s|=|$)", KERNEL, "changes a device"),)),
    "ethtool": Verbs((("!(^|\\s)-[sKAGLCfEXN]\\b|--(change|set|reset|flash)", NETWORK, "changes network settings"),)),
    "usbreset": Verbs((("!.", KERNEL, "resets a device"),)),
}


def judge_rclone(call: Call) -> str | None:
    """rclone copies to remote storage; credentials among what it sends are reported."""
    words = [arg for arg in call.args if not arg.startswith("-")]
    if words[:1] and words[0] in ("copy", "copyto", "sync", "move", "moveto", "rcat") and ":" in words[-1]:
        sent = [read(call, path, tree=True) for path in words[1:-1] if ":" not in path]
        check_sent(call, *sent, call.stdin or "" if words[0] == "rcat" else "")
    if words[:1] and words[0] in ("purge", "delete", "deletefile", "rmdir", "rmdirs"):
        for path in words[1:]:
            if ":" not in path:
                call.machine.note("delete", call.place(path)[0], scope="tree")
    return _BY_VERB["rclone"](call)


_BY_VERB = judge_with(_TABLE)
JUDGES: dict[str, Judge] = {**_BY_VERB, "rclone": judge_rclone}
