"""What a front door needs to have questions answered."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

from hermetic.approvals.desk import Desk
from hermetic.contract.approval import Answer, Approval, ApprovalRequest


class Approvals:
    """Open questions and their answers, and what was allowed before."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def __repr__(self) -> str:
        return f"<Approvals: {len(self.pending())} pending>"

    def pending(self, task_id: str | None = None) -> list[ApprovalRequest]:
        """The questions that wait for an answer, the oldest first."""
        return self._desk.queue.pending(task_id)

    def answer(self, id: str, answer: Answer, reason: str = "") -> None:
        """Answers one, from any thread; the model gets the `reason` of a "deny".

        Raises UnknownApproval when it does not wait any more, InvalidArgument.
        """
        self._desk.queue.answer(id, answer, reason)

    def withdraw(self, id: str) -> None:
        """Takes a question back; what it asked for is not allowed. Raises UnknownApproval."""
        self._desk.queue.withdraw(id)

    def attend(self) -> AbstractAsyncContextManager[AsyncIterator[ApprovalRequest]]:
        """While this block lasts, somebody is there to answer; gives the questions as they come."""
        return self._desk.queue.attend()

    def granted(self) -> list[Approval]:
        """What was allowed for longer than once and still holds. Raises ConfigError."""
        return self._desk.grants.all()

    def revoke(self, key: str) -> bool:
        """Takes back what was allowed, by its key; False when nothing has it. Raises ConfigError."""
        return self._desk.grants.revoke(key)
