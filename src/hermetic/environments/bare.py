"""Bare mode: commands run where there is bash and no Python, through any program that starts a bash there.

The resident lives on this machine, as `local`'s does; `hermetic.resident.bare.main` is how it reaches the place.
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
from hermetic.environments.beside import end_beside, is_gone_beside, new_life, start_beside
from hermetic.environments.child_environment import child_environment
from hermetic.environments.options import Lease, Seconds, read_options
from hermetic.environments.unix_socket import connect
from hermetic.link.archive import BARE_BOOT

BASH = ("bash", "--norc", "--noprofile")  # what has to be started in the place; it reads its standard input
MARGIN = 10.0  # seconds of a start that are not the keeper's


async def start_bare(
    arm: Sequence[str], config: ResidentConfig, *, environ: Mapping[str, str], keeper: Sequence[str] = (),
    farewell: Sequence[str] = (), seconds: float = START,
) -> Started:  # fmt: skip
    """A resident on this machine for a place that has bash. Raises EnvironmentUnavailable.

    `arm` starts BASH in the place, joined to its own standard streams; it is run for every command, with `environ`.
    `keeper` makes the place and starts it there once, for as long as the resident lives; the place ends with it.
    `farewell` takes away what is left of the place once the resident has ended, however it did.
    An empty `config.cwd` is the directory that `arm` leads to. The record's `place` says `bare`: see `is_bare`.
    """
    chosen = msgspec.structs.replace(
        config, arm=tuple(arm), arm_environ=dict(environ), keeper=tuple(keeper), keeper_seconds=seconds,
        farewell=tuple(farewell),
        foreground=False, guardian=True, inherit=False, opener=None, own_cgroup=False,
    )  # fmt: skip
    started = await start_beside(chosen, BARE_BOOT, seconds=seconds + MARGIN)
    return msgspec.structs.replace(started, place={"bare": "1"})


def is_bare(record: EnvironmentRecord) -> bool:
    """True when the resident of a record lives on this machine: `unix_socket.connect` and `end_beside` are for it."""
    return "bare" in record.place


class BareOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options that every kind in bare mode has."""

    cwd: str = ""  # "": where `command` leads to
    env: dict[str, str] = {}  # variables of its commands besides the place's own
    lease: Lease = LEASE
    unattended: Seconds = UNATTENDED
    login: bool = True  # take the user's profile in


class BareBackend:
    """A kind of environment by one method: `command`, which says how to run a program there.

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
        """The program and arguments on this machine that run `argv` in the place, joined to its standard streams."""
        raise NotImplementedError

    @property
    def isolation(self) -> Isolation:
        """What stands between a command there and this machine. Nothing is promised unless a subclass says so."""
        return Isolation(kind=self.kind, shared_paths=("/",))

    @property
    def options(self) -> dict[str, Any]:
        """All options, defaults filled in."""
        return msgspec.structs.asdict(self.chosen)

    async def start(self, *, id: str, directory: str, spool: str | None, token: bytes, label: str) -> Started:
        """Starts a resident beside us that works through `command`. Raises EnvironmentUnavailable."""
        chosen = self.chosen
        config = ResidentConfig(
            id=new_life(id), token=token, directory=directory, spool=spool, label=label, cwd=chosen.cwd,
            environ=child_environment({}, extra=chosen.env), lease=chosen.lease, unattended=chosen.unattended,
            login=chosen.login, login_timeout=LOGIN, guardian=True,
        )  # fmt: skip
        return await start_bare(self.command(BASH), config, environ=child_environment(os.environ))

    async def reach(self, record: EnvironmentRecord) -> socket.socket:
        """A socket connected to the resident's."""
        return await connect(record.socket)

    async def is_gone(self, record: EnvironmentRecord) -> bool:
        """Whether the resident's process, on this machine, has ended."""
        return is_gone_beside(record)

    async def remove(self, record: EnvironmentRecord) -> str:
        """Returns when the resident and its guardian have ended, and with them all that ran in the place."""
        return await end_beside(record)
