"""Notices of processes: delivered once, also by the next caller when this one dies before a
delivery.
"""

import asyncio
import contextlib
import logging
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import msgspec

from hermetic.contract.concurrency import beside
from hermetic.contract.endings import Ending, Lost
from hermetic.contract.errors import ExecutionError
from hermetic.contract.limits import DELIVERY_PAUSE, FINAL_OUTPUT, LONGEST_DELIVERY_PAUSE, NOTICES
from hermetic.contract.notice import Kind, Notice, NotifyOptions, read_wishes, write_wishes
from hermetic.session.callbacks import answer_of
from hermetic.session.environment import Environment
from hermetic.session.process import Process
from hermetic.tools.base.show import Show
from hermetic.tools.base.watching import Breaker, LineMatch, Watch

PROGRESS_CHARACTERS = 500
# Bytes before the part that is shown: a secret that reaches into it is found as a whole.
MARGIN = 1024
STEP = 1 << 15  # bytes searched in one turn of the event loop
LONG_WAIT = 3600.0  # seconds that one read of a quiet log waits
MARKING = 1.0  # seconds that recording a delivery may take before notices of other tasks go on
LONGEST_MARKING = 8.0  # the same after it was tried before: a slow environment is served in the end
CLOSING = 5.0  # seconds that the last records may take on close

Sink = Callable[[Notice], object]  # sync or async
Record = Callable[[], Awaitable[None]]  # records that a notice was delivered
# Records a delivery that begins; False: the notice is not ours any more.
Claim = Callable[[], Awaitable[bool]]

_log = logging.getLogger("hermetic.notices")


async def nothing() -> None:
    """Records nothing."""


async def always() -> bool:
    """The notice is ours, and nothing is recorded."""
    return True


async def tail(process: Process, characters: int, show: Show) -> str:
    """The last characters of the output so far, as a model may see them."""
    most = 4 * characters + MARGIN
    chunk = await process.read(max(0, process.info.out - most), limit=most)
    shown = show(chunk.data.decode("utf-8", "replace"), process.info.command)
    if process.info.ending is None:
        shown = shown[: len(shown) - show.unfinished(shown)]
    return shown[-characters:]


async def change_wishes(
    process: Process, changes: Mapping[str, Any], *, claimed: bool = False
) -> bool:
    """Changes the notify options in a process's tag, and keeps concurrent changes of other callers.

    `claimed=True` returns False, and changes nothing, when another caller has claimed the process.
    """
    while True:
        was = process.info.tag
        wishes = msgspec.structs.replace(read_wishes(was) or NotifyOptions(), **changes)
        state = await process.swap_tag(was, write_wishes(wishes), claimed=claimed)
        if state != "changed":
            return state == "done"


class Pending:
    """A notice to be delivered, and what is recorded before and after."""

    def __init__(self, notice: Notice, taken: Record = nothing, giving: Claim = always) -> None:
        self.notice, self.taken, self.giving = notice, taken, giving
        self.patience = MARKING


class Notices:
    """Follows processes and queues notices for the sinks, or else for a stream.

    A notice counts as delivered when every sink has returned, or when the stream's reader asks for
    the next one.
    """

    def __init__(self, show: Show, sinks: Sequence[Sink] = ()) -> None:
        self.show = show
        self._sinks = sinks
        self._waiting: deque[Pending] = deque()
        self._handed: list[Pending] = []  # to readers that have not asked for the next one
        self._missed: Counter[str] = Counter()  # by task: notices that fell out of the queue
        self._slow: set[str] = set()  # tasks whose environment does not respond: others come first
        self._came = asyncio.Event()
        self._breaker = Breaker()
        self._followed: dict[str, Reporter] = {}  # by process id
        self._attended: Counter[str] = Counter()  # process id → calls whose answer reports its end
        self._left = asyncio.Event()  # one of those calls is over
        self._tasks: set[asyncio.Task[None]] = set()
        self._records: set[asyncio.Task[None]] = set()  # of deliveries
        self._is_closed = False
        self._is_delivering = False

    def __repr__(self) -> str:
        return f"<Notices of {len(self._followed)} processes, {len(self._waiting)} waiting>"

    def follow(self, process: Process) -> None:
        """Reports on a process from now on, as its tag says."""
        wishes = read_wishes(process.info.tag)
        if wishes is None or not wishes.is_open or process.id in self._followed or self._is_closed:
            return
        following = self._followed[process.id] = Reporter(self, process, wishes)
        self._run(following.run)

    async def rearm(self, environment: Environment) -> None:
        """Follows the processes of earlier callers that have notices left."""
        for info in await environment.processes():
            wishes = read_wishes(info.tag)
            if wishes is not None and wishes.is_open and info.id not in self._followed:
                self.follow(await environment.process(info.id))

    async def seen(self, process: Process) -> None:
        """The caller has seen the process's end in an answer: no notice repeats it."""
        if following := self._followed.get(process.id):
            await following.seen()

    async def amend(self, process: Process, **changes: Any) -> None:
        """Changes the notify options of a process that a tool started."""
        if following := self._followed.get(process.id):
            await following.amend(**changes)
        elif read_wishes(process.info.tag):
            await change_wishes(process, changes)

    @contextmanager
    def attended(self, id: str) -> Iterator[None]:
        """Holds back the notice of a process's end while the block may report it."""
        self._attended[id] += 1
        try:
            yield
        finally:
            self._attended[id] -= 1
            if not self._attended[id]:
                del self._attended[id]
            self._left.set()

    async def unattended(self, id: str) -> None:
        """Returns when no call is about to report the process's end."""
        while id in self._attended:
            self._left.clear()
            await self._left.wait()

    def forget(self, id: str) -> None:
        """Nothing is left to report of a process."""
        self._followed.pop(id, None)

    def tell(self, notice: Notice, taken: Record, giving: Claim = always) -> None:
        """Queues a notice, unless there are too many matches."""
        if notice.kind == "matched":
            passed = self._breaker.pass_on(time.monotonic())
            if passed in ("drop", "silence"):
                self._run(taken, self._records)
            if passed == "drop":
                return
            if passed == "silence":
                text = "[Too many matches at once: no notices of them for a while. Use the process tool to look.]"
                self._queue(Pending(Notice(kind="silenced", task_id=notice.task_id, text=text)))
                return
            if passed == "resume":
                text = "[Notices of matches again.]"
                self._queue(Pending(Notice(kind="resumed", task_id=notice.task_id, text=text)))
        self._queue(Pending(notice, taken, giving))

    def _queue(self, pending: Pending) -> None:
        if len(self._waiting) >= NOTICES:
            # The process's tag still says that it was not delivered: the next caller delivers it.
            self._missed[self._waiting.popleft().notice.task_id] += 1
        self._waiting.append(pending)
        self._came.set()
        if self._sinks and not self._is_delivering:
            self._is_delivering = True
            self._run(self._deliver)

    def _next(self, task_id: str | None) -> Pending | None:
        """The oldest notice of one task or of any, but first the number of those that fell out."""
        for task in self._missed:
            if task_id in (None, task):
                count = self._missed.pop(task)
                text = f"[{count} notices were dropped because they were not collected. Use process(action='list') to look.]"
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
            records: list[asyncio.Task[None]] = []
            try:
                yield pending.notice
            finally:
                if pending in self._handed:
                    self._handed.remove(pending)
                    records.append(self._run(pending.taken, self._records))
            # A delivery is recorded before the next one, where its environment responds.
            if records:
                await asyncio.wait(records, timeout=MARKING)

    async def _deliver(self) -> None:
        """Hands notices to the sinks in order, each until it is taken."""
        try:
            while pending := self._next(None):
                if not await self._give(pending):
                    continue
                for sink in self._sinks:
                    await _persist(sink, pending.notice)
                await asyncio.wait([self._run(pending.taken, self._records)], timeout=MARKING)
        finally:
            self._is_delivering = False

    async def _give(self, pending: Pending) -> bool:
        """Records that a delivery begins: should we die during it, the next caller marks the notice
        as repeated.

        False when it is not ours to deliver any more, or when its environment does not respond:
        then it is queued again.
        """
        try:
            async with asyncio.timeout(pending.patience):
                is_ours = await pending.giving()
        # no reader waits any more, or its environment does not respond
        except BaseException as error:
            self._waiting.appendleft(pending)
            if not isinstance(error, TimeoutError):
                raise
            self._slow.add(pending.notice.task_id)
            pending.patience = min(2 * pending.patience, LONGEST_MARKING)
            return False
        self._slow.discard(pending.notice.task_id)
        return is_ours

    async def close(self) -> None:
        """Stops following; what was not delivered stays recorded with its process."""
        self._is_closed = True
        self._came.set()
        for task in list(self._tasks):
            task.cancel()
        handed, self._handed = self._handed, []
        for pending in handed:
            self._run(pending.taken, self._records)
        if tasks := self._tasks | self._records:
            _, late = await asyncio.wait(tasks, timeout=CLOSING)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)

    def _run(
        self, work: Record, among: "set[asyncio.Task[None]] | None" = None
    ) -> "asyncio.Task[None]":
        async def quietly() -> None:
            with contextlib.suppress(ExecutionError):  # the environment is gone with its tags
                await work()

        tasks = self._tasks if among is None else among
        task = asyncio.ensure_future(quietly())
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        return task


class Reporter:
    """Reports on one process, and records deliveries in its tag.

    Of several connected callers one reports: the one that started the process, or after its death
    one that claims it.
    """

    def __init__(self, notices: Notices, process: Process, wishes: NotifyOptions) -> None:
        self._notices, self._process, self.wishes = notices, process, wishes
        self._matches = 0  # queued
        self._is_over = False
        self._is_ours = False
        self._is_lost = False  # another caller claimed it while our connection was broken
        self._is_seen = False  # our caller has seen its end in an answer

    def __repr__(self) -> str:
        return f"<Reporter {self._process.id}>"

    async def run(self) -> None:
        """Returns when the process has ended and all notices are queued."""
        try:
            await self._process.claim()
            wishes = self.wishes = read_wishes(self._process.info.tag) or self.wishes
            self._is_ours = True
            async with beside(self._report()):
                if wishes.watch and not wishes.told:
                    await self._search(
                        Watch(wishes.watch, wishes.searched, wishes.strikes, wishes.matches)
                    )
                ending = await self._process.wait()
            await self._notices.unattended(self._process.id)
            self._is_over = True
            if self.wishes.told or self._is_lost:
                return
            if self._is_seen:
                await self._finish()
            elif self.wishes.notify or self.wishes.every:
                await self._tell_end(ending)
            else:
                await self._settle()
        # the environment is gone or released: the next one that opens it follows anew
        except ExecutionError:
            self._forget()
            raise

    async def seen(self) -> None:
        """Our caller has seen the end; another caller that claims the process gets its notice."""
        self._is_seen = True
        if self._is_ours:
            await self._finish()

    async def amend(self, **changes: Any) -> None:
        """Changes the notify options."""
        self.wishes = msgspec.structs.replace(self.wishes, **changes)
        await change_wishes(self._process, changes)

    async def _give(self, name: str) -> bool:
        """Records that the delivery of a notice begins; False when it is not ours any more, or was
        seen.
        """
        if self._is_lost or (self._is_seen and name == "completed"):
            return False
        self.wishes = msgspec.structs.replace(self.wishes, given=name)
        with contextlib.suppress(ExecutionError):
            if not await change_wishes(self._process, {"given": name}, claimed=True):
                self._forget()
                self._is_lost = True
                self._notices.follow(self._process)
                return False
        return not (self._is_seen and name == "completed")

    def _forget(self) -> None:
        if not self._is_lost:
            self._notices.forget(self._process.id)

    async def _settle(self) -> None:
        """Finishes if only lines were watched for and the last match was delivered."""
        if self._is_over and not self._matches and not (self.wishes.notify or self.wishes.every):
            await self._finish()

    async def _finish(self) -> None:
        self._forget()
        await self.amend(told=True)

    async def _search(self, watch: Watch) -> None:
        """Searches the output as it comes, until its end or until there were too many matches."""
        position = watch.searched
        while not watch.is_over:
            chunk = await self._process.read(position, wait=LONG_WAIT)
            if chunk.start > position:
                watch.jump(chunk.start)
            position = chunk.end
            for at in range(0, max(1, len(chunk.data)), STEP):
                is_last = chunk.ended and at + STEP >= len(chunk.data)
                match = watch.feed(chunk.data[at : at + STEP], time.monotonic(), last=is_last)
                if match is not None:
                    self._tell_match(watch, match)
                await asyncio.sleep(0)  # a flood leaves the event loop to others
            if chunk.ended:
                return
        changes = {"watch": (), "notify": True}
        self.wishes = msgspec.structs.replace(self.wishes, **changes)
        text = "too many matches; from now on only a notice of its end"
        self._tell("watch_disabled", text, taken=partial(self.amend, **changes))

    def _tell_match(self, watch: Watch, match: LineMatch) -> None:
        shown = self._notices.show(match.lines, self._process.info.command)
        more = f"\n({match.suppressed} earlier matches were not told)" if match.suppressed else ""
        self._matches += 1
        self._tell(
            "matched",
            f"matched {match.pattern!r}:\n{shown}{more}",
            id=f"matched-{watch.searched}",
            taken=partial(self._match_taken, watch.searched, watch.strikes, watch.matches),
            output=shown,
            pattern=match.pattern,
            suppressed=match.suppressed,
        )

    async def _match_taken(self, searched: int, strikes: int, matches: int) -> None:
        self._matches -= 1
        searched, matches = max(searched, self.wishes.searched), max(matches, self.wishes.matches)
        await self.amend(searched=searched, strikes=strikes, matches=matches)
        await self._settle()

    async def _report(self) -> None:
        """Reports progress at intervals."""
        while self.wishes.every:
            await asyncio.sleep(self.wishes.every)
            shown = await self._tail(PROGRESS_CHARACTERS)
            age = round(self._process.info.duration)  # reports of the next caller have other ids
            self._tell(
                "progress",
                f"still runs; the end of its output:\n{shown}",
                id=f"progress-{age}",
                output=shown,
            )

    async def _tell_end(self, ending: Ending) -> None:
        output = "" if isinstance(ending, Lost) else await self._tail(FINAL_OUTPUT)
        name, code = type(ending).__name__.lower(), ending.exit_code
        text = f"ended ({name}, exit code {code}); the end of its output:\n{output}"
        self._tell(
            "completed", text, taken=self._finish, exit_code=code, ending=name, output=output
        )

    async def _tail(self, characters: int) -> str:
        await self._process.status()
        return await tail(self._process, characters, self._notices.show)

    def _tell(
        self, kind: Kind, text: str, *, id: str = "", taken: Record = nothing, **more: Any
    ) -> None:
        command = self._notices.show(self._process.info.command, "")
        process = self._process.id
        name = id or kind
        notice = Notice(
            kind=kind,
            task_id=self.wishes.task,
            id=f"{process}-{name}",
            session_id=process,
            command=command,
            text=f"[IMPORTANT: background process {process} ({command[:100]}) {text}]",
            repeated=self.wishes.given == name,
            **more,
        )
        self._notices.tell(notice, taken, partial(self._give, name))


async def _persist(sink: Sink, notice: Notice) -> None:
    """Returns when the sink has taken the notice; failed deliveries are retried with growing
    pauses.
    """
    pause = DELIVERY_PAUSE
    while True:
        try:
            await answer_of(sink, notice)
            return
        except Exception as error:  # the caller's own function, or the network's failure
            _log.warning(
                "a notice of %s could not be delivered: %r; next try in %g s",
                notice.task_id,
                error,
                pause,
            )
        await asyncio.sleep(pause)
        pause = min(2 * pause, LONGEST_DELIVERY_PAUSE)
