"""A gate as its tests have it: by the policy alone, before an environment of this machine."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import hermetic
from hermetic.approvals.approvals import Approvals
from hermetic.approvals.gate import PolicyGate
from hermetic.approvals.settings import ApprovalSettings
from hermetic.contract.errors import NotPermitted
from hermetic.session.environment import Environment


@asynccontextmanager
async def opened(directory: Path) -> AsyncIterator[Environment]:
    async with asyncio.timeout(60), hermetic.open("local", cwd=str(directory), login=False) as env:
        yield env


def gate(**settings: Any) -> PolicyGate:
    return PolicyGate(Approvals(ApprovalSettings(**settings)))


async def is_refused(guard: PolicyGate, place: Environment, command: str, **more: Any) -> bool:
    try:
        await guard.command("t", command, place, **more)
    except NotPermitted:
        return True
    return False
