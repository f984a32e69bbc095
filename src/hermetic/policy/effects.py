"""What deleting, writing and reading a path means, by the kind of place it is."""

from __future__ import annotations

from hermetic.policy.tables import names

from .budget import copying
from .call import Call
from .marks import DEVICE, ENDLESS, FILE, GLOBS, NET, PIDS, SECRET, STAR, UNKNOWN, has_glob, is_known, shown
from .paths import below_home, classify, follow, is_env_file, is_secret, resolve
from .protected import protect_ours
from .rules import Rule

ROOT_DELETE = Rule(
    name="delete-system",
    category="recursive-delete",
    severity=10,
    effects=("deletes",),
    hardline=True,
    catches=("rm -rf /", "rm -rf /etc", "find /usr -delete", "rm -rf ~", "sudo rm -r /var/lib", "rm -rf /[a-z]*"),
    spares=("rm -rf ./build", "echo rm -rf /", "rm -rf /tmp/x", "ls /etc"),
)
OUTSIDE_DELETE = Rule(
    name="delete-outside",
    category="recursive-delete",
    severity=8,
    effects=("deletes",),
    catches=("rm -rf /srv/app", "rm -rf ../other", "rm -r ~/Documents", "rm ~/notes.txt"),
    spares=("rm -rf build", "rm -rf ~/.cache/pip", "rm notes.txt"),
)
SYSTEM_FILE_DELETE = Rule(
    name="delete-system-file",
    category="system-path-delete",
    severity=9,
    effects=("deletes",),
    catches=("rm /etc/passwd", "unlink /usr/bin/env"),
    spares=("rm ./etc/passwd", "cat /etc/passwd"),
)
UNKNOWN_DELETE = Rule(
    name="delete-unknown",
    category="recursive-delete",
    severity=8,
    effects=("deletes",),
    catches=('rm -rf "$NOT_SEEN"', 'rm -rf "$NOT_SEEN/"*', "cat list | xargs rm -rf", 'dd if=x of="$NOT_SEEN"'),
    spares=('d=build; rm -rf "$d"', 't=$(mktemp -d); rm -rf "$t"'),
)
WORKSPACE_WIPE = Rule(
    name="wipe-workspace",
    category="recursive-delete",
    severity=8,
    effects=("deletes",),
    catches=("rm -rf .", "rm -rf *", "find . -delete"),
    spares=("rm -rf dist", "find . -name '*.pyc' -delete"),
)
GIT_DELETE = Rule(
    name="delete-git-directory",
    category="git-history",
    severity=9,
    effects=("deletes",),
    catches=("rm -rf .git", "mv .git /tmp/x"),
    spares=("rm .gitignore", "rm -f .git/index.lock"),
)
WORKSPACE_DELETE = Rule(
    name="delete-in-workspace",
    category="workspace-delete",
    label="caution",
    severity=3,
    effects=("deletes",),
    catches=("rm -rf build", "rm -rf /tmp/scratch", "rm -rf ~/.cache/pip"),
    spares=("rm a.txt", "ls build"),
)
DISK_WRITE = Rule(
    name="write-disk",
    category="disk-write",
    severity=10,
    effects=("writes", "deletes"),
    hardline=True,
    catches=("dd if=/dev/zero of=/dev/sda", "cat x > /dev/nvme0n1", "tee /dev/sd{a,b} < x"),
    spares=("dd if=/dev/zero of=disk.img", "ls > /dev/null", "dd if=/dev/sda of=/dev/null count=1"),
)
SYSTEM_WRITE = Rule(
    name="write-system",
    category="system-config-write",
    severity=8,
    effects=("writes",),
    catches=("echo x > /etc/hosts", "cp a /usr/bin/ls", "echo x | sudo tee -a /etc/fstab", "cd /etc && echo x > hosts"),
    spares=("echo x > ./etc/hosts", "cp /etc/hosts .", "echo x > /tmp/hosts"),
)
KERNEL_WRITE = Rule(
    name="write-kernel",
    category="kernel-tamper",
    severity=9,
    effects=("writes", "changes shared state"),
    catches=("echo 1 > /proc/sys/kernel/sysrq", "echo x > /sys/power/state"),
    spares=("cat /proc/cpuinfo",),
)
POWER_WRITE = Rule(
    name="write-sysrq",
    category="system-power",
    severity=10,
    effects=("changes shared state",),
    hardline=True,
    catches=("echo b > /proc/sysrq-trigger",),
    spares=("cat /proc/sys/kernel/sysrq",),
)
LOG_WIPE = Rule(
    name="write-log",
    category="log-wipe",
    severity=7,
    effects=("writes", "deletes"),
    catches=("> /var/log/syslog", "rm -f ~/.bash_history", "truncate -s 0 /var/log/auth.log"),
    spares=("tail /var/log/syslog",),
)
STARTUP_WRITE = Rule(
    name="write-startup",
    category="persistence",
    severity=8,
    effects=("writes", "changes shared state"),
    catches=("echo x >> ~/.bashrc", "cp k ~/.ssh/authorized_keys", "ln -sf x ~/.config/autostart/x.desktop"),
    spares=("cat ~/.bashrc", "echo x > ~/notes.txt", "cp ~/.bashrc bashrc.copy"),
)
HOOK_WRITE = Rule(
    name="write-git-hook",
    category="persistence",
    severity=8,
    effects=("writes", "executes unseen code"),
    catches=("echo x > .git/hooks/pre-commit", "cp a .git/config"),
    spares=("ls .git/hooks", "echo x > hooks/pre-commit"),
)
OUTSIDE_WRITE = Rule(
    name="write-outside",
    category="system-config-write",
    severity=7,
    effects=("writes",),
    catches=(
        "echo x > /srv/app/config",
        "cp a /home/bob/x",
        "echo x > /opt/a",
        'for f in ~/*; do : > "$f"; done',
        "find ~ -type f -exec shred {} +",
    ),
    spares=("echo x > a", "echo x > /tmp/a"),
)
HOME_WRITE = Rule(
    name="write-home",
    category="config-user",
    label="caution",
    severity=3,
    effects=("writes",),
    catches=("echo x > ~/notes.txt", "echo A=1 >> .env"),
    spares=("echo x > notes.txt",),
)
UNKNOWN_WRITE = Rule(
    name="write-unknown",
    category="config-user",
    label="caution",
    severity=4,
    effects=("writes",),
    catches=('echo x > "$NOT_SEEN"',),
    spares=('f=out.txt; echo x > "$f"',),
)
SECRET_READ = Rule(
    name="read-secret",
    category="secret-read",
    severity=8,
    effects=("reads secrets",),
    catches=(
        "cat ~/.ssh/id_rsa",
        "xxd ~/.aws/credentials",
        "sudo cat /etc/shadow",
        "cp ~/.netrc ./x",
        "grep '' ~/.pgpass",
    ),
    spares=("cat ~/.ssh/id_rsa.pub", "ls ~/.ssh", "ssh -i ~/.ssh/id_rsa host uptime", "echo ~/.ssh/id_rsa"),
)
SECRET_NEAR = Rule(
    name="read-env-file",
    category="secret-adjacent",
    label="caution",
    severity=4,
    effects=("reads secrets",),
    catches=("cat .env", "grep KEY .env.local", "cat ~/.bash_history"),
    spares=("cat .env.example",),
)

RULES = (
    ROOT_DELETE,
    OUTSIDE_DELETE,
    SYSTEM_FILE_DELETE,
    UNKNOWN_DELETE,
    WORKSPACE_WIPE,
    GIT_DELETE,
    WORKSPACE_DELETE,
    DISK_WRITE,
    SYSTEM_WRITE,
    KERNEL_WRITE,
    POWER_WRITE,
    LOG_WIPE,
    STARTUP_WRITE,
    HOOK_WRITE,
    OUTSIDE_WRITE,
    HOME_WRITE,
    UNKNOWN_WRITE,
    SECRET_READ,
    SECRET_NEAR,
)

_SHARED_TOOLS = frozenset(
    names(
        """
sudo ls git ssh python python3 bash sh cat ps su npm node
"""
    )
)


def delete(call: Call, path: str, *, recursive: bool) -> None:
    """Judge that the program deletes a path."""
    if not path:
        return
    full, place = call.place(path)
    behind = follow(full, call.shell)
    if behind != full and (path.endswith("/") or full not in call.shell.links):
        full, place = call.place(behind)  # a link itself may go, what lies behind it is deleted with `link/`
    if full in call.shell.moved:  # it is what it was, wherever it was put before it goes
        full, place = call.place(call.shell.moved[full])
    name = shown(path)
    call.machine.note("delete", full, scope="tree" if recursive else "one")
    protect_ours(call, full, name)
    if place in ("unknown", "root") and path[:1] in UNKNOWN:
        what = (
            "a path that cannot be known"
            if is_known(path.lstrip(UNKNOWN)) is False
            else "a path with an unknown beginning"
        )
        call.report(UNKNOWN_DELETE, f"deletes {what}: {name}", full)
    elif place in ("root", "home") or (place == "system" and recursive):
        call.report(ROOT_DELETE, f"deletes {_what(place)}: {name}", full)
    elif place in ("system", "device", "disk", "kernel"):
        call.report(SYSTEM_FILE_DELETE, f"deletes part of the system: {name}", full)
    elif place in ("log", "history"):
        call.report(LOG_WIPE, f"deletes logs or history: {name}", full)
    elif place in ("git", "hook"):
        if place == "hook" and not recursive and "/hooks/" in full:
            call.report(WORKSPACE_DELETE, f"deletes a git hook: {name}", full)
        else:
            call.report(GIT_DELETE, f"deletes the repository's history: {name}", full)
    elif place == "workspace root":
        if recursive or not has_glob(path):
            call.report(WORKSPACE_WIPE, f"deletes the whole workspace: {name}", full)
        else:
            call.report(WORKSPACE_DELETE, f"deletes every file of a directory: {name}", full)
    elif place in ("workspace", "env file"):
        _delete_inside(call, full, name, recursive)
    elif place in ("temp", "cache"):
        if recursive:
            call.report(WORKSPACE_DELETE, f"deletes temporary or cached files: {name}", full)
    elif place == "null" or place == "network":
        return
    elif place == "unknown":
        call.report(UNKNOWN_DELETE, f"deletes a path that cannot be known: {name}", full)
    else:
        call.report(OUTSIDE_DELETE, f"deletes files outside the workspace: {name}", full)


def _delete_inside(call: Call, full: str, name: str, recursive: bool) -> None:
    inner = full[len(call.shell.workspace) :].strip("/")
    if recursive and inner[:1] in UNKNOWN and not is_known(inner):
        call.report(UNKNOWN_DELETE, f"deletes a part of the workspace that cannot be known: {name}", full)
    elif recursive:
        call.report(WORKSPACE_DELETE, f"deletes a directory in the workspace: {name}", full)


def _what(place: str) -> str:
    return {"root": "the root directory", "home": "a home directory"}.get(place, "a system directory")


def write(call: Call, path: str, *, content: str = "", tree: bool = False) -> None:
    """Judge that the program writes a path; `content` is remembered for what runs later in the same text."""
    if not path:
        return
    full = follow(resolve(path, call.shell), call.shell)
    place = classify(full, call.shell)
    name = shown(path)
    call.machine.note("write", full)
    protect_ours(call, full, name)
    call.shell.files[full] = content
    if place == "disk":
        call.report(DISK_WRITE, f"overwrites a disk: {name}", full)
    elif place == "kernel" or place == "device":
        rule = POWER_WRITE if full.startswith("/proc/sysrq") else KERNEL_WRITE
        call.report(rule, f"changes kernel state: {name}", full)
    elif place in ("system", "root"):
        if full.startswith(("/var/run/", "/run/user/", "/var/cache/")) and not tree:
            call.report(HOME_WRITE, f"writes outside the workspace: {name}", full)
        else:
            call.report(SYSTEM_WRITE, f"changes a system file: {name}", full)
    elif place in ("log", "history"):
        call.report(LOG_WIPE, f"overwrites logs or history: {name}", full)
    elif place == "startup":
        call.report(STARTUP_WRITE, f"changes what runs at login or who may log in: {name}", full)
    elif place == "hook" or (place == "git" and not has_glob(full)):
        call.report(HOOK_WRITE, f"changes the repository's hooks or configuration: {name}", full)
    elif place in ("user", "home") and has_glob(full):
        call.report(OUTSIDE_WRITE, f"overwrites many files outside the workspace: {name}", full)
    elif place in ("user", "home", "sibling", "cache"):
        _write_home(call, full, name, place)
    elif place == "elsewhere":
        call.report(OUTSIDE_WRITE, f"writes outside the workspace: {name}", full)
    elif place == "env file":
        call.report(HOME_WRITE, f"changes settings that may hold credentials: {name}", full)
    elif place == "unknown" and full.startswith("/"):
        call.report(SYSTEM_WRITE, f"changes a file or directory at the top of the system: {name}", full)
    elif place == "unknown":
        call.report(UNKNOWN_WRITE, f"writes a path that cannot be known: {name}", full)


def _write_home(call: Call, full: str, name: str, place: str) -> None:
    inner = below_home(full, call.shell) or ""
    foreign = not full.startswith(call.shell.home + "/") and full != call.shell.home and not call.shell.remote
    if foreign and place != "sibling":
        call.report(OUTSIDE_WRITE, f"writes into another user's home: {name}", full)
    elif inner.startswith((".local/bin/", "bin/")) and inner.rsplit("/", 1)[-1] in _SHARED_TOOLS:
        call.report(STARTUP_WRITE, f"puts a program in front of a system one: {name}", full)
    elif place != "cache":
        call.report(HOME_WRITE, f"writes outside the workspace: {name}", full)


def read(call: Call, path: str, *, tree: bool = False) -> str:
    """Judge that the program shows or copies a path's content; gives the content as far as known."""
    if not path or path in ("-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"):
        return call.input() if path else ""
    full = follow(resolve(path, call.shell), call.shell)
    call.machine.note("read", full)
    held = call.shell.files.get(full)
    if held is not None:
        call.machine.spend(copying(held))
        return held
    if call.shell.is_fetched(full):
        return NET
    if is_secret(full, call.shell):
        call.report(SECRET_READ, f"reads credentials: {shown(path)}", full)
        return SECRET
    place = call.place(path)[1]
    if is_env_file(full) or place == "history":
        call.report(SECRET_NEAR, f"reads a file that may hold credentials: {shown(path)}", full)
        return SECRET
    if full in ("/proc/mounts", "/proc/partitions", "/proc/self/mounts", "/etc/mtab", "/etc/fstab"):
        return FILE + DEVICE
    if full in ("/dev/zero", "/dev/urandom", "/dev/random", "/dev/full"):
        return FILE + ENDLESS
    if full.endswith(".pid") and full.startswith(("/run/", "/var/run/")):
        return PIDS  # whoever holds a service's id can end it
    if tree and place == "home" and not full.rstrip("/").endswith(tuple(GLOBS)):
        return SECRET + FILE
    return FILE + (STAR if has_glob(full) else "")
