"""What there is to tell of processes, until somebody has it: told once, also to the next caller when this one dies."""

import asyncio
import contextlib
import logging
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hermetic.contract.errors import ExecutionError
from hermetic.contract.limits import DELIVERY_PAUSE, LONGEST_DELIVERY_PAUSE, NOTICES
from hermetic.contract.notice import Notice, read_wishes
from hermetic.session.environment import Environment
from hermetic.session.process import Process
from hermetic.tools.base.task import Show
from hermetic.tools.process.following import Following, Leave, Mark, always, change_wishes, nothing
from hermetic.tools.process.watching import Breaker

MARKING = 1.0  # seconds that the note of a notice may take before notices of others go on
LONGEST_MARKING = 8.0  # the same when it was tried before: a place may be slow, and must be heard in the end
CLOSING = 5.0  # seconds that the last notes may take when everything is closed

Sink = Callable[[Notice], Awaitable[object]]

_log = logging.getLogger("hermetic.notices")


class Pending:
    """A notice on its way, and what has to be remembered before somebody gets it and once he has it."""

    def __init__(self, notice: Notice, taken: Mark = nothing, giving: Leave = always) -> None:
        self.notice, self.taken, self.giving = notice, taken, giving
        self.patience = MARKING


class Notices:
    """Follows processes and keeps what there is to tell until somebody takes it: the sinks, or else a stream.

    A notice counts as told when every sink has returned, or when the stream's reader asks for the next one.
    """

    def __init__(self, show: Show, sinks: Sequence[Sink] = ()) -> None:
        self.show = show
        self._sinks = sinks
        self._waiting: deque[Pending] = deque()
        self._giving: list[Pending] = []  # of which that is being remembered
        self._handed: list[Pending] = []  # to readers that have not asked for the next one
        self._missed: Counter[str] = Counter()  # by task: notices that fell out
        self._slow: set[str] = set()  # tasks whose place does not answer: others come before them
        self._came = asyncio.Event()
        self._breaker = Breaker()
        self._followed: dict[str, Following] = {}  # id of a process
        self._attended: Counter[str] = Counter()  # id of a process → calls whose answer tells of its end
        self._left = asyncio.Event()  # one of those calls is over
        self._tasks: set[asyncio.Task[None]] = set()
        self._marks: set[asyncio.Task[None]] = set()  # that remember what was told
        self._is_closed = False
        self._is_delivering = False

    def __repr__(self) -> str:
        return f"<Notices of {len(self._followed)} processes, {len(self._waiting)} waiting>"

    def follow(self, process: Process) -> None:
        """From now on, by what its tag says."""
        wishes = read_wishes(process.info.tag)
        if wishes is None or not wishes.is_open or process.id in self._followed or self._is_closed:
            return
        following = self._followed[process.id] = Following(self, process, wishes)
        self._run(following.run)

    async def rearm(self, environment: Environment) -> None:
        """Follows what an earlier caller started there and was not told of."""
        for info in await environment.processes():
            wishes = read_wishes(info.tag)
            if wishes is not None and wishes.is_open and info.id not in self._followed:
                self.follow(await environment.process(info.id))

    async def told(self, process: Process) -> None:
        """The caller has learned of its end otherwise: it is not told again."""
        ends = (process.id, "completed")
        self._waiting = deque(one for one in self._waiting if (one.notice.session_id, one.notice.kind) != ends)
        self._giving = [one for one in self._giving if (one.notice.session_id, one.notice.kind) != ends]
        if following := self._followed.get(process.id):
            await following.seen()

    async def amend(self, process: Process, **changes: Any) -> None:
        """Changes what is remembered with a process, if it is one of ours."""
        if following := self._followed.get(process.id):
            await following.amend(**changes)
        elif read_wishes(process.info.tag):
            await change_wishes(process, changes)

    @contextmanager
    def attended(self, id: str) -> Iterator[None]:
        """While this block may tell of the process's end itself, nobody else does."""
        self._attended[id] += 1
        try:
            yield
        finally:
            self._attended[id] -= 1
            if not self._attended[id]:
                del self._attended[id]
            self._left.set()

    async def unattended(self, id: str) -> None:
        """Returns when no call is about to tell of its end."""
        while id in self._attended:
            self._left.clear()
            await self._left.wait()

    def forget(self, id: str) -> None:
        """Nothing of it is left to be told."""
        self._followed.pop(id, None)

    def tell(self, notice: Notice, taken: Mark, giving: Leave = always) -> None:
        """Puts a notice on its way, unless there are too many of them."""
        if notice.kind == "matched":
            passed = self._breaker.pass_on(time.monotonic())
            if passed in ("drop", "silence"):
                self._run(taken, self._marks)
            if passed == "drop":
                return
            if passed == "silence":
                text = "[Too many matches at once: none is told for a while. Use the process tool to look.]"
                self._queue(Pending(Notice(kind="silenced", task_id=notice.task_id, text=text)))
                return
            if passed == "resume":
                text = "[Matches are told again.]"
                self._queue(Pending(Notice(kind="resumed", task_id=notice.task_id, text=text)))
        self._queue(Pending(notice, taken, giving))

    def _queue(self, pending: Pending) -> None:
        if len(self._waiting) >= NOTICES:
            # What was dropped stays noted with its process as not told: the next caller is told of it.
            self._missed[self._waiting.popleft().notice.task_id] += 1
        self._waiting.append(pending)
        self._came.set()
        if self._sinks and not self._is_delivering:
            self._is_delivering = True
            self._run(self._deliver)

    def _next(self, task_id: str | None) -> Pending | None:
        """The oldest that waits, of one task or of any; what fell out is told first."""
        for task in self._missed:
            if task_id in (None, task):
                count = self._missed.pop(task)
                text = f"[{count} notices were dropped because nobody took them. Use process(action='list') to look.]"
                return Pending(Notice(kind="missed", task_id=task, suppressed=count, text=text))
        ours = [pending for pending in self._waiting if task_id in (None, pending.notice.task_id)]
        quick = (pending for pending in ours if pending.notice.task_id not in self._slow)
        chosen = next(quick, ours[0] if ours else None)
        if chosen is not None:
            self._waiting.remove(chosen)
        return chosen

    async def stream(self, task_id: str | None = None) -> AsyncIterator[Notice]:
        """Notices as they come, for as long as the toolbox is open."""
        while not self._is_closed:
            pending = self._next(task_id)
            if pending is None:
                self._came.clear()
                await self._came.wait()
                continue
            if not await self._give(pending):
                continue
            self._handed.append(pending)
            marks: list[asyncio.Task[None]] = []
            try:
                yield pending.notice
            finally:
                if pending in self._handed:
                    self._handed.remove(pending)
                    marks.append(self._run(pending.taken, self._marks))
            if marks:  # what was taken is remembered before anything else is given, where its place answers
                await asyncio.wait(marks, timeout=MARKING)

    async def _deliver(self) -> None:
        """Hands notices to the sinks in their order, one after the other, each until it is taken."""
        try:
            while pending := self._next(None):
                if not await self._give(pending):
                    continue
                for sink in self._sinks:
                    await _persist(sink, pending.notice)
                await asyncio.wait([self._run(pending.taken, self._marks)], timeout=MARKING)
        finally:
            self._is_delivering = False

    async def _give(self, pending: Pending) -> bool:
        """Remembers that somebody gets it: should we die over that, the next caller says that it is repeated.

        False when meanwhile it was told otherwise, or is another caller's to tell, or when its place does not answer:
        then it waits again, where it was.
        """
        self._giving.append(pending)
        is_ours = True
        try:
            async with asyncio.timeout(pending.patience):
                with contextlib.suppress(ExecutionError):
                    is_ours = await pending.giving()
            self._slow.discard(pending.notice.task_id)
        except BaseException as error:  # nobody waits for it any more, or its place does not answer
            if pending in self._giving:
                self._waiting.appendleft(pending)
            if not isinstance(error, TimeoutError):
                raise
            self._slow.add(pending.notice.task_id)
            pending.patience = min(2 * pending.patience, LONGEST_MARKING)
            return False
        finally:
            is_open = pending in self._giving
            if is_open:
                self._giving.remove(pending)
        return is_open and is_ours

    async def close(self) -> None:
        """Stops following; what was not told stays noted with its process."""
        self._is_closed = True
        self._came.set()
        for task in list(self._tasks):
            task.cancel()
        handed, self._handed = self._handed, []
        for pending in handed:
            self._run(pending.taken, self._marks)
        if tasks := self._tasks | self._marks:
            _, late = await asyncio.wait(tasks, timeout=CLOSING)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)

    def _run(
        self, work: Callable[[], Awaitable[None]], among: "set[asyncio.Task[None]] | None" = None
    ) -> "asyncio.Task[None]":
        async def quietly() -> None:
            with contextlib.suppress(ExecutionError):  # the place is gone, and so is what was to be remembered there
                await work()

        tasks = self._tasks if among is None else among
        task = asyncio.ensure_future(quietly())
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        return task


async def _persist(sink: Sink, notice: Notice) -> None:
    """Returns when the sink has taken it; one that fails is asked again after pauses that grow."""
    pause = DELIVERY_PAUSE
    while True:
        try:
            await sink(notice)
            return
        except Exception as error:
            _log.warning("a notice of %s could not be delivered: %r; next try in %g s", notice.task_id, error, pause)
        await asyncio.sleep(pause)
        pause = min(2 * pause, LONGEST_DELIVERY_PAUSE)
