"""An sshd of a test's own: what it starts hangs below the test, so that what it leaves is seen."""

import contextlib
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.programs import need, need_variable

SETTINGS = """\
Port {port}
ListenAddress {address}
HostKey {at}/host_key
AuthorizedKeysFile {at}/id.pub
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
UsePAM no
StrictModes no
PidFile none
MaxStartups 200
ClientAliveInterval 5
SetEnv HOME={at}/home
"""


class Sshd:
    """How it is reached, and what it has logged."""

    def __init__(self, at: Path, address: str, around: Sequence[str], lines: Sequence[str]) -> None:
        self.at = at
        self.port = free_port()
        self._address = address
        self._around = around
        self._process: subprocess.Popen[bytes] | None = None
        self.home = at / "home"  # of whoever logs in: with no profile of theirs
        self.home.mkdir()
        for name in ("host_key", "id"):
            subprocess.run(
                [need("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-f", at / name], check=True
            )
        settings = SETTINGS.format(port=self.port, address=address, at=at)
        (at / "sshd_config").write_text(settings + "".join(f"{line}\n" for line in lines))
        (at / "known_hosts").write_text(self.known_host("host_key"))

    def known_host(self, key: str) -> str:
        """The line that says that the host has this key."""
        return f"[{self._address}]:{self.port} {(self.at / f'{key}.pub').read_text()}"

    @property
    def options(self) -> dict[str, Any]:
        """The options of an environment there.

        Its connection waits shortly for its next user, as tests do.
        """
        settings = {"UserKnownHostsFile": str(self.at / "known_hosts"), "ControlPersist": "1"}
        return {
            "host": self._address,
            "user": _user(),
            "port": self.port,
            "key": str(self.at / "id"),
            "settings": settings,
            "config": "/dev/null",
            "login": False,
        }

    @property
    def log(self) -> str:
        """Everything it has said."""
        return (self.at / "log").read_text()

    def start(self) -> None:
        """Returns when it listens."""
        ours, theirs = os.pipe()
        tee = ["sh", "-c", 'exec "$@" 2>&1 >/dev/null | tee -p -a "$0"', str(self.at / "log")]
        command = [*self._around, _program(), "-D", "-e", "-f", str(self.at / "sshd_config")]
        self._process = subprocess.Popen([*tee, *command], stdout=theirs, start_new_session=True)
        os.close(theirs)
        with open(ours, "rb") as said:
            if not any(b"Server listening" in line for line in said):
                raise AssertionError(self.log)

    def stop(self) -> None:
        """Nobody can connect any more; who is connected stays so."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, 9)
            self._process.wait()
            self._process = None


@contextlib.contextmanager
def running(
    at: Path, *lines: str, address: str = "127.0.0.1", around: Sequence[str] = ()
) -> Iterator[Sshd]:
    """An sshd with these settings besides its own, `around` it a program that gives it another view
    of the machine.
    """
    at.mkdir(exist_ok=True)
    at.chmod(0o711)
    sshd = Sshd(at, address, around, lines)
    Path("/run/sshd").mkdir(exist_ok=True)
    sshd.start()
    try:
        yield sshd
    finally:
        sshd.stop()


# What an upload of the portable runtime and a login take, of a host that has little else.
PROGRAMS = "sh cat chmod cut dd gzip id ls mkdir mv rm setsid sha256sum tar uname wc"


@contextlib.contextmanager
def with_programs(at: Path, programs: str) -> Iterator[Sshd]:
    """An sshd whose accounts have these programs on PATH, and those of PROGRAMS."""
    folder = at / "bin"
    folder.mkdir()
    for name in {*PROGRAMS.split(), *programs.split()}:
        (folder / name).symlink_to(shutil.which(name, path="/usr/bin:/bin") or need(name))
    with running(
        at / "sshd", f'ForceCommand export PATH={folder}; eval "$SSH_ORIGINAL_COMMAND"'
    ) as sshd:
        yield sshd


def shared_options() -> dict[str, Any]:
    """The options of an environment behind the sshd that scripts/engines/up has started."""
    settings = {"UserKnownHostsFile": need_variable("SSH_KNOWN_HOSTS"), "ControlPersist": "1"}
    return {
        "host": need_variable("SSH_HOST"),
        "user": need_variable("SSH_USER"),
        "port": int(need_variable("SSH_PORT")),
        "key": need_variable("SSH_KEY"),
        "settings": settings,
        "config": "/dev/null",
    }


def free_port() -> int:
    """A port that nobody has."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


def _program() -> str:
    return shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/usr/bin") or need("sshd")


def _user() -> str:
    return subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
