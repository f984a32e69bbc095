"""Another machine, reached by OpenSSH's own client: the resident lives there and outlives the
connection.
"""

import os
import shutil
import socket
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from hermetic.contract.environment import Finding, Isolation, ResidentConfig, Started
from hermetic.contract.errors import ConfigError, EnvironmentUnavailable, NotInstalled
from hermetic.contract.limits import KEEPALIVE, KEEPALIVE_TRIES, LEASE, LOGIN, UNATTENDED
from hermetic.contract.variables import fault_of
from hermetic.environments.checkup import try_program
from hermetic.environments.child_environment import child_environment
from hermetic.environments.local_resident import new_resident_id
from hermetic.environments.options import (
    Lease,
    Seconds,
    check_word,
    read_options,
    synced_directories,
)
from hermetic.environments.profile import credential_notes, select_profile, unsent_notes
from hermetic.environments.remote import ANSWER, RemoteBackend
from hermetic.environments.ssh_client import Target, explain
from hermetic.registry.records import runtime_root


class SshOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of `ssh`."""

    host: str  # as ssh takes it: a name, an address, or a Host of its settings
    user: str | None = None  # None: from ssh's settings
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)] | None = None
    key: str | None = None  # file of the private key; None: ssh's settings and agent
    config: str | None = None  # file of settings instead of the user's own
    settings: dict[str, str] = {}  # any of ssh_config(5), before all others
    sync: dict[str, str] = {}  # directories here → there: sent before commands, taken back at close
    # of the profile: sent to ~/.hermetic there, and never back
    credential_files: tuple[str, ...] = ()
    # profile whose files and skills are copied: a name, or an absolute path
    profile: str | None = None
    cwd: str = "~"
    env: dict[str, str] = {}  # variables besides those of a login there
    lease: Lease = LEASE
    unattended: Seconds = UNATTENDED
    login: bool = True  # take the user's profile in
    setup: str | None = None  # run once in the new environment's own shell
    runtime: str = "auto"  # whose Python and bash: the host's, ours, or ours where it lacks one


class Ssh(RemoteBackend):
    """Commands run on another machine, as the user who logs in there."""

    kind = "ssh"
    option_shape = SshOptions
    _options: SshOptions
    # a task that lives elsewhere is another one
    identity = ("host", "user", "port", "credential_files", "profile")
    notices_silence = True  # by ServerAliveInterval
    # ssh itself notices a broken connection first
    answers_within = KEEPALIVE * (KEEPALIVE_TRIES + 1.0)

    def __init__(self, options: Mapping[str, Any]) -> None:
        chosen = read_options(self.kind, SshOptions, options)
        if fault := fault_of(chosen.env):
            raise ConfigError(fault, setting="env")
        for name in ("host", "user", "cwd", "key", "config"):
            check_word(name, getattr(chosen, name))
        for name, value in chosen.settings.items():
            if not name.isalnum() or "\n" in value:
                raise ConfigError(
                    f"{name}={value!r} is no setting of ssh; see ssh_config(5)", setting="settings"
                )
        self._profile = select_profile(chosen.profile, chosen.credential_files)
        self._options = msgspec.structs.replace(
            chosen,
            key=_whole(chosen.key),
            config=_whole(chosen.config),
            sync=synced_directories(chosen.sync),
            profile=self._profile.directory,
            credential_files=self._profile.credential_files,
        )
        self._target = msgspec.convert(
            {name: getattr(self._options, name) for name in Target.__struct_fields__}, Target
        )

    @property
    def isolation(self) -> Isolation:
        """Another machine, unless the host's name is this one's."""
        if _is_here(self._options.host):
            return Isolation(
                kind=self.kind, shared_paths=("/",), notes=("the host is this machine",)
            )
        return Isolation(
            kind=self.kind,
            separate_files=True,
            separate_processes=True,
            separate_user=True,
            shared_paths=tuple(self._options.sync),
            notes=(
                "commands change the host they run on",
                *credential_notes(self._options.credential_files),
            ),
        )

    @classmethod
    async def doctor(cls) -> Finding:
        """Checks the client; connects to no host."""
        return await try_program(("ssh",), ("-V",), install="install openssh-client")

    async def start(
        self, *, id: str, directory: str, spool: str | None, token: bytes, label: str
    ) -> Started:
        """Starts a resident on the host, in a directory of its own there.

        Raises EnvironmentUnavailable.
        """
        if shutil.which("ssh") is None:
            raise NotInstalled("no ssh on PATH", "install openssh-client")
        options = self._options
        config = ResidentConfig(
            id=new_resident_id(id),
            token=token,
            directory="",
            spool=None,
            label=label,
            cwd=options.cwd,
            environ=child_environment({}, extra=options.env),
            inherit=True,
            lease=options.lease,
            unattended=options.unattended,
            login=options.login,
            login_timeout=LOGIN,
            guardian=True,
            arrival=ANSWER,
        )
        started = await self.start_there(config, options.runtime)
        return msgspec.structs.replace(started, notes=unsent_notes(self._profile))

    def __str__(self) -> str:
        return str(self._target)

    def line_argv(self, line: str) -> list[str]:
        """The client, over a connection shared by all callers."""
        return self._target.shell(runtime_root(), line)

    def environ(self) -> dict[str, str]:
        """All of the caller's variables, for agents, askpass programs and settings."""
        return {"LC_ALL": "", **os.environ}  # it would be sent to the host

    def explained(self, error: EnvironmentUnavailable, *, may_pass: bool) -> EnvironmentUnavailable:
        """The meaning of the client's or the host's words."""
        return explain(error, self._target, may_pass=may_pass)


def _whole(path: str | None) -> str | None:
    return None if path is None else os.path.abspath(os.path.expanduser(path))


def _is_here(host: str) -> bool:
    name = host.rpartition("@")[2].strip("[]").lower()
    return name in ("localhost", "::1", socket.gethostname().lower()) or name.startswith("127.")
