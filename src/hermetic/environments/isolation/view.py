"""bwrap's mount arguments: the system read-only, the workspace, and nothing else of this machine."""

import os
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from hermetic.environments.isolation.workspace import homes

INSIDE = "/run/hermetic/place"  # the resident's own directory, as it sees it
SPOOL = "/run/hermetic/spool"

SYSTEM = ("/usr", "/opt", "/nix/store", "/gnu/store")
# links into /usr on most systems
_MERGED = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")

_HIDDEN_PROC = ("keys", "timer_list")  # files of /proc about the whole machine
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")


class View(msgspec.Struct, frozen=True, kw_only=True):
    """The mounts besides the system."""

    workspace: str
    guards: Sequence[str]  # bwrap's arguments that protect parts of the workspace
    readable: Sequence[str]
    home: str
    network: bool
    settings: str  # on this side: an empty directory for what is shown of /etc
    place: str  # on this side: what the resident's own directory is
    spool: str | None  # on this side
    memory_cgroup: str | None
    devices: str | None  # this machine's /dev once more, read-only
    # files and directories here → where they are seen, read-only
    shown: Sequence[tuple[str, str]] = ()
    memory_bytes: int  # what all file systems in memory have to fit into, with room to spare


def mounts(view: View) -> list[str]:
    """bwrap's arguments.

    Later ones cover earlier ones, so the system comes first and the workspace last.
    """
    quarter = view.memory_bytes // 4
    arguments = [
        *_system(),
        *settings(view.settings, network=view.network),
        *("--proc", "/proc", *_kept_from_root(), "--dev", "/dev", *_devices(view.devices)),
        *_in_memory("/dev/shm", quarter // 2, "1777"),
        *("--remount-ro", "/dev", *_in_memory("/tmp", quarter, "1777"), "--dir", "/var"),
        *("--symlink", "/tmp", "/var/tmp", "--symlink", "/run", "/var/run"),
    ]
    for home in dict.fromkeys((view.home, *(home for home in homes() if home.startswith(SYSTEM)))):
        arguments += _in_memory(home, quarter, "0700")
    for path in view.readable:
        arguments += ["--ro-bind", path, path]
    for path, target in view.shown:
        arguments += ["--ro-bind", path, target]
    arguments += ["--bind", view.workspace, view.workspace, *view.guards]
    arguments += ["--bind", view.place, INSIDE]
    if view.spool is not None:
        arguments += ["--bind", view.spool, SPOOL]
    if view.memory_cgroup is not None:
        arguments += ["--ro-bind", view.memory_cgroup, _where_looked_for(view.memory_cgroup)]
    return [*arguments, "--remount-ro", "/"]


def _in_memory(path: str, size: int, mode: str) -> tuple[str, ...]:
    """An empty file system of at most so many bytes."""
    return ("--size", str(size), "--perms", mode, "--tmpfs", path)


def _system() -> Iterator[str]:
    for path in (*SYSTEM, *_MERGED):
        if os.path.islink(path):
            yield from ("--symlink", os.readlink(path), path)
        elif os.path.isdir(path):
            yield from ("--ro-bind", path, path)


def _kept_from_root() -> Iterator[str]:
    """Protects /proc from commands of real root, which owns its files and could change the whole
    machine.
    """
    if os.geteuid() == 0:
        for name in _HIDDEN_PROC:
            if os.path.exists(f"/proc/{name}"):
                yield from ("--ro-bind", "/dev/null", f"/proc/{name}")
        yield from ("--remount-ro", "/proc")


def _devices(read_only: str | None) -> Iterator[str]:
    """Read-only device nodes: they can be used, but mode and owner cannot be changed."""
    if read_only is not None:
        for name in _DEVICES:
            yield from ("--dev-bind", f"{read_only}/{name}", f"/dev/{name}")


def _where_looked_for(cgroup: str) -> str:
    """The path at which programs look for their limits, as in a container."""
    by_controller = os.path.exists(os.path.join(cgroup, "memory.oom_control"))
    return "/sys/fs/cgroup/memory" if by_controller else "/sys/fs/cgroup"


def interpreter(shown: Iterable[str]) -> tuple[str, str | None]:
    """A Python that the resident's compiled modules fit, and the directory that has to be shown for
    it, if any.

    Ours where the sandbox shows it anyway; the system's of the same version; else ours with its
    installation.
    """
    own = os.path.realpath(getattr(sys, "_base_executable", "") or sys.executable)
    visible = tuple(f"{path.rstrip('/')}/" for path in (*SYSTEM, *_MERGED, *shown))
    if (own + "/").startswith(visible):
        return own, None
    system = f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    if os.access(system, os.X_OK):
        return system, None
    return own, os.path.realpath(sys.base_prefix)


_SETTINGS = str.split("""
    alternatives bash.bashrc bashrc crypto-policies debian_version fonts gai.conf gitattributes
    gitconfig group host.conf hosts inputrc issue localtime login.defs mailcap manpath.config
    mime.types mtab nanorc networks nsswitch.conf passwd perl profile profile.d protocols rpc services
    shells skel terminfo timezone vim vimrc wgetrc xdg
""")
_SETTINGS_BEGIN = (
    "bash_completion",
    "ca-certificates",
    "java",
    "ld.so.",
    "locale",
    "magic",
    "os-",
    "python",
)
_DEEPER = (
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/pki/tls/certs",
    "/etc/pki/tls/cert.pem",
    "/etc/pki/ca-trust",
)


def settings(directory: str, *, network: bool) -> list[str]:
    """bwrap's arguments that show it.

    Files are copied to the empty `directory`: a mount for each takes far longer.
    """
    arguments = ["--ro-bind", directory, "/etc"]
    names = [
        name
        for name in sorted(os.listdir("/etc"))
        if name in _SETTINGS or name.startswith(_SETTINGS_BEGIN)
    ]
    for path in (*(f"/etc/{name}" for name in names), *_DEEPER):
        try:
            if path in _DEEPER and os.path.lexists(path):
                os.makedirs(directory + os.path.dirname(path).removeprefix("/etc"), exist_ok=True)
            if _copy(path, directory + path.removeprefix("/etc")):
                arguments += ["--ro-bind", path, path]
        except FileNotFoundError:
            continue
    if network and os.path.exists("/etc/resolv.conf"):
        _write(f"{directory}/resolv.conf", b"")
        # Mounted, for it changes with the network.
        arguments += ["--ro-bind", os.path.realpath("/etc/resolv.conf"), "/etc/resolv.conf"]
    return arguments


def _copy(path: str, target: str) -> bool:
    """Copies a world-readable file or a link; True for a directory, which then has to be mounted."""
    seen = os.lstat(path)
    if stat.S_ISLNK(seen.st_mode):
        os.symlink(os.readlink(path), target)
    elif stat.S_ISDIR(seen.st_mode) and seen.st_mode & 0o005 == 0o005:
        os.mkdir(target)
        return True
    elif stat.S_ISREG(seen.st_mode) and seen.st_mode & 0o004:
        with open(path, "rb", buffering=0) as file:
            _write(target, file.read())
    return False


def _write(path: str, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)
