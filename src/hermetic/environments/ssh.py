"""Another machine, reached by OpenSSH's own client: the resident lives there and outlives the connection."""

import os
import secrets
import shlex
import shutil
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec

from hermetic.contract.environment import EnvironmentRecord, Finding, Isolation, ResidentConfig, Started
from hermetic.contract.errors import ConfigError, EnvironmentUnavailable, NotInstalled, Unreachable
from hermetic.contract.limits import CONNECT, KEEPALIVE, KEEPALIVE_TRIES, LEASE, LOGIN, START, UNATTENDED
from hermetic.contract.variables import fault_of, is_text
from hermetic.environments.bare import BASH, is_bare, start_bare
from hermetic.environments.bridge import BRIDGE, bridged
from hermetic.environments.checkup import try_program
from hermetic.environments.child_environment import child_environment
from hermetic.environments.local_resident import end_local_resident, has_local_resident_ended
from hermetic.environments.options import Lease, Seconds, read_options
from hermetic.environments.profile import credential_notes, select_profile, unsent_notes
from hermetic.environments.ssh_client import MARK, CallFailed, Target, client_environment, explain, run_there
from hermetic.environments.starting import StartFailed, start_resident
from hermetic.environments.unix_socket import SocketBackend, connect
from hermetic.link.archive import BOOT, NO_PYTHON_CODE, build_archive, starting_input
from hermetic.registry.records import check_own, is_own_directory, runtime_root

ANSWER = CONNECT + 5.0  # seconds for a quick call

# Run there as `python3 -I -S -c REMOVE DIRECTORY SPOOL PID…`: returns when the resident and its guardian have
# ended, by themselves or after growing force, and their files are removed.
REMOVE = """\
import os, signal, sys, time
directory, spool = sys.argv[1:3]
def is_ours(pid):
    try:
        with open("/proc/%s/comm" % pid) as comm:
            return comm.read().startswith("hermetic")
    except OSError:
        return False
def is_of_this_boot():
    with open("/proc/stat") as lines:
        booted = [int(line.split()[1]) for line in lines if line.startswith("btime")]
    return os.stat(directory).st_ctime >= booted[0]
def see_ended(pid):
    for number in (0, signal.SIGTERM, signal.SIGKILL):
        for _ in range(200):
            if not is_ours(pid):
                return
            if number and _ == 0:
                os.kill(int(pid), number)
            time.sleep(0.01)
if os.path.isdir(directory) and is_of_this_boot():
    for pid in sys.argv[3:]:
        see_ended(pid)
if os.path.isdir(directory):
    for name in os.listdir(directory):
        os.unlink(os.path.join(directory, name))
    os.rmdir(directory)
if spool and os.path.isdir(spool):
    os.rmdir(spool)
"""

# Run there as `python3 -I -S -c IS_ALIVE PID AGE`. A process that is younger than the environment has only its number;
# a minute is for clocks that run unevenly.
ENDED_CODE = 98
IS_ALIVE = f"""\
import os, sys
def age(pid):
    with open("/proc/%s/stat" % pid) as stat, open("/proc/uptime") as uptime:
        name, _, rest = stat.read().partition("(")[2].rpartition(")")
        fields = rest.split()
        if not name.startswith("hermetic") or fields[0] in "ZX":
            return -1
        return float(uptime.read().split()[0]) - int(fields[19]) / os.sysconf("SC_CLK_TCK")
try:
    is_alive = age(sys.argv[1]) > float(sys.argv[2]) - 60
except OSError:
    is_alive = False
if not is_alive:
    sys.exit({ENDED_CODE})
"""


class SshOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of `ssh`."""

    host: str  # as ssh takes it: a name, an address, or a Host of its settings
    user: str | None = None  # None: from ssh's settings
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)] | None = None
    key: str | None = None  # file of the private key; None: ssh's settings and agent
    config: str | None = None  # file of settings instead of the user's own
    settings: dict[str, str] = {}  # any of ssh_config(5), before all others
    sync: dict[str, str] = {}  # directories here → there: sent before commands, taken back at close
    credential_files: tuple[str, ...] = ()  # of the profile: sent to ~/.hermetic there, and never back
    profile: str | None = None  # profile whose files and skills are copied: a name, or an absolute path
    cwd: str = "~"
    env: dict[str, str] = {}  # variables besides those of a login there
    lease: Lease = LEASE
    unattended: Seconds = UNATTENDED
    login: bool = True  # take the user's profile in
    setup: str | None = None  # run once in the new environment's own shell


class Ssh(SocketBackend):
    """Commands run on another machine, as the user who logs in there."""

    kind = "ssh"
    option_shape = SshOptions
    _options: SshOptions
    identity = ("host", "user", "port", "credential_files", "profile")  # a task that lives elsewhere is another one
    leaves_files = True
    answers_within = KEEPALIVE * (KEEPALIVE_TRIES + 1.0)  # ssh itself notices a broken connection first

    def __init__(self, options: Mapping[str, Any]) -> None:
        chosen = read_options(self.kind, SshOptions, options)
        if fault := fault_of(chosen.env):
            raise ConfigError(fault, setting="env")
        for name in ("host", "user", "cwd", "key", "config"):
            _check_word(name, getattr(chosen, name))
        for name, value in chosen.settings.items():
            if not name.isalnum() or "\n" in value:
                raise ConfigError(f"{name}={value!r} is no setting of ssh; see ssh_config(5)", setting="settings")
        self._profile = select_profile(chosen.profile, chosen.credential_files)
        self._options = msgspec.structs.replace(
            chosen, key=_whole(chosen.key), config=_whole(chosen.config), sync=_synced(chosen.sync),
            profile=self._profile.directory, credential_files=self._profile.credential_files,
        )  # fmt: skip
        self._target = msgspec.convert(
            {name: getattr(self._options, name) for name in Target.__struct_fields__}, Target
        )

    @property
    def isolation(self) -> Isolation:
        """Another machine, unless the host's name is this one's."""
        if _is_here(self._options.host):
            return Isolation(kind=self.kind, shared_paths=("/",), notes=("the host is this machine",))
        return Isolation(
            kind=self.kind, separate_files=True, separate_processes=True, separate_user=True,
            shared_paths=tuple(self._options.sync),
            notes=("commands change the host they run on", *credential_notes(self._options.credential_files)),
        )  # fmt: skip

    @classmethod
    async def doctor(cls) -> Finding:
        """Checks the client; connects to no host."""
        return await try_program(("ssh",), ("-V",), install="install openssh-client")

    async def start(self, *, id: str, directory: str, spool: str | None, token: bytes, label: str) -> Started:
        """Starts a resident on the host, in a directory of its own there. Raises EnvironmentUnavailable."""
        if shutil.which("ssh") is None:
            raise NotInstalled("no ssh on PATH", "install openssh-client")
        options = self._options
        notes = unsent_notes(self._profile)
        config = ResidentConfig(
            id=f"{id}.{secrets.token_hex(4)}",  # of this life, and of this caller among others on that host
            token=token, directory="", spool=None, label=label, cwd=options.cwd,
            environ=child_environment({}, extra=options.env), inherit=True,
            lease=options.lease, unattended=options.unattended, login=options.login, login_timeout=LOGIN,
            guardian=True, arrival=ANSWER,
        )  # fmt: skip
        given = starting_input(build_archive(), msgspec.msgpack.encode(config))
        try:
            started = await start_resident(
                self._call(BOOT), given, seconds=START, environ=client_environment(), after=MARK
            )
        except EnvironmentUnavailable as error:
            meaning = explain(error, self._target, may_pass=False)
            if isinstance(error, StartFailed) and error.exit_code == NO_PYTHON_CODE:
                here = msgspec.structs.replace(config, directory=directory, spool=spool)
                return await self._start_bare(here, meaning)
            raise meaning from error
        own = os.path.dirname(started.socket)
        if os.path.basename(own) != config.id or (started.spool and os.path.basename(started.spool) != config.id):
            raise EnvironmentUnavailable(f"{self._target}: the resident says that it is at {started.socket}")
        place = {"directory": own, "spool": started.spool or ""}
        return msgspec.structs.replace(started, place=place, notes=notes)

    async def _start_bare(self, config: ResidentConfig, why: EnvironmentUnavailable) -> Started:
        """A resident on this machine for a host that has bash and no python3, over a connection of its own."""
        if self._options.sync:
            raise EnvironmentUnavailable(f"{why}; without it sync does not work: leave it out")
        exec_prefix = self._target.shell(Path(config.directory), f"exec {shlex.join(BASH)}")
        try:
            started = await start_bare(exec_prefix, config, environ=client_environment())
            notes = ("the profile's files were not sent: that takes python3 there",) if self._options.profile else ()
            return msgspec.structs.replace(started, notes=notes)
        except EnvironmentUnavailable as error:
            raise EnvironmentUnavailable(f"{why}; bash alone was tried too: {error}") from error

    async def reach(self, record: EnvironmentRecord) -> socket.socket:
        """A stream to the resident's socket there."""
        if is_bare(record):
            return await connect(record.socket)
        try:
            return await bridged(
                self._call(BRIDGE, record.socket), seconds=ANSWER, environ=client_environment(), after=MARK
            )
        except EnvironmentUnavailable as error:
            raise explain(error, self._target, may_pass=True) from error
        except FileNotFoundError as error:  # perhaps only the file was removed: the resident makes it anew
            if await self.is_gone(record):
                raise ConnectionRefusedError(f"process {record.pid} there has ended") from error
            message = f"{self._target}: process {record.pid} lives there, and its socket has no name"
            raise Unreachable(message, environment=record.id, state="stalled") from error

    async def is_gone(self, record: EnvironmentRecord) -> bool:
        """Whether the resident's process there has ended. Raises Unreachable when the host does not answer."""
        if is_bare(record):
            return has_local_resident_ended(record)
        age = max(0.0, time.time() - record.created)
        try:
            await run_there(self._call(IS_ALIVE, str(record.pid), f"{age:.0f}"), seconds=ANSWER)
        except EnvironmentUnavailable as error:
            if isinstance(error, CallFailed) and error.exit_code == ENDED_CODE:
                return True
            raise Unreachable(f"{self._target}: {error}", environment=record.id) from error
        return False

    async def remove(self, record: EnvironmentRecord) -> None:
        """Returns when the resident and its files are gone. Raises Unreachable; then its lease ends it."""
        if is_bare(record):
            await end_local_resident(record)
            return
        pids = [str(pid) for pid in (record.pid, record.guardian) if pid is not None]
        place = record.place
        for path in filter(None, (place["directory"], place["spool"])):
            check_own(record, path, is_own_directory(record, path))
        try:
            await run_there(self._call(REMOVE, place["directory"], place["spool"], *pids), seconds=START)
        except EnvironmentUnavailable as error:
            raise Unreachable(f"{error}; what runs there ends with its lease", environment=record.id) from error

    def _call(self, code: str, *arguments: str) -> list[str]:
        return self._target.call(runtime_root(), code, *arguments)


def _check_word(name: str, value: str | None) -> None:
    if value is None:
        return
    if not value or value.startswith("-") or not value.isprintable() or not is_text(value):
        raise ConfigError(f"{name} {value!r} cannot be used; give a text that does not start with -", setting=name)
    if name in ("host", "user") and any(letter.isspace() for letter in value):
        raise ConfigError(f"{name} {value!r} has a space in it", setting=name)


def _whole(path: str | None) -> str | None:
    return None if path is None else os.path.abspath(os.path.expanduser(path))


def _synced(pairs: Mapping[str, str]) -> dict[str, str]:
    """The directories as whole paths here, and there as the home's shell takes them."""
    found = {}
    for here, there in pairs.items():
        path = os.path.realpath(os.path.expanduser(here))
        if not os.path.isdir(path) or not is_text(path):
            raise ConfigError(f"sync: {here!r} is no directory here", setting="sync")
        if path in ("/", os.path.realpath(os.path.expanduser("~"))):
            raise ConfigError(f"sync: {path} is too much; name a directory in it", setting="sync")
        _check_word("sync", there)
        found[path] = there.removeprefix("~/") if there != "~" else "."
    return found


def _is_here(host: str) -> bool:
    name = host.rpartition("@")[2].strip("[]").lower()
    return name in ("localhost", "::1", socket.gethostname().lower()) or name.startswith("127.")
