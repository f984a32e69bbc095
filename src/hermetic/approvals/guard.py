"""Keeps a Python caller's own commands, input and files behind the door, where it asked for that."""

import shlex
from collections.abc import Mapping, Sequence

from hermetic.approvals.context import PolicyContext
from hermetic.approvals.factory import make_desk
from hermetic.approvals.gate import PolicyGate
from hermetic.approvals.settings import ApprovalSettings
from hermetic.contract.approval import Approver, Judged, Mode
from hermetic.contract.edits import Change, Oversight
from hermetic.contract.process import ProcessInfo
from hermetic.session.environment import Environment

__all__ = ["PolicyContext", "PolicyGuard", "door_of", "ruled_door"]


def door_of(mode: Mode, approver: Approver | None) -> PolicyGate:
    """A door for one caller, which remembers answers as long as it lives."""
    return PolicyGate(make_desk(ApprovalSettings(mode=mode), approver=approver))


def ruled_door(settings: ApprovalSettings) -> PolicyGate:
    """A door by a user's settings, which writes down what it decides where the user's decisions are."""
    return PolicyGate(make_desk(settings, keeps=True))


class PolicyGuard:
    """The door as one environment's caller meets it."""

    def __init__(self, door: PolicyGate, environment: Environment) -> None:
        self._door = door
        self._environment = environment
        self._task = environment.task or environment.id

    def __repr__(self) -> str:
        return f"<PolicyGuard of {self._environment!r}>"

    async def command(
        self, command: str | Sequence[str], *, session: str, stdin: str | bytes | None, env: Mapping[str, str] | None,
        cwd: str | None,
    ) -> Judged | None:  # fmt: skip
        """The state of the session that it was judged by. Raises NotPermitted."""
        text = command if isinstance(command, str) else shlex.join(command)
        return await self._door.command(
            self._task, text, self._environment, session=session, stdin=stdin, env=env, cwd=cwd
        )

    async def input(self, data: bytes, process: ProcessInfo) -> None:
        """Raises NotPermitted."""
        await self._door.input(self._task, data.decode("utf-8", "replace"), process, self._environment)

    async def write(self, *paths: str) -> None:
        """Raises NotPermitted."""
        await self._door.write(self._task, paths, self._environment)

    def oversight(self, besides: Oversight | None) -> Oversight:
        """Who is asked about an edit: this guard, then whoever is asked besides."""
        return _Oversight(self, besides)


class _Oversight:
    """Asks the guard first."""

    def __init__(self, guard: PolicyGuard, besides: Oversight | None) -> None:
        self._guard = guard
        self._besides = besides

    async def allow(self, paths: Sequence[str]) -> None:
        """Raises NotPermitted."""
        await self._guard.write(*paths)
        if self._besides is not None:
            await self._besides.allow(paths)

    def check(self, changes: Sequence[Change]) -> None:
        """As whoever is asked besides says."""
        if self._besides is not None:
            self._besides.check(changes)
