"""Requests of a client that answers when a program asks for a password."""

from __future__ import annotations

from ..limits import PROMPT
from ..wire import fields as take

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..life.resident import Resident
    from ..life.server import Request
    from .askpass import Question


class PasswordRequests:
    resident: Resident

    def do_askpass(self, request: Request) -> None:
        """Stays open; every question is an event, the first event says which program asks."""
        askpass = self.resident.askpass
        askpass.listen()

        def ask(question: Question) -> None:
            request.event(
                {"ask": question.number, "asker": question.asker, "prompt": question.prompt.decode("utf-8", "replace")}
            )

        def leave() -> None:
            askpass.answerers.remove(ask)
            if not askpass.answerers:
                for question in list(askpass.questions.values()):
                    question.close()

        askpass.answerers.append(ask)
        request.abandoned = leave
        request.event({"program": askpass.path})

    def do_answer(self, request: Request) -> None:
        question = self.resident.askpass.questions.get(take.number(request.fields, "ask"))
        if question is not None and question.is_asked:
            question.answer(request.body[:PROMPT])
        request.reply({})
