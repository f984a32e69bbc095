"""Base class for environments that are reached by a program which runs another one there.

The resident runs there as in every environment; each connection to it is one run of that program.
"""

import shlex
from collections.abc import Sequence

from hermetic.contract.environment import Isolation
from hermetic.environments.options import RuntimeOptions
from hermetic.environments.remote import RemoteBackend


class CommandOptions(RuntimeOptions, frozen=True, kw_only=True):
    """The options that every such kind has."""

    cwd: str = "~"


class CommandBackend(RemoteBackend):
    """A kind of environment by one method: `command`, which returns how to run a program there.

    A subclass names its `kind` and, where it has options of its own, as `option_shape` a subclass of
    CommandOptions; the chosen ones are `self.chosen`. See docs/how-to/add-a-backend.md.
    """

    option_shape = CommandOptions

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
