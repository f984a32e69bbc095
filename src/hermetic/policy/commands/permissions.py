"""Who may use a file: modes, owners, access lists, capabilities."""

from __future__ import annotations

import re

from hermetic.policy.call import Call, Judge
from hermetic.policy.marks import UNKNOWN, is_known, shown
from hermetic.policy.options import Options, parse_options
from hermetic.policy.paths import is_secret
from hermetic.policy.rules import Rule

PERMISSION = Rule(
    name="open-permissions",
    category="permission-ownership",
    severity=8,
    effects=("changes shared state",),
    catches=(
        "chmod 777 /etc/shadow",
        "chmod -R 777 /",
        "chown nobody /etc/sudoers",
        "chmod 644 ~/.ssh/id_rsa",
        "setfacl -m u:x:rw /etc/passwd",
    ),
    spares=("chmod 644 README.md", "chmod +x run.sh", "chown --help", "chmod 600 ~/.ssh/id_rsa"),
)


SET_UID = Rule(
    name="set-uid",
    category="permission-ownership",
    severity=9,
    effects=("changes shared state",),
    catches=(
        "chmod u+s /bin/bash",
        "chmod 4755 ./x",
        "install -m 4755 /bin/sh /tmp/sh",
        "setcap cap_setuid+ep ./x",
        "rsync --chmod=u+s /bin/sh /tmp/s",
        "perl -e 'chmod 04755, \"x\"'",
    ),
    spares=("chmod 755 x", "chmod g-s dir"),
)


PERMISSION_WORKSPACE = Rule(
    name="permissions-in-workspace",
    category="permission",
    label="caution",
    severity=2,
    effects=("writes",),
    catches=("chmod -R 777 .", "chmod 666 data.db", "chown -R me ."),
    spares=("chmod 644 a",),
)


# Programs that everywhere run with root's rights: whoever takes their mode takes that too.
_SET_UID_PROGRAMS = re.compile(r"/bin/(sudo|su|passwd|mount|umount|newgrp|chsh|chfn|gpasswd|pkexec|ping|fusermount3?)$")
_ASKS_HELP = ("--help", "--version")


def asks_help(call: Call) -> bool:
    """True when the program would only print its help or version."""
    for arg in call.args:
        if arg == "--":
            return False
        if arg in _ASKS_HELP:
            return True
    return False


def sets_uid(mode: str) -> bool:
    if re.fullmatch(r"0*[2467]\d{3}", mode):
        return mode.lstrip("0")[0] in "4627"
    return bool(re.search(r"(^|,)([ugoa]*[+=][rwxXt]*s)", mode))


def _widens(mode: str) -> bool:
    if re.fullmatch(r"\d+", mode):
        return mode[-1] in "2367"
    return bool(re.search(r"(^|,)([oa]|[ugoa]*[oa][ugoa]*|)[+=][rxXst]*w", mode)) and not mode.startswith(
        ("u+", "g+", "u=", "+x")
    )


def judge_chmod(call: Call) -> str | None:
    """chmod, chown, chgrp, chattr, setfacl change who may use a file."""
    if asks_help(call):
        return None
    options = _permission_options(call)
    recursive = options.has("R", "recursive", "r")
    reference = options.value("reference")
    operands = options.operands
    mode = ""
    if reference is None and operands and call.name not in ("setfacl", "chattr"):
        mode, operands = operands[0], operands[1:]
    elif call.name == "chattr":
        mode, operands = (operands[0], operands[1:]) if operands else ("", [])
    if call.name == "chmod" and (sets_uid(mode) or _SET_UID_PROGRAMS.search(reference or "")):
        call.report(SET_UID, f"lets a program run with its owner's rights: {shown(mode)}")
    for path in operands:
        call.machine.note("write", call.place(path)[0])
        _permission(call, path, mode, recursive)
    return ""


def _permission_options(call: Call) -> Options:
    args = call.args
    if call.name == "chmod":
        modes = [arg for arg in args if re.fullmatch(r"-[rwxXst]+", arg) and not re.fullmatch(r"-[Rvfc]+", arg)]
        args = [arg for arg in args if arg not in modes]
        if modes:
            args = [modes[0].replace("-", "a-"), *args]
    if call.name == "chattr":
        args = [
            arg.replace("-", "=", 1)
            if re.fullmatch(r"-[aAcCdDeijsStTu]+", arg) and arg not in ("-R", "-V", "-f")
            else arg
            for arg in args
        ]
    return parse_options(
        args, "mMxX" if call.name == "setfacl" else "", ("reference", "modify", "remove", "set", "from", "restore")
    )


def _permission(call: Call, path: str, mode: str, recursive: bool) -> None:
    full, place = call.place(path)
    name = shown(path)
    if place in ("root", "system", "elsewhere", "kernel", "device", "disk", "home", "log", "unknown"):
        if place == "unknown" and not recursive and path[:1] in UNKNOWN:
            return
        call.report(PERMISSION, f"changes the rights on a shared or system path: {name}", full)
    elif is_secret(full, call.shell):
        if not re.fullmatch(r"0?[4-7]00|go-\w+|og-\w+|u=\w*,go=", mode):
            call.report(PERMISSION, f"changes the rights on credentials: {name}", full)
    elif place == "startup" and call.name == "chmod" and _widens(mode):
        call.report(PERMISSION, f"lets others change what runs at login or who may log in: {name}", full)
    elif place in ("hook", "git") and "x" in mode:
        call.report(PERMISSION_WORKSPACE, f"makes a git hook run: {name}", full)
    elif (recursive and (call.name != "chmod" or _widens(mode))) or (
        call.name == "chmod" and (_widens(mode) or not is_known(mode))
    ):
        call.report(PERMISSION_WORKSPACE, f"opens files to everyone, or gives them away: {name}", full)


def judge_setcap(call: Call) -> str | None:
    """setcap gives a program rights of root."""
    if call.args and not asks_help(call) and call.args[0] != "-v":
        call.report(SET_UID, "gives a program some of root's rights")
    return ""


RULES = (PERMISSION, SET_UID, PERMISSION_WORKSPACE)

JUDGES: dict[str, Judge] = {
    **dict.fromkeys(("chmod", "chown", "chgrp", "chattr", "setfacl", "chflags", "chcon"), judge_chmod),
    "setcap": judge_setcap,
}
