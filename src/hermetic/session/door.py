"""The one door: what may run, by the policy's verdict, and who is asked."""

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

import msgspec

from hermetic.contract.errors import NotPermitted
from hermetic.contract.process import ProcessInfo
from hermetic.contract.verdict import Verdict
from hermetic.policy.assess import assess, assess_python, assess_writes
from hermetic.session.environment import Environment

Answer = Literal["once", "session", "always", "deny"]


class ApprovalRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody is asked to allow."""

    command: str
    verdict: Verdict
    task: str
    environment: str  # its kind
    scope: dict[str, str]  # answer → what exactly it would grant


Approver = Callable[[ApprovalRequest], Answer | Awaitable[Answer]]


class PolicyDoor:
    """Lets through what is not dangerous; what is, only if somebody who can be asked allows it, each time anew."""

    def __init__(self, approver: Approver | None = None, *, allows: bool = False) -> None:
        self._approver = approver
        self._allows = allows  # what is dangerous is let through, what is never to be run is not

    async def command(self, task: str, text: str, environment: Environment) -> None:
        """Raises NotPermitted before anything is started."""
        await self._decide(task, text, assess(text, isolation=environment.isolation), environment)

    async def input(self, task: str, data: str, process: ProcessInfo, environment: Environment) -> None:
        """Input to what already runs passes."""

    async def write(self, task: str, paths: Sequence[str], environment: Environment) -> None:
        """Raises NotPermitted before anything is written."""
        verdict = assess_writes(paths, isolation=environment.isolation)
        await self._decide(task, f"write {', '.join(paths)}", verdict, environment)

    async def code(self, task: str, source: str, environment: Environment) -> None:
        """Raises NotPermitted before anything is started."""
        await self._decide(task, source, assess_python(source, isolation=environment.isolation), environment)

    async def _decide(self, task: str, text: str, verdict: Verdict, environment: Environment) -> None:
        if verdict.hardline:
            raise _refused(verdict, "it is never run, whoever asks")
        if verdict.label != "dangerous" or self._allows:
            return
        if self._approver is None:
            raise _refused(verdict, "nobody can be asked; do it in another way, or tell the user what you need")
        asked = ApprovalRequest(
            command=text, verdict=verdict, task=task, environment=environment.kind,
            scope={"once": "this command, this time", "deny": "nothing"},
        )  # fmt: skip
        answer = self._approver(asked)
        if inspect.isawaitable(answer):
            answer = await answer
        if answer not in ("once", "session", "always"):
            raise _refused(verdict, "the user said no; do not try it again")


def _refused(verdict: Verdict, why: str) -> NotPermitted:
    return NotPermitted(f"not run: {verdict.reason} ({verdict.category}); {why}", rule=verdict.category, reason=why)
