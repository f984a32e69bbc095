"""Base class for environments that are reached by a program which runs another one there.

The resident runs there as in every environment; each connection to it is one run of that program.
"""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import msgspec

from hermetic.contract.environment import Isolation, ResidentConfig, Started
from hermetic.contract.errors import ConfigError
from hermetic.contract.limits import LEASE, LOGIN, UNATTENDED
from hermetic.contract.variables import fault_of
from hermetic.environments.child_environment import child_environment
from hermetic.environments.local_resident import new_resident_id
from hermetic.environments.options import Lease, Seconds, read_options
from hermetic.environments.remote import ANSWER, RemoteBackend


class CommandOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options that every such kind has."""

    cwd: str = "~"
    env: dict[str, str] = {}  # variables of its commands besides the environment's own
    lease: Lease = LEASE
    unattended: Seconds = UNATTENDED
    login: bool = True  # take the user's profile in
    # whose Python and bash: the environment's, ours, or ours where it lacks one
    runtime: str = "auto"


class CommandBackend(RemoteBackend):
    """A kind of environment by one method: `command`, which returns how to run a program there.

    A subclass names its `kind` and, where it has options of its own, a subclass of CommandOptions;
    the chosen ones are `self.chosen`. See docs/how-to/add-a-backend.md.
    """

    kind: str
    options_type: ClassVar[type[CommandOptions]] = CommandOptions

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.chosen: Any = read_options(self.kind, self.options_type, options)
        self._options = self.chosen
        if fault := fault_of(self.chosen.env):
            raise ConfigError(fault, setting="env")

    def __str__(self) -> str:
        return self.kind

    def command(self, argv: Sequence[str]) -> Sequence[str]:
        """The program and arguments on this machine that run `argv` in the environment, with its
        standard streams.
        """
        raise NotImplementedError

    @property
    def isolation(self) -> Isolation:
        """Isolation of a command there from this machine; none unless a subclass states it."""
        return Isolation(kind=self.kind, shared_paths=("/",))

    def line_argv(self, line: str) -> list[str]:
        """The program on this machine that runs a shell line there."""
        return list(self.command(shlex.split(line.removeprefix("exec "))))

    async def start(
        self, *, id: str, directory: str, spool: str | None, token: bytes, label: str
    ) -> Started:
        """Starts a resident there, in a directory of its own. Raises EnvironmentUnavailable."""
        chosen = self.chosen
        config = ResidentConfig(
            id=new_resident_id(id),
            token=token,
            directory="",
            spool=None,
            label=label,
            cwd=chosen.cwd,
            environ=child_environment({}, extra=chosen.env),
            inherit=True,
            lease=chosen.lease,
            unattended=chosen.unattended,
            login=chosen.login,
            login_timeout=LOGIN,
            guardian=True,
            arrival=ANSWER,
        )
        return await self.start_there(config, chosen.runtime)
