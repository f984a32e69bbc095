"""OpenSSH's client: one shared connection per host, and explanations of its errors."""

import asyncio
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from hermetic.contract.errors import EnvironmentUnavailable, Unreachable
from hermetic.contract.limits import CONNECT, KEEPALIVE, KEEPALIVE_TRIES, SHARED

MARK = b"\0hermetic\n"  # precedes the output of our program; earlier output is the user's shell's

# For any login shell: no nested quotes, no line break, no backslash.
_THERE = (
    "exec sh -c 'command -v python3 >/dev/null 2>&1 || { echo hermetic: no python3 >&2; exit 97; }; "
    'exec python3 -I -S -c "import sys; exec(bytes.fromhex(sys.argv.pop(1)).decode())" "$@"\' sh'
)
_BEFORE = f"""\
import os, sys
sys.version_info >= (3, 8) or sys.exit("hermetic: python3 is older than 3.8")
sys.argv[1:] = [os.fsdecode(bytes.fromhex(word)) for word in sys.argv[1:]]
os.write(1, {MARK!r})
"""


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

    def call(self, runtime: Path, code: str, *arguments: str) -> list[str]:
        """The command that runs Python code on the host, over a connection shared by all callers."""
        words = [_hex(_BEFORE + code), *map(_hex, arguments)]
        return ["ssh", *self._options(runtime), "--", self.host, " ".join([_THERE, *words])]

    def shell(self, directory: Path, line: str) -> list[str]:
        """The command that runs a shell line on the host, over a connection with its socket in this directory."""
        return ["ssh", *self._options(directory), "--", self.host, line]

    def _options(self, runtime: Path) -> list[str]:
        chosen = [f"{name}={value}" for name, value in self.settings.items()]
        # ssh takes the first value of a setting: the caller's, then ours, then those of its files.
        words = [word for setting in (*chosen, *_SETTINGS) for word in ("-o", setting)]
        for flag, value in (("-F", self.config), ("-l", self.user), ("-p", self.port), ("-i", self.key)):
            words += [] if value is None else [flag, str(value)]
        if self.key is not None:
            words += ["-o", "IdentitiesOnly=yes"]
        return ["-T", *words, "-o", f"ControlPath={runtime}/c-{self._digest()}"]

    def _digest(self) -> str:
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()[:16]


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


def client_environment() -> dict[str, str]:
    """The client's variables: all of the caller's, for agents, askpass programs and settings."""
    return {"LC_ALL": "", **os.environ}  # it would be sent to the host


class CallFailed(EnvironmentUnavailable):
    """A program ran on the host, or the client did, and failed."""

    def __init__(self, stderr: str, exit_code: int | None) -> None:
        super().__init__(f"it ended; it said:\n{stderr}")
        self.exit_code = exit_code


async def run_there(argv: Sequence[str], *, seconds: float) -> None:
    """Runs a call to its end. Raises CallFailed with its exit code and what it printed, EnvironmentUnavailable."""
    process = await asyncio.create_subprocess_exec(
        *argv, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip
    try:
        async with asyncio.timeout(seconds):
            _, said = await process.communicate()
    except BaseException as error:
        process.kill()
        await process.wait()
        if isinstance(error, TimeoutError):
            raise EnvironmentUnavailable(f"no answer within {seconds:g} s") from None
        raise
    if process.returncode != 0:
        raise CallFailed(said.decode("utf-8", "replace").strip(), process.returncode)


# Error text of ssh or the host; whether a retry may help; its meaning; advice. The first match counts.
_MEANINGS = (
    ("hermetic: no python3", False, "no python3 is there", "install python3, 3.8 or newer, on the host"),
    ("hermetic: python3 is older", False, "the python3 there is too old", "install 3.8 or newer on the host"),
    ("No space left on device", False, "the disk there is full", "free some space in /tmp or in the home there"),
    ("Disk quota exceeded", False, "the disk quota there is used up", "free some space in the home there"),
    ("REMOTE HOST IDENTIFICATION HAS CHANGED", False, "the host's key is not the one that is known",
     "make sure that it is the right host, then remove the old key with ssh-keygen -R"),
    ("Host key verification failed", False, "the host's key is not known",
     "connect once by hand and look at it, or set StrictHostKeyChecking=accept-new"),
    ("Permission denied", False, "the login was refused",
     "check the options user and key, or with ssh-add -l that the agent has a key which the host accepts"),
    ("Too many authentication failures", False, "the login was refused after too many keys", "name one with key"),
    ("Bad owner or permissions", False, "ssh does not trust a settings file", "make it writable for its owner alone"),
    ("Bad configuration option", False, "a setting is not known to ssh", "check the options settings and config"),
    ("Can't open user config file", False, "the settings file cannot be read", "check the option config"),
    ("Could not resolve hostname", True, "no such host is known", "check the option host, and the network"),
    ("Connection refused", True, "no ssh server listens there", "check the option port, and that sshd runs"),
    ("timed out", True, "the host does not answer", "check the option host, and the network"),
    ("No route to host", True, "there is no way to the host", "check the option host, and the network"),
    ("Network is unreachable", True, "there is no network", "check the network"),
    ("no answer within", True, "the host does not answer", "check the network"),
    ("not ready within", True, "the host does not answer in time", "check the network, and the load there"),
    ("Connection closed", True, "the host closed the connection", "look into the log of its sshd"),
    ("Connection reset", True, "the connection was cut", "check the network"),
)  # fmt: skip


def explain(error: EnvironmentUnavailable, target: Target, *, may_pass: bool) -> EnvironmentUnavailable:
    """An explained error for a failed call: Unreachable if a retry may help; `may_pass` is for unknown errors."""
    said = str(error)
    for phrase, passes, meaning, advice in _MEANINGS:
        if phrase in said:
            return (Unreachable if passes else EnvironmentUnavailable)(f"{target}: {meaning}; {advice}. {said}")
    return (Unreachable if may_pass else EnvironmentUnavailable)(f"{target}: {said}")


def _hex(text: str) -> str:
    return os.fsencode(text).hex()
