"""Bare mode: environments with bash and without Python, reached through any program that starts a bash there.

The resident runs on this machine, as that of `local`; `hermetic.resident.bare.main` connects it to the environment.
"""

import os
import socket
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import msgspec

from hermetic.contract.environment import EnvironmentRecord, Isolation, ResidentConfig, Started
from hermetic.contract.errors import ConfigError
from hermetic.contract.limits import LEASE, LOGIN, START, UNATTENDED
from hermetic.contract.variables import fault_of
from hermetic.environments.child_environment import child_environment
from hermetic.environments.local_resident import (
    end_local_resident,
    has_local_resident_ended,
    new_resident_id,
    start_local_resident,
)
from hermetic.environments.options import Lease, Seconds, read_options
from hermetic.environments.unix_socket import connect
from hermetic.link.archive import BARE_BOOT

BASH = ("bash", "--norc", "--noprofile")  # the program to start in the environment; it reads its standard input
MARGIN = 10.0  # seconds of a start besides the keeper's


async def start_bare(
    exec_prefix: Sequence[str], config: ResidentConfig, *, environ: Mapping[str, str], keeper: Sequence[str] = (),
    cleanup_command: Sequence[str] = (), seconds: float = START,
) -> Started:  # fmt: skip
    """A resident on this machine for an environment that has bash. Raises EnvironmentUnavailable.

    `exec_prefix` starts BASH in the environment, with its standard streams; it runs for every command, with `environ`.
    `keeper` creates the environment and starts the first bash there, for as long as the resident lives.
    `cleanup_command` removes what is left of the environment once the resident has ended, also by SIGKILL.
    An empty `config.cwd` is the directory of `exec_prefix`. The record's `place` says `bare`: see `is_bare`.
    """
    chosen = msgspec.structs.replace(
        config, arm=tuple(exec_prefix), arm_environ=dict(environ), keeper=tuple(keeper), keeper_seconds=seconds,
        farewell=tuple(cleanup_command),
        foreground=False, guardian=True, inherit=False, opener=None, own_cgroup=False,
    )  # fmt: skip
    started = await start_local_resident(chosen, BARE_BOOT, seconds=seconds + MARGIN)
    return msgspec.structs.replace(started, place={"bare": "1"})


def is_bare(record: EnvironmentRecord) -> bool:
    """True when the resident of a record runs on this machine, by `start_bare`."""
    return "bare" in record.place


class BareOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options that every kind in bare mode has."""

    cwd: str = ""  # "": the directory of `command`
    env: dict[str, str] = {}  # variables of its commands besides the environment's own
    lease: Lease = LEASE
    unattended: Seconds = UNATTENDED
    login: bool = True  # take the user's profile in


class BareBackend:
    """A kind of environment by one method: `command`, which returns how to run a program there.

    A subclass names its `kind` and, where it has options of its own, a subclass of BareOptions; the chosen ones are
    `self.chosen`. See docs/how-to/add-a-backend.md.
    """

    kind: str
    options_type: ClassVar[type[BareOptions]] = BareOptions

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.chosen: Any = read_options(self.kind, self.options_type, options)
        if fault := fault_of(self.chosen.env):
            raise ConfigError(fault, setting="env")

    def command(self, argv: Sequence[str]) -> Sequence[str]:
        """The program and arguments on this machine that run `argv` in the environment, with its standard streams."""
        raise NotImplementedError

    @property
    def isolation(self) -> Isolation:
        """Isolation of a command there from this machine; none unless a subclass states it."""
        return Isolation(kind=self.kind, shared_paths=("/",))

    @property
    def options(self) -> dict[str, Any]:
        """All options, defaults filled in."""
        return msgspec.structs.asdict(self.chosen)

    async def start(self, *, id: str, directory: str, spool: str | None, token: bytes, label: str) -> Started:
        """Starts a resident on this machine that works through `command`. Raises EnvironmentUnavailable."""
        chosen = self.chosen
        config = ResidentConfig(
            id=new_resident_id(id), token=token, directory=directory, spool=spool, label=label, cwd=chosen.cwd,
            environ=child_environment({}, extra=chosen.env), lease=chosen.lease, unattended=chosen.unattended,
            login=chosen.login, login_timeout=LOGIN, guardian=True,
        )  # fmt: skip
        return await start_bare(self.command(BASH), config, environ=child_environment(os.environ))

    async def reach(self, record: EnvironmentRecord) -> socket.socket:
        """A socket connected to the resident's."""
        return await connect(record.socket)

    async def is_gone(self, record: EnvironmentRecord) -> bool:
        """Whether the resident's process, on this machine, has ended."""
        return has_local_resident_ended(record)

    async def remove(self, record: EnvironmentRecord) -> str:
        """Returns when the resident and its guardian have ended, and with them all processes there."""
        return await end_local_resident(record)
