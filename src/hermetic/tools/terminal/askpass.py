"""Answers for programs that ask for a password, from here to them and past everything else."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from hermetic.contract.errors import EnvironmentUnavailable
from hermetic.link import answers
from hermetic.link.calls import Listening
from hermetic.link.link import Link
from hermetic.session.keeping import link_of
from hermetic.session.session import Session

# (prompt, pid of the sudo that asks) → the password, or None for no answer
Answer = Callable[[str, int], Awaitable[str | None]]


def answer_passwords(session: Session, answer: Answer) -> "PasswordAnswers":
    """Lets the sudo of commands there ask `answer(prompt, pid)`; what it says goes to that sudo and nowhere else."""
    return PasswordAnswers(link_of(session), answer)


class PasswordAnswers:
    """Answers questions from the moment it is made until it is closed."""

    def __init__(self, link: Link, answer: Answer) -> None:
        self._link = link
        self._answer = answer
        self._program: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._call = Listening({"op": "askpass"}, self._take, lambda: None)
        self._tasks: set[asyncio.Task[None]] = set()
        link.send(self._call).add_done_callback(self._ended)

    async def program(self) -> str:
        """What commands get as SUDO_ASKPASS. Raises EnvironmentUnavailable, Unsupported."""
        return await asyncio.shield(self._program)

    @property
    def is_over(self) -> bool:
        """True when no question can come any more: it was closed, or the resident is gone."""
        return self._call.future.done()

    def close(self) -> None:
        """No more questions are answered."""
        if not self._call.future.done():
            self._call.future.cancel()
            self._link.cancel(self._call)
        for task in self._tasks:
            task.cancel()

    def _ended(self, future: "asyncio.Future[tuple[answers.Done, bytes]]") -> None:
        error = None if future.cancelled() else future.exception()
        if not self._program.done():
            self._program.set_exception(error or EnvironmentUnavailable("the resident answers no passwords"))
            self._program.exception()  # seen, also when nobody waits for it

    def _take(self, fields: msgspec.Raw) -> None:
        event = answers.password_asked.decode(fields)
        if event.program:
            if not self._program.done():
                self._program.set_result(event.program)
            return
        task = asyncio.ensure_future(self._reply(event))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _reply(self, asked: answers.PasswordAsked) -> None:
        password: str | None = None
        try:
            password = await self._answer(asked.prompt, asked.asker)
        finally:
            body = b"" if password is None else password.encode()
            await self._link.ask("answer", answers.done, body, repeats=False, ask=asked.ask)
