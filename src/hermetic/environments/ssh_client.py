"""OpenSSH's client: one shared connection per host, and explanations of its errors."""

import hashlib
from pathlib import Path

import msgspec

from hermetic.contract.errors import EnvironmentUnavailable, Unreachable
from hermetic.contract.limits import CONNECT, KEEPALIVE, KEEPALIVE_TRIES, SHARED


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A host and how to get there."""

    host: str
    user: str | None = None
    port: int | None = None
    key: str | None = None
    config: str | None = None
    settings: dict[str, str] = {}

    def __str__(self) -> str:
        name = f"{self.user}@{self.host}" if self.user else self.host
        return f"{name}, port {self.port}" if self.port else name

    def shell(self, directory: Path, line: str) -> list[str]:
        """The command that runs a shell line on the host, over a connection with its socket in this
        directory.
        """
        return ["ssh", *self._options(directory), "--", self.host, line]

    def _options(self, runtime: Path) -> list[str]:
        chosen = [f"{name}={value}" for name, value in self.settings.items()]
        # ssh takes the first value of a setting: the caller's, then ours, then those of its files.
        words = [word for setting in (*chosen, *_SETTINGS) for word in ("-o", setting)]
        for flag, value in (("-F", self.config), ("-l", self.user), ("-p", self.port)):
            words += [] if value is None else [flag, str(value)]
        if self.key is not None:  # -i expands percent signs too, and takes no quotes
            words += ["-o", f"IdentityFile={_quote(self.key)}", "-o", "IdentitiesOnly=yes"]
        return ["-T", *words, "-o", f"ControlPath={_quote(f'{runtime}/c-{self._digest()}')}"]

    def _digest(self) -> str:
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()[:16]


def _quote(path: str) -> str:
    """A path in ssh's settings: one word, without expansions."""
    escaped = path.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'


_SETTINGS = (
    "BatchMode=yes",
    "StrictHostKeyChecking=accept-new",
    f"ConnectTimeout={CONNECT}",
    f"ServerAliveInterval={KEEPALIVE}",
    f"ServerAliveCountMax={KEEPALIVE_TRIES}",
    "ControlMaster=auto",
    f"ControlPersist={SHARED}",
    "ClearAllForwardings=yes",
    "PermitLocalCommand=no",
    "RemoteCommand=none",
    "LogLevel=ERROR",
)


# Error text of ssh or the host, and what it means and what to do; the first match counts. A retry may
# help in the second group only.
_LASTING = {
    "No space left on device": "the disk there is full; free some space in /tmp or in the home there",
    "Disk quota exceeded": "the disk quota there is used up; free some space in the home there",
    "REMOTE HOST IDENTIFICATION HAS CHANGED": (
        "the host's key is not the one that is known; make sure that it is the right host, then "
        "remove the old key with ssh-keygen -R"
    ),
    "Host key verification failed": (
        "the host's key is not known; connect once by hand and look at it, or set "
        "StrictHostKeyChecking=accept-new"
    ),
    "Permission denied": (
        "the login was refused; check the options user and key, or with ssh-add -l that the agent "
        "has a key which the host accepts"
    ),
    "Too many authentication failures": "the login was refused after too many keys; name one with key",
    "Bad owner or permissions": "ssh does not trust a settings file; make it writable for its owner alone",
    "Bad configuration option": "a setting is not known to ssh; check the options settings and config",
    "Can't open user config file": "the settings file cannot be read; check the option config",
}
_PASSING = {
    "Could not resolve hostname": "no such host is known; check the option host, and the network",
    "Connection refused": "no ssh server listens there; check the option port, and that sshd runs",
    "timed out": "the host does not answer; check the option host, and the network",
    "No route to host": "there is no way to the host; check the option host, and the network",
    "Network is unreachable": "there is no network; check the network",
    "no answer within": "the host does not answer; check the network",
    "not ready within": "the host does not answer in time; check the network, and the load there",
    "Connection closed": "the host closed the connection; look into the log of its sshd",
    "Connection reset": "the connection was cut; check the network",
}


def explain(
    error: EnvironmentUnavailable, target: Target, *, may_pass: bool
) -> EnvironmentUnavailable:
    """An explained error for a failed call:

    Unreachable if a retry may help; `may_pass` is for unknown errors.
    """
    said = str(error)
    for meanings, kind in ((_LASTING, EnvironmentUnavailable), (_PASSING, Unreachable)):
        for phrase, meaning in meanings.items():
            if phrase in said:
                return kind(f"{target}: {meaning}. {said}")
    return (Unreachable if may_pass else EnvironmentUnavailable)(f"{target}: {said}")
