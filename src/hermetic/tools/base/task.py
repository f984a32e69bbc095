"""One caller of the tools: its environment, its limits, its interruption, and what it relies on
from call to call.
"""

import asyncio
import inspect
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar

import msgspec

from hermetic.approvals.context import PolicyContext
from hermetic.approvals.gate import PolicyGate
from hermetic.contract import limits
from hermetic.contract.errors import InvalidArgument
from hermetic.contract.notice import NotifyOptions, write_wishes
from hermetic.contract.tool import Interrupted
from hermetic.link.calls import Interruption
from hermetic.session.environment import Environment
from hermetic.session.process import Process
from hermetic.tools.base.notices import Notices
from hermetic.tools.base.show import Show

MOST_TASKS = 4096  # histories that are kept, those used last
MOST_NAMED = 10  # processes in a note
SHOWN_COMMAND = 60  # characters

AFTER_LOSS = (
    "the environment is gone with its shell's state and all that ran in it, and whether this call "
    "had an effect is not known. The next call starts a new environment: look at the files first, "
    "then set up what you need again"
)

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
Judge = Callable[[Environment | PolicyContext], Awaitable[object]]


class Borrowing(Protocol):
    """An environment for a block, started where it does not live."""

    async def unopened(self) -> PolicyContext | None:
        """What is known of it before it is started; None where it lives."""

    async def __aenter__(self) -> Environment: ...

    async def __aexit__(self, *_: object) -> None: ...


Borrow = Callable[[], Borrowing]


class ToolLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Time and size limits of the tools."""

    foreground: float = limits.FOREGROUND  # seconds
    longest_foreground: float = limits.LONGEST_FOREGROUND  # seconds
    output: int = limits.MODEL_OUTPUT  # characters
    command: int = limits.TOOL_COMMAND  # characters
    running: int = limits.RUNNING  # processes of one task
    read: int = limits.READ_CHARACTERS  # characters of a file
    kill_grace: float = limits.KILL_GRACE  # seconds

    def waiting(self, timeout: float | None) -> tuple[float, str]:
        """How long a call with this timeout waits, and a note where that is less.

        Raises InvalidArgument.
        """
        if timeout is None:
            return self.foreground, ""
        if not timeout > 0:
            raise InvalidArgument(
                f"timeout must be seconds above zero, not {timeout:g}; leave it out for {self.foreground:g}",
                argument="timeout",
            )
        most = max(self.longest_foreground, self.foreground)
        if timeout <= most:
            return timeout, ""
        return (
            most,
            f"a timeout of {timeout:g} s is more than the {most:g} s that a call may wait; used that",
        )


class Recent(OrderedDict[K, V]):
    """A dict of at most so many entries: the ones set last."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self._most:
            self.popitem(last=False)


class History:
    """A task's last environment, its shell's directory there, the processes started, and notes not
    yet delivered.
    """

    def __init__(self) -> None:
        self.resident = ""  # of that environment; "" before the first call
        self.cwd = ""  # of its shell, after the last command
        self.started: dict[str, str] = {}  # process → command
        self.notes: list[str] = []  # for the next answer

    def __repr__(self) -> str:
        return f"<History in {self.resident or 'no environment'}: {len(self.started)} processes>"

    def meet(self, resident: str, start: str, *, separate_files: bool) -> bool:
        """Records this call's environment, whose sessions begin in `start`; True if it replaces
        another one.
        """
        before, self.resident = self.resident, resident
        if before in ("", resident):
            return False
        self.notes.append(self._loss(start, separate_files))
        self.cwd, self.started = "", {}
        return True

    def _loss(self, start: str, separate_files: bool) -> str:
        was = f" ({self.cwd})" if self.cwd else ""
        lost = [
            "shell variables, functions and aliases",
            f"the shell's directory{was}: it is {start} now",
            *(["files that were only inside it"] if separate_files else []),
        ]
        named = [f"{id} ({command[:SHOWN_COMMAND]})" for id, command in self.started.items()]
        more = f" and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
        processes = f"background processes: {', '.join(named[:MOST_NAMED])}{more}"
        lost.append(processes if named else "everything that ran in it")
        return f"The environment of this task ended, and a new one was started in its place. Lost: {'; '.join(lost)}."


class Histories(Recent[str, History]):
    """Histories by task, those used last."""

    def __init__(self) -> None:
        super().__init__(MOST_TASKS)

    def of(self, task: str) -> History:
        """The task's history, made with its first call."""
        history = self[task] = self.get(task) or History()
        return history


class Task:
    """One caller's environment and what tools need besides. Tools get it with every call."""

    def __init__(
        self,
        id: str,
        *,
        borrow: Borrow,
        gate: PolicyGate | None,
        notices: Notices,
        show: Show,
        limits: ToolLimits,
        history: History,
        activity: Callable[[str], object] | None = None,
        caller: str = "",
        is_scripted: bool = False,
        script_tools: Collection[str] | None = None,
        outside: Borrow | None = None,
        check_held: Callable[[], None] = lambda: None,
    ) -> None:
        """`check_held` raises NotPermitted while a person has stopped the task."""
        self.id = id
        self.gate = gate  # None: everything is allowed
        self.notices = notices
        self.show = show
        self.limits = limits
        self.history = history
        self.caller = caller  # which toolbox this is
        self.is_scripted = is_scripted  # a script calls, not a model: repeated calls are allowed
        # that a script of this call may use; None: all that are offered
        self.script_tools = script_tools
        self.interrupted = Interruption()
        # Borrows the environment around its sandbox; None: there is no sandbox.
        self.outside = outside
        self._borrow = borrow
        self._activity = activity
        self._check_held = check_held

    def __repr__(self) -> str:
        return f"<Task {self.id!r}>"

    @asynccontextmanager
    async def environment(
        self, judge: Judge | None = None, borrow: Borrow | None = None
    ) -> AsyncIterator[Environment]:
        """Its environment, or one borrowed otherwise, for a block; opened if necessary. Raises
        Interrupted.

        `judge` decides first, and for a new environment before it is opened: what it refuses costs
        nothing.
        """
        borrowing = (borrow or self._borrow)()
        environment = await self.interruptible(
            self._enter(borrowing, None if self.gate is None else judge)
        )
        try:
            self._check_held()  # it was opened, and a person may have been asked meanwhile
            yield environment
        finally:
            await borrowing.__aexit__(None, None, None)

    async def goes_on(self, process: Process, shown: str) -> None:
        """A process outlives the call that waited for it, as one of the task's."""
        self.history.started[process.id] = shown
        wishes = NotifyOptions(task=self.id, caller=self.caller, origin="yielded")
        await process.set_tag(write_wishes(wishes))

    async def _enter(self, borrowing: Borrowing, judge: Judge | None) -> Environment:
        """The borrowed environment, once the judge has allowed the call; a person may have to be
        asked.
        """
        if judge is None:
            return await borrowing.__aenter__()
        async with self.alive():
            unopened = await borrowing.unopened()
            if unopened is not None:
                await judge(unopened)
                unopened = await borrowing.unopened()  # None: another call has opened it meanwhile
            environment = await borrowing.__aenter__()
            try:
                if unopened is None:
                    await judge(environment)
                elif self.gate is not None:
                    await self.gate.meet(environment)
            except BaseException:
                await borrowing.__aexit__(None, None, None)
                raise
            return environment

    async def decide(self, judge: Judge) -> None:
        """Asks the judge about the environment as it is. It is not opened for that."""
        borrowing = self._borrow()
        unopened = await self.interruptible(borrowing.unopened())
        async with self.alive():
            if unopened is not None:
                await self.interruptible(judge(unopened))
                return
            async with borrowing as environment:
                await self.interruptible(judge(environment))

    async def interruptible(self, work: Awaitable[T]) -> T:
        """The result of the work.

        Raises Interrupted, the work cancelled, if the call is interrupted first.
        """
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
        if interruption.is_set():  # it was cancelled, and completed all the same
            current.uncancel()
        return result

    @asynccontextmanager
    async def alive(self) -> AsyncIterator[None]:
        """Reports activity at intervals while the block waits."""
        if self._activity is None:
            yield
            return
        loop, report = asyncio.get_running_loop(), self._activity
        timer: asyncio.TimerHandle

        def tick() -> None:
            nonlocal timer
            timer = loop.call_later(limits.ACTIVITY, tick)
            try:
                report(self.id)
            except Exception:  # the caller's own function: the call goes on without it
                logging.getLogger(__name__).exception(
                    "on_activity failed; next call in %g s", limits.ACTIVITY
                )

        timer = loop.call_later(limits.ACTIVITY, tick)
        try:
            yield
        finally:
            timer.cancel()
