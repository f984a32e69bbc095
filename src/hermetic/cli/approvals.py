"""`hermetic approvals`: the questions of all agents of this user, and answers to them."""

import argparse
import asyncio
import contextlib
import time

from hermetic.approvals.exchange import SharedRequest
from hermetic.approvals.prompt import TerminalPrompt, described
from hermetic.approvals.watching import ApprovalWatch
from hermetic.cli.command import FAILED, JSON, Command, options, report_error
from hermetic.cli.interrupts import Interrupts, interruptible
from hermetic.cli.report import age, one_line, print_json, span
from hermetic.contract.approval import ANSWERS, Answer, Denial
from hermetic.contract.errors import InvalidArgument, UnknownApproval

NAME = "the command line"


def _arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="list|answer|watch")
    for name, (meaning, *rows) in _ACTIONS.items():
        options(*rows)(actions.add_parser(name, help=meaning))
    options(JSON)(parser)


_ACTIONS = {
    "list": ("what waits for an answer: --json", JSON),
    "answer": (
        "answer one: ID once|session|always|deny, --reason with deny",
        f"""\
id ID  or the start of one that is unique
answer {{{",".join(ANSWERS)}}}
--reason TEXT =   of a denial; the model reads it""",
    ),
    "watch": ("ask at this terminal, until Ctrl-C; meanwhile every agent can ask",),
}


@interruptible
async def _approvals(arguments: argparse.Namespace, _: Interrupts) -> int:
    if arguments.action == "answer":
        return await _answer(arguments.id, arguments.answer, arguments.reason)
    return await (_watch() if arguments.action == "watch" else _list(arguments.json))


async def _list(as_json: bool) -> int:
    async with ApprovalWatch(NAME) as watch:
        pending = watch.pending()
    if as_json:
        print_json(pending)
    elif pending:
        print("\n\n".join(map(_shown, pending)))
    if watch.refused:
        return report_error(watch.refused, FAILED)
    return 0


def _shown(request: SharedRequest) -> str:
    where = request.where
    inside = ", which runs inside an environment itself" if where.inside else ""
    asked = f"asked {age(request.asked)} ago by {one_line(where.program)}, pid {where.pid}{inside}"
    left = f"{span(max(0.0, request.expires - time.time()))} left for an answer"
    return f"{request.id}: {asked}; {left}\n{described(request)}"


async def _answer(id: str, answer: Answer, reason: str) -> int:
    async with ApprovalWatch(NAME) as watch:
        matching = [request.id for request in watch.pending() if id and request.id.startswith(id)]
        if len(matching) > 1:
            message = f"{id!r} is the start of several ids: {', '.join(matching)}; give more of it"
            raise InvalidArgument(message, argument="id")
        await watch.answer(matching[0] if matching else id, answer, reason)
    return 0


async def _watch() -> int:
    """Asks at the terminal, one question after the other."""
    if not TerminalPrompt().is_there:
        raise InvalidArgument(
            "there is no terminal to ask at; `hermetic approvals answer` needs none"
        )
    turn, asking = asyncio.Lock(), dict[str, asyncio.Task[None]]()
    async with (
        ApprovalWatch(NAME) as watch,
        watch.changes() as changes,
        asyncio.TaskGroup() as tasks,
    ):
        with watch.attend():
            print("What agents want to do is asked here, until Ctrl-C.", flush=True)
            for request in watch.pending():
                asking[request.id] = tasks.create_task(_ask(watch, request, turn))
            async for change, request, settled in changes:
                if change == "asked":
                    asking[request.id] = tasks.create_task(_ask(watch, request, turn))
                elif settled is not None:
                    asking.pop(request.id).cancel()
                    print(f"\n{request.id}: {settled.described()}", flush=True)
    return 0


async def _ask(watch: ApprovalWatch, request: SharedRequest, turn: asyncio.Lock) -> None:
    async with turn:
        # the end of every request is reported as such
        with contextlib.suppress(TimeoutError, UnknownApproval):
            said = await TerminalPrompt(max(0.0, request.expires - time.time()))(request)
            reason = said.reason if isinstance(said, Denial) else ""
            await watch.answer(request.id, "deny" if isinstance(said, Denial) else said, reason)


COMMANDS = {
    "approvals": Command(
        """\
The questions of all agents of this user, and your answers.

  hermetic approvals
  hermetic approvals answer 3f once
  hermetic approvals answer 3f deny --reason 'push a branch instead'
  hermetic approvals watch""",
        _arguments,
        _approvals,
    ),
}
