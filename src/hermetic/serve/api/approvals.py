"""Approval requests of all processes of this user: /approvals."""

import asyncio
import os

import msgspec

from hermetic.approvals.exchange import SharedRequest
from hermetic.approvals.journal import Decision, default_journal, last_decisions
from hermetic.approvals.watching import AlreadyAnswered
from hermetic.contract.approval import Answer
from hermetic.serve.refusals import Problem
from hermetic.serve.routes import Call, Resource, json_response

MOST_HISTORY = 1000


class ApprovalList(msgspec.Struct, frozen=True, kw_only=True):
    """What waits for an answer, the oldest first."""

    approvals: tuple[SharedRequest, ...]


class GivenAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer; a reason goes with "deny"."""

    answer: Answer
    reason: str = ""


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """The answer that counts."""

    answer: str  # empty: it expired or was withdrawn
    by: str
    reason: str = ""


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """What became of an approval request."""

    answered: Answered


class Conflict(msgspec.Struct, frozen=True, kw_only=True):
    """Another answer was first."""

    error: Problem
    answered: Answered


class History(msgspec.Struct, frozen=True, kw_only=True):
    """Decisions of the journal, the newest first."""

    decisions: tuple[Decision, ...]


class HistoryQuery(msgspec.Struct, frozen=True, kw_only=True):
    """How many decisions."""

    limit: int = 100


async def _list(call: Call) -> ApprovalList:
    watch = call.console.approvals.watch
    watch.look()  # in case that the kernel does not report new ones
    return ApprovalList(approvals=tuple(watch.pending()))


async def _answer(call: Call) -> object:
    given = call.body(GivenAnswer)
    by = f"{call.grant.name} at the console"
    try:
        settled = await call.console.approvals.watch.answer(
            call.path("id"), given.answer, given.reason, by=by
        )
    except AlreadyAnswered as error:
        settled = error.settled
        outcome = Answered(answer=settled.answer, by=settled.by, reason=settled.reason)
        problem = Problem(
            code="already_answered", message=str(error), advice="Look at the list again."
        )
        return json_response(Conflict(error=problem, answered=outcome), 409)
    return Taken(answered=Answered(answer=settled.answer, by=settled.by, reason=settled.reason))


async def _history(call: Call) -> History:
    limit = max(1, min(MOST_HISTORY, call.query(HistoryQuery).limit))
    path = default_journal(os.environ)
    found = [] if path is None else await asyncio.to_thread(last_decisions, path, limit)
    return History(decisions=tuple(found))


ROUTES = (
    Resource("GET", "/approvals", "view", _list, "What waits for an answer.", ApprovalList),
    Resource(
        "GET", "/approvals/history", "view", _history, "Decisions.", History, query=HistoryQuery
    ),
    Resource(
        "POST",
        "/approvals/{id}",
        "approve",
        _answer,
        "Answers one; the first answer counts.",
        Taken,
        body=GivenAnswer,
    ),
)
