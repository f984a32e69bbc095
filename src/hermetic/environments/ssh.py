"""Another machine, reached by OpenSSH's own client: the resident lives there and outlives the
connection.
"""

import os
import shutil
import socket
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from hermetic.contract.environment import Finding, Isolation, NewEnvironment, Started
from hermetic.contract.errors import ConfigError, EnvironmentUnavailable, NotInstalled
from hermetic.contract.limits import KEEPALIVE, KEEPALIVE_TRIES
from hermetic.environments.checkup import try_program
from hermetic.environments.options import ProfileOptions, check_word, identity_of
from hermetic.environments.profile import credential_notes, unsent_notes
from hermetic.environments.remote import RemoteBackend
from hermetic.environments.ssh_client import Target, explain
from hermetic.registry.records import runtime_root


class SshOptions(ProfileOptions, frozen=True, kw_only=True):
    """The options of `ssh`."""

    host: str  # as ssh takes it: a name, an address, or a Host of its settings
    user: str | None = None  # None: from ssh's settings
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)] | None = None
    key: str | None = None  # file of the private key; None: ssh's settings and agent
    config: str | None = None  # file of settings instead of the user's own
    # any of ssh_config(5), before all others
    settings: dict[str, str] = msgspec.field(default_factory=dict)
    # directories here → there: sent before commands, copied back at close
    sync: dict[str, str] = msgspec.field(default_factory=dict)
    cwd: str = "~"


class Ssh(RemoteBackend):
    """Commands run on another machine, as the user who logs in there."""

    kind = "ssh"
    option_shape = SshOptions
    chosen: SshOptions
    identity = identity_of(SshOptions)
    notices_silence = True  # by ServerAliveInterval
    # ssh itself notices a broken connection first
    answers_within = KEEPALIVE * (KEEPALIVE_TRIES + 1.0)

    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__(options)
        chosen = self.chosen
        for name in ("host", "user", "cwd", "key", "config"):
            check_word(name, getattr(chosen, name))
        for name, value in chosen.settings.items():
            if not name.isalnum() or "\n" in value:
                raise ConfigError(
                    f"{name}={value!r} is no setting of ssh; see ssh_config(5)", setting="settings"
                )
        self.chosen = msgspec.structs.replace(
            chosen, key=_whole(chosen.key), config=_whole(chosen.config)
        )
        self._target = msgspec.convert(self.chosen, Target, from_attributes=True)

    @property
    def isolation(self) -> Isolation:
        """Another machine, unless the host's name is this one's."""
        if _is_here(self.chosen.host):
            return Isolation(
                kind=self.kind, shared_paths=("/",), notes=("the host is this machine",)
            )
        return Isolation(
            kind=self.kind,
            separate_files=True,
            separate_processes=True,
            separate_user=True,
            shared_paths=tuple(self.chosen.sync),
            notes=(
                "commands change the host they run on",
                *credential_notes(self.chosen.credential_files),
            ),
        )

    @classmethod
    async def doctor(cls) -> Finding:
        """Checks the client; connects to no host."""
        return await try_program(("ssh",), ("-V",), install="install openssh-client")

    async def start(self, new: NewEnvironment) -> Started:
        """Starts a resident on the host, in a directory of its own there.

        Raises EnvironmentUnavailable.
        """
        if shutil.which("ssh") is None:
            raise NotInstalled("no ssh on PATH", "install openssh-client")
        started = await super().start(new)
        return msgspec.structs.replace(started, notes=unsent_notes(self.chosen.selected_profile))

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
