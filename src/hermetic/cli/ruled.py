"""The user's own rules on the command line: it asks for no approval, and what they deny is not done here either."""

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from hermetic.environments import catalog
from hermetic.fleet.opening import is_living
from hermetic.resident.lazy import Lazy
from hermetic.session.environment import Environment
from hermetic.session.keeping import put_behind

if TYPE_CHECKING:
    from hermetic.approvals import guard
    from hermetic.approvals.gate import PolicyGate
    from hermetic.config import Settings
else:
    guard = Lazy("hermetic.approvals.guard")


class Ruled:
    """What the settings deny, held to. Where they deny nothing, nothing is looked at, and the policy not imported."""

    def __init__(self, settings: "Settings | None") -> None:
        self._gate: PolicyGate | None = None
        if settings is None:
            return
        said = settings.approvals
        denying = tuple(rule for rule in said.rules if rule.decision == "deny")
        if denying or said.deny:
            self._gate = guard.ruled_door(msgspec.structs.replace(said, mode="allow", rules=denying))

    def __repr__(self) -> str:
        return f"<Ruled {'by what is denied' if self._gate else 'by nothing'}>"

    def put_before(self, environment: Environment) -> None:
        """From now on, what is run, typed and written there is looked at first."""
        if self._gate is not None:
            put_behind(environment, guard.PolicyGuard(self._gate, environment))

    async def check_unopened(
        self, kind: str, options: Mapping[str, Any], task: str | None, command: str | Sequence[str], cwd: str | None
    ) -> None:
        """Looks at a command before its environment is opened. Raises NotPermitted."""
        if self._gate is None or (task is not None and await is_living(task)):
            return
        backend = catalog.find(kind)(options)
        text = command if isinstance(command, str) else shlex.join(command)
        context = guard.PolicyContext(backend.kind, backend.isolation, backend.options)
        await self._gate.command(task or "hermetic", text, context, cwd=cwd)
