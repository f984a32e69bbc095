"""sudo in a model's command: the password comes from a person or the settings, past the command and everything else."""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable

from hermetic.contract.errors import EnvironmentUnavailable, Unsupported
from hermetic.contract.limits import PASSWORD
from hermetic.session.callbacks import answer_of
from hermetic.session.environment import Environment
from hermetic.tools.terminal.askpass import PasswordAnswers, answer_passwords

_log = logging.getLogger("hermetic.sudo")
_SUDO = re.compile(r"(?<![\w./-])(?:/usr/bin/)?sudo(?![\w-])")

_NO_PASSWORD = re.compile(r"sudo: (?:a password is required|no tty present|a terminal is required)")
UNANSWERED = (
    "nobody here can give sudo a password. Go on without sudo, or tell the user: the toolbox takes a sudo_password, "
    "or a function that asks for one"
)

_LOCKED = re.compile(r'sudo: (?:The "no new privileges" flag is set|effective uid is not 0|PERM_\w+: set)')
LOCKED = (
    "no command can gain rights in this place, whatever the password. Go on without sudo, or tell the user: in a "
    'container that is opened with user="root" nothing needs sudo, and docs/tools.md#sudo says which options allow it'
)
_MISSING = re.compile(r"sudo: (?:command )?not found")
MISSING = "there is no sudo in this place; in most containers commands run as root (id -u says 0) and need none"

# (prompt, task) → the password, or None to go on without
AskPassword = Callable[[str, str], Awaitable[str | None] | str | None]


def mentions_sudo(text: str) -> bool:
    """True when the word occurs; what it means there is for bash to say."""
    return _SUDO.search(text) is not None


def sudo_hint(command: str, output: str, *, is_answered: bool) -> str | None:
    """What to do where sudo said that it cannot work; `is_answered`: somebody here can give it a password."""
    if not mentions_sudo(command):
        return None
    hints = ((_LOCKED, LOCKED), (_MISSING, MISSING), *(() if is_answered else ((_NO_PASSWORD, UNANSWERED),)))
    return next((hint for said, hint in hints if said.search(output)), None)


class Passwords:
    """Where a password comes from: the settings, then what was given before for the task, then whoever can be asked."""

    def __init__(self, fixed: str | None = None, ask: AskPassword | None = None) -> None:
        self._fixed = fixed  # may be empty: then that is tried
        self._ask = ask
        self._cache: dict[str, str] = {}  # by task

    def __repr__(self) -> str:
        return f"<Passwords of {len(self._cache)} tasks>"

    @property
    def can_answer(self) -> bool:
        """False when nobody could give one."""
        return self._fixed is not None or self._ask is not None

    async def get(self, task: str, prompt: str) -> str | None:
        """The password for a task; None when there is none."""
        if self._fixed is not None:
            return self._fixed
        if task not in self._cache and self._ask is not None:
            given = await self._asked(self._ask, prompt, task)
            if given is None:
                return None
            self._cache[task] = given
        return self._cache.get(task)

    async def _asked(self, ask: AskPassword, prompt: str, task: str) -> str | None:
        """What somebody answers in time; one who cannot be asked has no answer."""
        try:
            async with asyncio.timeout(PASSWORD):
                return await answer_of(ask, prompt, task)
        except Exception as error:
            _log.warning("nobody gave a password for task %s: %r", task, error)
            return None

    def refused(self, task: str) -> bool:
        """The last one was wrong; True when one was remembered and is forgotten."""
        return self._cache.pop(task, None) is not None


class Sudo:
    """Answers for the sudo of one environment's commands, and counts what became of the answers."""

    def __init__(self, passwords: Passwords, task: str, learn: Callable[[str], None]) -> None:
        self._passwords, self._task = passwords, task
        self._learn = learn  # is told each password before it is given out, to hide it from models
        self._tried: dict[int, set[str]] = {}  # by the pid of the sudo that asked
        self._answers: PasswordAnswers | None = None
        self.refused = 0  # answers that were wrong
        self.cleared = 0  # remembered ones among them

    async def variables(self, environment: Environment) -> dict[str, str]:
        """What a command needs besides its own; nothing where this cannot be done."""
        if self._answers is None or self._answers.is_over:
            self._answers = answer_passwords(environment, self._answer)
        try:
            program = await self._answers.program()
        except (EnvironmentUnavailable, Unsupported):
            return {}
        # Without a terminal sudo looks for a program to ask with, if there seems to be a screen to ask on.
        shown = {} if "DISPLAY" in (await environment.state()).env else {"DISPLAY": ":askpass"}
        return {"SUDO_ASKPASS": program, **shown}

    def close(self) -> None:
        """No more answers: what still runs asks in vain."""
        if self._answers is not None:
            self._answers.close()

    async def _answer(self, prompt: str, asker: int) -> str | None:
        tried = self._tried.setdefault(asker, set())
        if tried:  # it asks again: what it got was wrong
            self.refused += 1
            self.cleared += self._passwords.refused(self._task)
        password = await self._passwords.get(self._task, prompt)
        if password is None or password in tried:
            return None
        tried.add(password)
        self._learn(password)
        return password


class SudoDesks:
    """One `Sudo` for each task's environment."""

    def __init__(self, passwords: Passwords, learn: Callable[[str], None]) -> None:
        self._passwords, self._learn = passwords, learn
        self._desks: dict[tuple[str, str], Sudo] = {}

    def desk(self, task: str, environment: Environment, command: str) -> Sudo | None:
        """Who answers for this command; None when it does not need anybody."""
        if not self._passwords.can_answer or not mentions_sudo(command):
            return None
        key = task, environment.id
        if key not in self._desks:
            self._desks[key] = Sudo(self._passwords, task, self._learn)
        return self._desks[key]

    def close(self) -> None:
        """No more answers."""
        for desk in self._desks.values():
            desk.close()


def told(before: tuple[int, int], desk: Sudo) -> dict[str, bool]:
    """What a command's result says of its passwords."""
    refused, cleared = before
    fields = {"sudo_auth_failed": desk.refused > refused, "sudo_cache_cleared": desk.cleared > cleared}
    return {name: True for name, holds in fields.items() if holds}
