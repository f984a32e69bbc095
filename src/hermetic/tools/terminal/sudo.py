"""sudo in a model's command: its password comes from a person or the settings, past the command and
the model.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable

import msgspec

from hermetic.contract.errors import EnvironmentUnavailable, Unsupported
from hermetic.contract.limits import PASSWORD
from hermetic.link import answers
from hermetic.link.calls import Listening
from hermetic.session.callbacks import answer_of
from hermetic.session.environment import Environment
from hermetic.session.keeping import link_of

UNANSWERED = (
    "sudo can get no password here. Go on without sudo, or tell the user: the toolbox takes a sudo_password, "
    "or a function that asks for one"
)
LOCKED = (
    "no command can gain rights in this place, whatever the password. Go on without sudo, or tell the user: in a "
    'container that is opened with user="root" nothing needs sudo, and docs/tools.md#sudo says which options allow it'
)
MISSING = "there is no sudo in this place; in most containers commands run as root (id -u says 0) and need none"
_HINTS = (
    (
        re.compile(
            r'sudo: (?:The "no new privileges" flag is set|effective uid is not 0|PERM_\w+: set)'
        ),
        LOCKED,
    ),
    (re.compile(r"sudo: (?:command )?not found"), MISSING),
    (
        re.compile(r"sudo: (?:a password is required|no tty present|a terminal is required)"),
        UNANSWERED,
    ),
)
_log = logging.getLogger("hermetic.sudo")

# (prompt, task) → the password, or None to go on without
AskPassword = Callable[[str, str], Awaitable[str | None] | str | None]


# True when the word occurs, whatever it means there.
mentions_sudo = re.compile(r"(?<![\w./-])(?:/usr/bin/)?sudo(?![\w-])").search


def sudo_hint(output: str, *, is_answered: bool) -> str | None:
    """Advice where sudo reported that it cannot work; `is_answered`: its prompts are answered."""
    hint = next((hint for report, hint in _HINTS if report.search(output)), None)
    return None if is_answered and hint is UNANSWERED else hint


class Passwords:
    """Passwords by task: from the settings, else given before, else asked for."""

    def __init__(
        self, fixed: str | None = None, ask: AskPassword | None = None, seconds: float = PASSWORD
    ) -> None:
        self._fixed = fixed  # may be empty: then that is tried
        self._ask = ask
        self._seconds = seconds  # for `ask` to answer
        self._cache: dict[str, str] = {}  # by task

    def __repr__(self) -> str:
        return f"<Passwords of {len(self._cache)} tasks>"

    @property
    def can_answer(self) -> bool:
        """False when there is no source of passwords."""
        return self._fixed is not None or self._ask is not None

    async def get(self, task: str, prompt: str) -> str | None:
        """The password for a task; None when there is none, or none was given in time."""
        if self._fixed is not None:
            return self._fixed
        if task not in self._cache and self._ask is not None:
            try:
                async with asyncio.timeout(self._seconds):
                    given = await answer_of(self._ask, prompt, task)
            except Exception as error:  # of the caller's own function: sudo goes without
                _log.warning("no password was given for task %s: %r", task, error)
                return None
            if given is None:
                return None
            self._cache[task] = given
        return self._cache.get(task)

    def refused(self, task: str) -> bool:
        """Forgets a wrong password; True when one was remembered."""
        return self._cache.pop(task, None) is not None


class Prompts:
    """Answers the password prompts of sudo in one environment, and counts wrong answers."""

    def __init__(
        self,
        passwords: Passwords,
        task: str,
        learn: Callable[[str], None],
        environment: Environment,
    ) -> None:
        self._passwords, self._task = passwords, task
        self._learn = learn  # gets each password first, to hide it from models
        self._tried: dict[int, set[str]] = {}  # by the pid of the sudo that asks
        self._link = link_of(environment)
        self._program: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._call = Listening({"op": "askpass"}, self._take, lambda: None)
        self._replies: set[asyncio.Task[None]] = set()
        self._link.send(self._call).add_done_callback(self._ended)
        self.counts = (0, 0)  # wrong answers, and remembered ones among them

    @property
    def is_over(self) -> bool:
        """True when no prompt can come any more: it was closed, or the resident is gone."""
        return self._call.future.done()

    async def variables(self, environment: Environment) -> dict[str, str]:
        """Variables by which a command's sudo asks here; {} where the environment has no askpass
        program.
        """
        try:
            program = await asyncio.shield(self._program)
        except (EnvironmentUnavailable, Unsupported):
            return {}
        # Without a terminal sudo runs the program only if there seems to be a screen.
        shown = {} if "DISPLAY" in (await environment.state()).env else {"DISPLAY": ":askpass"}
        return {"SUDO_ASKPASS": program, **shown}

    def since(self, before: tuple[int, int]) -> dict[str, bool]:
        """The answer's fields on passwords that were wrong since these counts."""
        names = ("sudo_auth_failed", "sudo_cache_cleared")
        return {
            name: True
            for name, now, then in zip(names, self.counts, before, strict=True)
            if now > then
        }

    def close(self) -> None:
        """Answers no more prompts."""
        if not self.is_over:
            self._call.future.cancel()
            self._link.cancel(self._call)
        for reply in self._replies:
            reply.cancel()

    def _ended(self, future: "asyncio.Future[tuple[answers.Done, bytes]]") -> None:
        error = None if future.cancelled() else future.exception()
        if not self._program.done():
            self._program.set_exception(
                error or EnvironmentUnavailable("the resident answers no passwords")
            )
            self._program.exception()  # retrieved, also when no command waits for it

    def _take(self, fields: msgspec.Raw) -> None:
        event = answers.password_asked.decode(fields)
        if not event.program:
            reply = asyncio.ensure_future(self._reply(event))
            self._replies.add(reply)
            reply.add_done_callback(self._replies.discard)
        elif not self._program.done():
            self._program.set_result(event.program)

    async def _reply(self, asked: answers.PasswordAsked) -> None:
        password: str | None = None
        try:
            password = await self._answer(asked.prompt, asked.asker)
        finally:
            body = b"" if password is None else password.encode()
            await self._link.ask("answer", answers.done, body, repeats=False, ask=asked.ask)

    async def _answer(self, prompt: str, asker: int) -> str | None:
        tried = self._tried.setdefault(asker, set())
        if tried:  # it asks again: the last answer was wrong
            refused, cleared = self.counts
            self.counts = refused + 1, cleared + self._passwords.refused(self._task)
        password = await self._passwords.get(self._task, prompt)
        if password is None or password in tried:
            return None
        tried.add(password)
        self._learn(password)
        return password


class SudoAnswers:
    """Answers to prompts, by task and environment."""

    def __init__(self, passwords: Passwords, learn: Callable[[str], None]) -> None:
        self._passwords, self._learn = passwords, learn
        self._prompts: dict[tuple[str, str], Prompts] = {}

    def of(self, task: str, environment: Environment) -> Prompts | None:
        """The answers for commands of a task; None when there is no source of passwords."""
        if not self._passwords.can_answer:
            return None
        key = task, environment.id
        prompts = self._prompts.get(key)
        if prompts is None or prompts.is_over:
            prompts = self._prompts[key] = Prompts(self._passwords, task, self._learn, environment)
        return prompts

    def close(self) -> None:
        """Answers no more prompts."""
        for prompts in self._prompts.values():
            prompts.close()
