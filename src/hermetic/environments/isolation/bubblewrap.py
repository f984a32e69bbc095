"""The program bwrap: finding it, its namespace arguments, and explanations of its errors."""

import os
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path

from hermetic.contract.errors import EnvironmentUnavailable, NotInstalled

INSTALL = "install it (Debian, Ubuntu: apt install bubblewrap; Fedora: dnf install bubblewrap), or open another kind"
DESCRIPTORS = ("--info-fd", "7", "--seccomp", "9")  # that its watchdog opens for it
_NEEDED = ("--size", "--perms", "--info-fd", "--as-pid-1")  # of bubblewrap 0.7
_NAMESPACES = (
    "this user may make no namespaces here. Allow it as root with the one of these that exists: "
    "sysctl -w kernel.unprivileged_userns_clone=1, sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, "
    "sysctl -w user.max_user_namespaces=10000; in a container, start that with a seccomp profile that lets it; "
    "or open another kind"
)
_SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
_CAP_SYS_ADMIN = 21
_MEANINGS = {
    "No permissions to create a new namespace": _NAMESPACES,
    "Creating new namespace failed": _NAMESPACES,
    "setting up uid map": _NAMESPACES,
    "Creation of new user namespaces was not disabled": _NAMESPACES,
    "loopback:": "this user may make no network of its own here; open it with network=True, or open another kind",
}


def find_program() -> str:
    """The path of bwrap. Raises NotInstalled if it is missing or too old."""
    program = shutil.which("bwrap")
    if program is None:
        raise NotInstalled("no bwrap on PATH", INSTALL)
    known = Path(program).read_bytes()
    if lacking := [option for option in _NEEDED if option.encode() not in known]:
        raise NotInstalled(
            f"{program} is too old, it does not know {', '.join(lacking)}",
            "use bubblewrap 0.7 or newer, or open another kind",
        )
    return program


def namespaces(program: str, *, network: bool) -> list[str]:
    """Arguments for new namespaces, no capabilities and a new session; mounts are separate."""
    apart = ["user", "pid", "ipc", "uts", *([] if network else ["net"])]
    arguments = [f"--unshare-{name}" for name in apart]
    # The seccomp filter refuses nested namespaces too; a set-uid bwrap does not support this
    # option.
    if (
        b"--disable-userns" in Path(program).read_bytes()
        and not os.stat(program).st_mode & stat.S_ISUID
    ):
        arguments.append("--disable-userns")
    # It dies with its watchdog, and the first process with it.
    arguments += ["--unshare-cgroup-try", "--cap-drop", "ALL", "--new-session", "--as-pid-1"]
    return [*arguments, "--die-with-parent", "--clearenv", "--setenv", "LC_ALL", "C.UTF-8"]


def with_read_only_devices(argv: Sequence[str], directory: str) -> list[str]:
    """The same command in a mount namespace in which the empty `directory` is this machine's /dev,
    read-only.
    """
    script = f'PATH={_SYSTEM_PATH}; mount -o rbind,ro /dev "$0" && exec "$@"'
    unshare = shutil.which("unshare", path=_SYSTEM_PATH) or "unshare"
    return [unshare, "-m", "/bin/sh", "-c", script, directory, *argv]


def may_mount() -> bool:
    """True for root with CAP_SYS_ADMIN, which root in a container lacks."""
    status = Path("/proc/self/status").read_text()
    effective = int(status.partition("CapEff:")[2].split()[0], 16)
    return bool(effective >> _CAP_SYS_ADMIN & 1)


def explained(error: EnvironmentUnavailable) -> EnvironmentUnavailable:
    """The same error with advice, if it is a known one."""
    said = str(error)
    advice = next((advice for sign, advice in _MEANINGS.items() if sign in said), None)
    return EnvironmentUnavailable(f"{advice}\n{said}") if advice else error
