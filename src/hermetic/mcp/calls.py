"""A tool call that runs on its own, and the questions that it has for the user meanwhile."""

import asyncio
import json
import secrets
from collections.abc import Coroutine, Mapping
from contextvars import ContextVar
from typing import Any

from mcp_types import ElicitRequestParams, ElicitResult

# The call whose task this is. A helper task may have it from an earlier call, which is then done.
_CURRENT: ContextVar["Call | None"] = ContextVar("CURRENT_CALL", default=None)


class Question:
    """One question of a call, and the client's reply."""

    def __init__(self, params: ElicitRequestParams) -> None:
        self.id = secrets.token_hex(4)
        self.params = params
        self.reply: asyncio.Future[ElicitResult] = asyncio.get_running_loop().create_future()

    def settle(self, reply: ElicitResult) -> None:
        """Hands over the reply, unless the question was given up."""
        if not self.reply.done():
            self.reply.set_result(reply)


class Call:
    """A running tool call.

    It outlives the request that started it while the client answers a question.
    """

    def __init__(
        self, name: str, arguments: Mapping[str, Any], task_id: str, work: Coroutine[Any, Any, str]
    ) -> None:
        self.id = secrets.token_urlsafe(24)
        self.name, self.arguments, self.task_id = name, arguments, task_id
        self._questions: list[Question] = []
        self._changed = asyncio.Event()
        self._unclaimed: asyncio.TimerHandle | None = None
        token = _CURRENT.set(self)
        try:
            self.task = asyncio.create_task(work)
        finally:
            _CURRENT.reset(token)
        self.task.add_done_callback(lambda _: self._changed.set())

    @property
    def command(self) -> str:
        """What it runs, in words for the user."""
        given = self.arguments.get("command") or self.arguments.get("code")
        return str(given) if given else f"{self.name} {json.dumps(self.arguments)}"

    def __repr__(self) -> str:
        return f"<Call of {self.name}{', done' if self.task.done() else ''}>"

    async def ask(self, params: ElicitRequestParams) -> ElicitResult:
        """The client's reply to a question."""
        question = Question(params)
        self._questions.append(question)
        self._changed.set()
        try:
            return await question.reply
        finally:
            question.reply.cancel()
            self._questions.remove(question)

    async def next_question(self) -> Question | None:
        """The oldest open question; None once the call is done."""
        while not self.task.done():
            if (question := self.open_question) is not None:
                return question
            self._changed.clear()
            await self._changed.wait()
        return None

    @property
    def open_question(self) -> Question | None:
        """The oldest open question now."""
        return next((question for question in self._questions if not question.reply.done()), None)

    def suspend(self, question: Question, seconds: float) -> str:
        """The state by which the client continues the call with its reply; without one the call is
        cancelled.
        """
        self._claim()  # an equal request was suspended as well
        self._unclaimed = asyncio.get_running_loop().call_later(seconds, self.task.cancel)
        return f"{self.id}.{question.id}"

    @property
    def is_suspended(self) -> bool:
        """Whether it waits for the client to repeat its request with a reply."""
        return self._unclaimed is not None and not self.task.done()

    def resume(self, state: str, reply: ElicitResult) -> None:
        """Hands over the reply to the question that the state names, if it is still open; to no
        other one.
        """
        self._claim()
        for question in self._questions:
            if state == f"{self.id}.{question.id}":
                question.settle(reply)

    def _claim(self) -> None:
        if self._unclaimed is not None:
            self._unclaimed.cancel()
            self._unclaimed = None


class Calls:
    """The calls of one client that run, and those that wait for a repeated request."""

    def __init__(self) -> None:
        self._running: dict[str, Call] = {}  # the newest last

    def start(
        self, name: str, arguments: Mapping[str, Any], task_id: str, work: Coroutine[Any, Any, str]
    ) -> Call:
        """Starts a call."""
        call = Call(name, arguments, task_id, work)
        self._running[call.id] = call
        call.task.add_done_callback(lambda task: self.forget(call) if task.cancelled() else None)
        return call

    def find(self, state: str, name: str, arguments: Mapping[str, Any]) -> Call | None:
        """The call that a repeated request continues: the same state, tool and arguments."""
        call = self._running.get(state.partition(".")[0])
        return (
            call if call is not None and (call.name, call.arguments) == (name, arguments) else None
        )

    def forget(self, call: Call) -> None:
        """The call's result was delivered."""
        self._running.pop(call.id, None)

    def asking(self, task_id: str) -> Call | None:
        """The call on whose behalf this code runs; else the newest running one of the task."""
        current = _CURRENT.get()
        if current is not None and not current.task.done():
            return current
        running = self.running(task_id)
        return running[-1] if running else None

    def running(self, task_id: str) -> list[Call]:
        """The running calls of a task, the newest last."""
        return [
            call
            for call in self._running.values()
            if call.task_id == task_id and not call.task.done()
        ]

    @property
    def is_waiting(self) -> bool:
        """Whether one waits for a repeated request."""
        return any(call.is_suspended for call in self._running.values())

    async def close(self) -> None:
        """Cancels all of them; returns when what they started has ended."""
        tasks = [call.task for call in self._running.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._running.clear()
