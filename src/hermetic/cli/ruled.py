"""The user's own rules on the command line: it asks for no approval, and what they deny is not done here either."""

import importlib
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from hermetic.environments import catalog
from hermetic.fleet.opening import is_living
from hermetic.session.environment import Environment

if TYPE_CHECKING:
    from hermetic.approvals.guard import PolicyGuard
    from hermetic.config import Settings


class Ruled:
    """What the settings deny, held to. Where they deny nothing, nothing is looked at, and the policy not imported."""

    def __init__(self, settings: "Settings | None") -> None:
        self._modules: Any = None
        if settings is None:
            return
        said = settings.approvals
        denying = tuple(rule for rule in said.rules if rule.decision == "deny")
        if denying or said.deny:
            self._modules = importlib.import_module("hermetic.approvals.guard")
            self._door = self._modules.ruled_door(msgspec.structs.replace(said, mode="allow", rules=denying))

    def __repr__(self) -> str:
        return f"<Ruled {'by what is denied' if self._modules else 'by nothing'}>"

    def put_before(self, environment: Environment) -> None:
        """From now on, what is run, typed and written there is looked at first."""
        if self._modules is not None:
            guard: PolicyGuard = self._modules.PolicyGuard(self._door, environment)
            environment._put_behind(guard)

    async def check_unopened(
        self, kind: str, options: Mapping[str, Any], task: str | None, command: str | Sequence[str], cwd: str | None
    ) -> None:
        """Looks at a command before its environment is opened. Raises NotPermitted."""
        if self._modules is None or (task is not None and await is_living(task)):
            return
        backend = catalog.find(kind)(options)
        text = command if isinstance(command, str) else shlex.join(command)
        spot = self._modules.PolicyContext(backend.kind, backend.isolation, backend.options)
        await self._door.command(task or "hermetic", text, spot, cwd=cwd)
