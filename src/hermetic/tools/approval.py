"""The request_approval tool: one question for many acts of one kind."""

from typing import Annotated

import msgspec

from hermetic.approvals.approvals import Approvals
from hermetic.contract.tool import Fields, Tool, about
from hermetic.tools.base.task import Task

DESCRIPTION = """\
Asks the user once for many acts of one kind that would otherwise be asked about one by one: \
changes of files below a directory (under), or runs of one program with the same first words \
(command). The user sees exactly what is asked for. Use it before a loop, never as a precaution."""


class ApprovalArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of `request_approval`."""

    count: Annotated[int, about("How many, at most 1000.")]
    under: Annotated[str, about("A directory: files below it may be changed.")] = ""
    command: Annotated[
        list[str], about("A program and its first words, such as git push origin.")
    ] = []
    reason: Annotated[str, about("Why, in one sentence for the user.")] = ""


async def request_approval(task: Task, asked: ApprovalArguments) -> Fields:
    """Asks, and answers when the user has."""
    if (gate := task.gate) is not None:
        words, why = asked.command, asked.reason
        await task.decide(
            lambda place: gate.batch(
                task.id, place, count=asked.count, under=asked.under, words=words, why=why
            )
        )
    return {"status": "approved", "count": asked.count, "error": None}


def approval_tool(approvals: Approvals) -> Tool[ApprovalArguments]:
    """The tool; it is offered where requests can be answered."""
    return Tool(
        "request_approval",
        DESCRIPTION,
        ApprovalArguments,
        request_approval,
        answers="{status: str, error?: str}",
        missing=lambda: (
            None
            if approvals.can_ask and approvals.settings.mode != "deny"
            else "there is no user to ask"
        ),
    )
