"""Requests of clients that serve programs inside: the script bridge, and password prompts."""

from __future__ import annotations

from ..life.server import Request
from ..limits import PROMPT
from ..processes.stdin_writer import InputClosed
from ..wire import fields as take
from ..wire.fields import Field
from .bridge import TOKEN_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .askpass import Question


class OpenBridge(Request):
    """Stays open. The first event holds the socket to which programs connect, the others hold their bytes."""

    token = Field(take.text)

    def serve(self) -> None:
        token = self.token.encode()
        if len(token) != TOKEN_BYTES:
            raise take.invalid("token", "a token has %d characters" % TOKEN_BYTES)
        self.resident.bridge.open(token, self)


class Modules(Request):
    """Keeps the body under a name: modules for scripts."""

    name = Field(take.job_id)

    def serve(self) -> None:
        self.resident.scripts.keep(self.name, self.body)
        self.reply({})


class Say(Request):
    """Sends the body to the program on one of this client's channels; `gone` if it no longer reads."""

    channel = Field(take.number)
    end = Field(take.flag)

    def serve(self) -> None:
        channel = self.resident.bridge.channels.get(self.channel)
        if channel is None or channel.owner is None or channel.owner.request.client is not self.client:
            self.reply({"gone": True})
            return

        def taken(error: InputClosed | None) -> None:
            self.reply({"gone": error is not None})

        try:
            if self.body:
                channel.send(self.body, taken)
            else:
                self.reply({"gone": False})
        except InputClosed as error:
            taken(error)
        if self.end:
            channel.close()


class AnswerPrompts(Request):
    """Stays open. The first event holds the path of the askpass program, the others are prompts."""

    def serve(self) -> None:
        self.resident.askpass.listen()
        self.resident.askpass.answerers.append(self._ask)
        self.abandoned = self._leave
        self.event({"program": self.resident.askpass.path})

    def _ask(self, question: Question) -> None:
        prompt = question.prompt.decode("utf-8", "replace")
        self.event({"ask": question.number, "asker": question.asker, "prompt": prompt})

    def _leave(self) -> None:
        askpass = self.resident.askpass
        askpass.answerers.remove(self._ask)
        if not askpass.answerers:
            for question in list(askpass.questions.values()):
                question.close()


class AnswerPrompt(Request):
    ask = Field(take.number)

    def serve(self) -> None:
        question = self.resident.askpass.questions.get(self.ask)
        if question is not None and question.is_asked:
            question.answer(self.body[:PROMPT])
        self.reply({})
