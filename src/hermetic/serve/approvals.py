"""Approval requests of this user at the console: shown live, answered once."""

import asyncio
import contextlib
from typing import Self

from hermetic.approvals.watching import ApprovalWatch, Change
from hermetic.serve.events import Event, Hub

NAME = "the console"


class Approvals:
    """What agents ask, as events for open tabs.

    While a tab is open whose person may answer, agents can ask.
    """

    def __init__(self, hub: Hub) -> None:
        self.watch = ApprovalWatch(NAME)
        self._hub = hub
        self._attending = contextlib.ExitStack()
        self._passing: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<Approvals: {self.watch!r}>"

    async def __aenter__(self) -> Self:
        await self.watch.__aenter__()
        self._passing = asyncio.create_task(self._pass_changes())
        self._hub.audience_listeners.append(self._audience_changed)
        return self

    async def __aexit__(self, *error: object) -> None:
        self._hub.audience_listeners.remove(self._audience_changed)
        self._attending.close()
        await self.watch.__aexit__(*error)  # ends the changes
        if self._passing is not None:
            await self._passing

    async def _pass_changes(self) -> None:
        async with self.watch.changes() as changes:
            async for change in changes:
                self._hub.publish(event_of(change))

    def _audience_changed(self) -> None:
        # ends after the new one has begun: an agent that asks sees no gap
        before = self._attending.pop_all()
        if self._hub.is_answering:
            self._attending.enter_context(self.watch.attend())
        before.close()


def event_of(change: Change) -> Event:
    """The event that tabs get."""
    settled = change.settled
    outcome = (
        None
        if settled is None
        else {"answer": settled.answer, "by": settled.by, "reason": settled.reason}
    )
    return {
        "event": "approval",
        "change": change.change,
        "approval": change.request,
        "answered": outcome,
    }
