"""What a tool works with: one caller's place, and the ways in and out of it."""

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from typing import Any, Protocol, TypeVar

import msgspec

from hermetic.approvals.context import PolicyContext
from hermetic.contract.approval import Judged
from hermetic.contract.errors import ApprovalRequired, InvalidArgument, NotPermitted
from hermetic.contract.limits import (
    ACTIVITY,
    FOREGROUND,
    KILL_GRACE,
    LONGEST_FOREGROUND,
    MODEL_OUTPUT,
    READ_CHARACTERS,
    RUNNING,
    TOOL_COMMAND,
)
from hermetic.contract.process import ProcessInfo, Shown
from hermetic.session.environment import Environment
from hermetic.session.process import Process
from hermetic.tools.base.history import History

T = TypeVar("T")


class Interrupted(Exception):
    """Somebody ended the call before it had anything to answer."""


class Interruption(asyncio.Event):
    """Set when somebody ends a call. It costs a waiting call no task of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.callbacks: set[Callable[[], object]] = set()  # each is called once, and taken out before that

    def set(self) -> None:
        """Wakes all that wait, and runs the callbacks."""
        super().set()
        callbacks, self.callbacks = self.callbacks, set()
        for callback in callbacks:
            callback()


class ToolLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Time and size limits of the tools."""

    foreground: float = FOREGROUND  # seconds
    longest_foreground: float = LONGEST_FOREGROUND  # seconds
    output: int = MODEL_OUTPUT  # characters
    command: int = TOOL_COMMAND  # characters
    running: int = RUNNING  # processes of one task
    read: int = READ_CHARACTERS  # characters of a file
    kill_grace: float = KILL_GRACE  # seconds


Judge = Callable[[Environment | PolicyContext], Awaitable[None]]


class Borrowing(Protocol):
    """An environment for a block, started where it does not live."""

    async def unopened(self) -> PolicyContext | None:
        """What is known of it before it is started; None where it lives."""

    async def __aenter__(self) -> Environment: ...

    async def __aexit__(self, *_: object) -> None: ...


Opener = Callable[[], Borrowing]


class Gate(Protocol):
    """Decides what may be done; raises NotPermitted before anything is created."""

    async def command(
        self, task: str, text: str, environment: Environment | PolicyContext, *, session: str = "",
        stdin: str | bytes | None = None, env: Mapping[str, str] | None = None, cwd: str | None = None,
        outside: bool = False,
    ) -> Judged | None:  # fmt: skip
        """May this text run in a shell there? The state of the session by which it was judged."""

    async def input(self, task: str, data: str, process: ProcessInfo, environment: Environment) -> None:
        """May this be typed into that process?"""

    async def write(self, task: str, paths: Sequence[str], environment: Environment | PolicyContext) -> None:
        """May these files, by their whole paths, be written, changed or deleted there?"""

    async def code(self, task: str, source: str, environment: Environment | PolicyContext) -> None:
        """May this Python text run there?"""

    async def batch(
        self, task: str, environment: Environment | PolicyContext, *, count: int, under: str = "",
        words: Sequence[str] = (), why: str = "",
    ) -> None:  # fmt: skip
        """May so many files below a directory be changed, or so many runs of one program begin?"""

    async def meet(self, environment: Environment) -> None:
        """An environment was opened; what it begins with is nobody's doing."""


class OpenGate:
    """Lets everything through: for callers that are trusted."""

    async def command(
        self, task: str, text: str, environment: Environment | PolicyContext, *, session: str = "",
        stdin: str | bytes | None = None, env: Mapping[str, str] | None = None, cwd: str | None = None,
        outside: bool = False,
    ) -> Judged | None:  # fmt: skip
        """Anything may, whatever the session has become."""
        return None

    async def input(self, task: str, data: str, process: ProcessInfo, environment: Environment) -> None:
        """Anything may."""

    async def write(self, task: str, paths: Sequence[str], environment: Environment | PolicyContext) -> None:
        """Anything may."""

    async def code(self, task: str, source: str, environment: Environment | PolicyContext) -> None:
        """Anything may."""

    async def batch(
        self, task: str, environment: Environment | PolicyContext, *, count: int, under: str = "",
        words: Sequence[str] = (), why: str = "",
    ) -> None:  # fmt: skip
        """Anything may."""

    async def meet(self, environment: Environment) -> None:
        """Nothing is looked at."""


class Watcher(Protocol):
    """Sees to what was wished to be told of processes."""

    def follow(self, process: Process) -> None:
        """From now on, by what its tag says."""

    async def told(self, process: Process) -> None:
        """The caller has learned of its end otherwise."""

    async def amend(self, process: Process, **changes: Any) -> None:
        """Changes what is remembered with a process, if it is one of ours."""

    def attended(self, id: str) -> AbstractContextManager[None]:
        """While this block may tell of the process's end itself, nobody else does."""


class Show(Protocol):
    """A text that a command printed, as a model may see it: no escape sequences, no secrets."""

    def __call__(self, text: str, command: str) -> str:
        """The text that this command printed; of a command itself with "" in its place."""

    def join(self, before: str, text: str) -> str:
        """The text without the rest of a secret that began in what stands before it."""

    def unfinished(self, text: str) -> int:
        """How many characters at its end may be the start of a secret that goes on."""

    def screen(self, shown: Shown, command: str) -> list[str]:
        """The rows of a terminal that this command draws on."""

    def file(self, text: str, path: str) -> str:
        """Lines of a file with this name: without secrets, all else as it is."""

    def hidden(self, text: str) -> list[str]:
        """The marks in a text that stand for secrets: whoever writes it does not know them."""


class Task:
    """One caller's place. Tools get it with every call."""

    def __init__(
        self, id: str, *, place: Opener, door: Gate, watcher: Watcher, show: Show, limits: ToolLimits,
        activity: Callable[[str], object] | None = None, caller: str = "", is_scripted: bool = False,
        outside: Opener | None = None, history: History | None = None,
    ) -> None:  # fmt: skip
        self.id = id
        self.history = history or History()
        self._outside = outside  # the place around its sandbox
        self.caller = caller  # which toolbox this is
        self.is_scripted = is_scripted  # a script calls, not a model: what guards a model from repeating itself is off
        self._place = place
        self.door = door
        self.watcher = watcher
        self.show = show
        self.limits = limits
        self.interrupted = Interruption()
        self._activity = activity

    def __repr__(self) -> str:
        return f"<Task {self.id!r}>"

    def place(self, judge: Judge | None = None, *, outside: bool = False) -> AbstractAsyncContextManager[Environment]:
        """Its environment for a block, opened where it is not. Raises Interrupted.

        `judge` is asked first, and for a new environment before it is opened: what it refuses costs nothing.
        """
        return self.within(self._opener(outside), judge)

    @asynccontextmanager
    async def within(self, opener: Opener, judge: Judge | None) -> AsyncIterator[Environment]:
        """The same for any place."""
        borrowing = opener()
        is_judged = judge is not None and await self._judged_unopened(borrowing, judge)
        environment = await self.interruptible(borrowing.__aenter__())
        try:
            if is_judged:
                await self.interruptible(self.door.meet(environment))
            elif judge is not None:
                await self._judged(judge, environment)
            yield environment
        finally:
            await borrowing.__aexit__(None, None, None)

    async def decide(self, judge: Judge) -> None:
        """Asks the judge about its place as it is, which is not opened for it."""
        borrowing = self._place()
        spot = await self.interruptible(borrowing.unopened())
        if spot is not None:
            await self._judged(judge, spot)
            return
        async with borrowing as environment:
            await self._judged(judge, environment)

    async def _judged_unopened(self, borrowing: Borrowing, judge: Judge) -> bool:
        """Whether the place does not live, neither before nor after the judge was asked about it."""
        spot = await self.interruptible(borrowing.unopened())
        if spot is None:
            return False
        await self._judged(judge, spot)
        return await self.interruptible(borrowing.unopened()) is not None

    async def _judged(self, judge: Judge, place: Environment | PolicyContext) -> None:
        """Somebody may be asked, which takes its time."""
        if self._activity is None:
            await self.interruptible(judge(place))
            return
        async with self.alive():
            await self.interruptible(judge(place))

    @property
    def has_outside(self) -> bool:
        """Whether it works in a sandbox that somebody may let it out of."""
        return self._outside is not None

    def _opener(self, outside: bool) -> Opener:
        if outside and self._outside is None:
            raise InvalidArgument("there is no sandbox to leave: leave out outside", argument="outside")
        return self._place if self._outside is None or not outside else self._outside

    async def interruptible(self, work: Awaitable[T]) -> T:
        """What the work gives. Raises Interrupted, the work cancelled, when somebody ends the call first."""
        if self.interrupted.is_set():
            if inspect.iscoroutine(work):
                work.close()  # it never begins
            raise Interrupted
        current = asyncio.current_task()
        assert current is not None, "calls run in tasks"
        interruption, cancel = self.interrupted, current.cancel
        interruption.callbacks.add(cancel)
        try:
            result = await work
        except asyncio.CancelledError:
            if interruption.is_set() and current.uncancel() == 0:
                raise Interrupted from None
            raise
        finally:
            interruption.callbacks.discard(cancel)
        if interruption.is_set():  # and yet it has come to its end
            current.uncancel()
        return result

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
            timer = loop.call_later(ACTIVITY, sign)
            try:
                tell(self.id)
            except Exception:
                logging.getLogger(__name__).exception("on_activity failed; it is called again in %g s", ACTIVITY)

        timer = loop.call_later(ACTIVITY, sign)
        try:
            yield
        finally:
            timer.cancel()


def refusal(error: NotPermitted) -> Mapping[str, Any]:
    """The answer of a tool that was not allowed to begin."""
    if isinstance(error, ApprovalRequired):
        return {
            "output": "", "exit_code": -1, "status": "approval_required", "error": str(error),
            "approval_id": error.request, "command": error.command, "description": error.description,
            "pattern_key": error.pattern_key,
        }  # fmt: skip
    by = {"refused_by": error.by} if error.by else {}
    return {"output": "", "exit_code": -1, "status": "blocked", "error": str(error), **by}
