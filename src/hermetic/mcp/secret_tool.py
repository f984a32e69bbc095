"""The tool `type_secret`: the user types a secret into a process that waits for one.

No model reads it.
"""

from collections.abc import Awaitable, Callable
from typing import Annotated

import msgspec
from msgspec import Meta

from hermetic.approvals.gate import make_gate
from hermetic.approvals.settings import ApprovalSettings
from hermetic.contract.errors import NotPermitted, UnknownProcess
from hermetic.contract.limits import COMMAND_SHOWN
from hermetic.contract.printable import one_line
from hermetic.contract.tool import Fields, Tool
from hermetic.mcp.secret_page import Purpose
from hermetic.tools.base.task import Task

DESCRIPTION = """\
Has the user type a secret (a password, a passphrase, a token) into a background process that waits for it. The user \
types it on a page of their own machine; it is never part of the conversation. Use it whenever a program asks for a \
secret; never ask for one in the conversation, and never pass one as an argument."""
NO_PAGE = "this client cannot open a page for the user. Ask the user to type it in a terminal instead: hermetic secret {id}"

CUT = "\n[this is the start of a longer command]"

# (purpose, task) → the secret; None: the user did not type one
AskSecret = Callable[[Purpose, str], Awaitable[str | None]]


class SecretArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of `type_secret`."""

    session_id: Annotated[
        str, Meta(description="The process, as terminal(background=true) or a yield named it.")
    ]
    reason: Annotated[
        str, Meta(description="What the secret is for, in one sentence for the user.")
    ]


def secret_tool(ask: AskSecret | None, approvals: ApprovalSettings) -> Tool[SecretArguments]:
    """The tool; without `ask` it says what the user can do instead.

    The user decides by typing, so only what no answer allows is refused here. Nothing quotes the
    secret: neither a question, nor a refusal, nor the journal.
    """
    denying = tuple(rule for rule in approvals.rules if rule.decision == "deny")
    gate = make_gate(
        msgspec.structs.replace(approvals, mode="allow", rules=denying, file=None, log=None)
    )

    async def run(task: Task, given: SecretArguments) -> Fields:
        async with task.environment() as environment:
            try:
                process = await environment.process(given.session_id)
            except UnknownProcess:
                return {
                    "status": "not_found",
                    "error": f"no process {given.session_id!r}; process(action='list') lists them",
                }
            if process.info.ending is not None:
                return {
                    "status": "exited",
                    "error": "the process has ended; nothing reads a secret",
                }
            if ask is None:
                return {"status": "unavailable", "error": NO_PAGE.format(id=process.id)}
            command = process.info.command
            rest = CUT if len(command.encode()) >= COMMAND_SHOWN else ""
            secret = await ask(
                Purpose(command + rest, f"The model says: {one_line(given.reason)}"), task.id
            )
            if secret is None:
                return {
                    "status": "declined",
                    "error": "the user did not type it; do not ask again, go on without it",
                }
            try:
                await gate.input(task.id, f"{secret}\n", process.info, environment)
            except NotPermitted:
                return {
                    "status": "blocked",
                    "error": "not typed: a rule denies it, or it is never run; go on without it",
                }
            await process.write_secret(secret)
            return {"status": "typed", "session_id": process.id, "error": None}

    return Tool(
        "type_secret", DESCRIPTION, SecretArguments, run, answers="{status: str, error?: str}"
    )
