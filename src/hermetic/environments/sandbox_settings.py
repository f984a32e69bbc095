"""What a sandbox shows of /etc: what programs need to work at all, and no key, password or service's settings."""

import os
import stat

_SETTINGS = frozenset({
    "alternatives", "bash.bashrc", "bashrc", "crypto-policies", "debian_version", "fonts", "gai.conf", "gitattributes",
    "gitconfig", "group", "host.conf", "hosts", "inputrc", "issue", "localtime", "login.defs", "mailcap",
    "manpath.config", "mime.types", "mtab", "nanorc", "networks", "nsswitch.conf", "passwd", "perl", "profile",
    "profile.d", "protocols", "rpc", "services", "shells", "skel", "terminfo", "timezone", "vim", "vimrc", "wgetrc",
    "xdg",
})  # fmt: skip
_SETTINGS_BEGIN = ("bash_completion", "ca-certificates", "java", "ld.so.", "locale", "magic", "os-", "python")
_DEEPER = ("/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/pki/tls/certs", "/etc/pki/tls/cert.pem",
           "/etc/pki/ca-trust")  # fmt: skip


def settings(directory: str, *, network: bool) -> list[str]:
    """bwrap's arguments that show it. Files are copied to the empty `directory`: a mount for each takes far longer."""
    arguments = ["--ro-bind", directory, "/etc"]
    names = [name for name in sorted(os.listdir("/etc")) if name in _SETTINGS or name.startswith(_SETTINGS_BEGIN)]
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
    """Copies a file or a link; True for a directory, which then has to be mounted. Passes over what is not for all."""
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
