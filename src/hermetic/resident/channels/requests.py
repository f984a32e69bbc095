"""Requests of clients that serve programs inside: the script bridge, and password prompts."""

from __future__ import annotations

from ..limits import PROMPT
from ..processes.stdin_writer import InputClosed
from ..wire.fields import invalid
from .bridge import TOKEN_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..life.resident import Resident
    from ..life.server import Request
    from .askpass import Question


def bridge(resident: Resident, request: Request, token: str = "") -> None:
    """Stays open.

    The first event holds the socket to which programs connect, the others hold their bytes.
    """
    if len(token.encode()) != TOKEN_BYTES:
        raise invalid("token", "a token has %d characters" % TOKEN_BYTES)
    resident.bridge.open(token.encode(), request)


def modules(resident: Resident, request: Request, name: str) -> None:
    """Keeps the body under a name: modules for scripts."""
    resident.scripts.keep(name, request.body)
    request.reply({})


def say(resident: Resident, request: Request, channel: int = 0, end: bool = False) -> None:
    """Sends the body to the program on one of this client's channels; `gone` if it no longer reads."""
    found = resident.bridge.channels.get(channel)
    if found is None or found.owner is None or found.owner.request.client is not request.client:
        request.reply({"gone": True})
        return

    def taken(error: InputClosed | None) -> None:
        request.reply({"gone": error is not None})

    try:
        if request.body:
            found.send(request.body, taken)
        else:
            taken(None)
    except InputClosed as error:
        taken(error)
    if end:
        found.close()


def askpass(resident: Resident, request: Request) -> None:
    """Stays open. The first event holds the path of the askpass program, the others are prompts."""
    asking = resident.askpass

    def ask(question: Question) -> None:
        prompt = question.prompt.decode("utf-8", "replace")
        request.event({"ask": question.number, "asker": question.asker, "prompt": prompt})

    def leave() -> None:
        asking.answerers.remove(ask)
        if not asking.answerers:
            for question in list(asking.questions.values()):
                question.close()

    asking.listen()
    asking.answerers.append(ask)
    request.abandoned = leave
    request.event({"program": asking.path})


def answer(resident: Resident, request: Request, ask: int = 0) -> None:
    question = resident.askpass.questions.get(ask)
    if question is not None and question.is_asked:
        question.answer(request.body[:PROMPT])
    request.reply({})
