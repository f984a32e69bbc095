"""What a tool works with: one caller's place, and the ways in and out of it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol

import msgspec

from hermetic.contract.errors import NotPermitted
from hermetic.contract.limits import ACTIVITY, FOREGROUND, LONGEST_FOREGROUND, MODEL_OUTPUT
from hermetic.contract.process import ProcessInfo
from hermetic.session.environment import Environment
from hermetic.session.process import Process


class ToolLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How long tools wait and how much they answer."""

    foreground: float = FOREGROUND.value  # seconds
    longest_foreground: float = LONGEST_FOREGROUND.value  # seconds
    output: int = MODEL_OUTPUT.value  # characters


class Door(Protocol):
    """Decides what may be done; raises NotPermitted before anything is created."""

    async def command(self, task: str, text: str, environment: Environment) -> None:
        """May this text run in a shell there?"""

    async def input(self, task: str, data: str, process: ProcessInfo, environment: Environment) -> None:
        """May this be typed into that process?"""


class OpenDoor:
    """Lets everything through: for callers that are trusted."""

    async def command(self, task: str, text: str, environment: Environment) -> None:
        """Anything may."""

    async def input(self, task: str, data: str, process: ProcessInfo, environment: Environment) -> None:
        """Anything may."""


class Watcher(Protocol):
    """Sees to what was wished to be told of processes."""

    def follow(self, environment: Environment, process: Process) -> None:
        """From now on, by what its tag says."""

    async def told(self, process: Process) -> None:
        """The caller has learned of its end otherwise."""


class Task:
    """One caller's place. Tools get it with every call."""

    def __init__(
        self, id: str, *, place: Callable[[], AbstractAsyncContextManager[Environment]], door: Door, watcher: Watcher,
        show: Callable[[str, str], str], limits: ToolLimits, activity: Callable[[str], object] | None = None,
    ) -> None:  # fmt: skip
        self.id = id
        self.place = place  # its environment for a block, opened where it is not
        self.door = door
        self.watcher = watcher
        self.show = show  # a text that a command printed, as a model may see it: no escape sequences, no secrets
        self.limits = limits
        self.interrupted = asyncio.Event()
        self._activity = activity

    def __repr__(self) -> str:
        return f"<Task {self.id!r}>"

    @asynccontextmanager
    async def alive(self) -> AsyncIterator[None]:
        """Gives a sign of life now and then while the block waits."""
        if self._activity is None:
            yield
            return
        loop, tell = asyncio.get_running_loop(), self._activity
        timer: asyncio.TimerHandle

        def sign() -> None:
            nonlocal timer
            tell(self.id)
            timer = loop.call_later(ACTIVITY.value, sign)

        timer = loop.call_later(ACTIVITY.value, sign)
        try:
            yield
        finally:
            timer.cancel()


def refusal(error: NotPermitted) -> Mapping[str, Any]:
    """The answer of a tool that was not allowed to begin."""
    return {"output": "", "exit_code": -1, "status": "blocked", "error": str(error)}
