"""What was wished to be told of processes is told: once, also to the next caller when this one dies."""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

import msgspec

from hermetic.contract.endings import Ending, Lost
from hermetic.contract.errors import ExecutionError
from hermetic.contract.limits import FINAL_OUTPUT, NOTICES
from hermetic.contract.notice import Notice, Wishes, read_wishes, write_wishes
from hermetic.processes.reading import tail
from hermetic.processes.watching import Breaker, Match, Watch
from hermetic.session.environment import Environment
from hermetic.session.process import Process

PROGRESS_CHARACTERS = 500
LONG_WAIT = 3600.0  # seconds that one read of a quiet log waits

Sink = Callable[[Notice], Awaitable[None]]


class Pending:
    """A notice on its way, and what has to be remembered once somebody has it."""

    def __init__(self, notice: Notice, taken: Callable[[], Awaitable[None]]) -> None:
        self.notice, self.taken = notice, taken


class Notices:
    """Follows processes and keeps what there is to tell until somebody takes it."""

    def __init__(self, show: Callable[[str, str], str], sink: Sink | None = None) -> None:
        self._show = show
        self._sink = sink
        self._waiting: deque[Pending] = deque()
        self._came = asyncio.Event()
        self._breaker = Breaker()
        self._followed: dict[str, Following] = {}  # id of a process
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def __repr__(self) -> str:
        return f"<Notices of {len(self._followed)} processes, {len(self._waiting)} waiting>"

    def follow(self, environment: Environment, process: Process) -> None:
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
                self.follow(environment, await environment.process(info.id))

    async def told(self, process: Process) -> None:
        """The caller has learned of its end otherwise: it is not told again."""
        following = self._followed.get(process.id)
        if following is not None:
            await following.mark_told()
        self._waiting = deque(
            one for one in self._waiting if one.notice.session_id != process.id or one.notice.kind != "completed"
        )

    def forget(self, id: str) -> None:
        self._followed.pop(id, None)

    def tell(self, notice: Notice, taken: Callable[[], Awaitable[None]]) -> None:
        """Puts a notice on its way, unless there are too many of them."""
        if notice.kind == "matched":
            passed = self._breaker.pass_on(time.monotonic())
            if passed == "drop":
                return
            if passed == "silence":
                text = "[Too many matches at once: none is told for a while. Use the process tool to look.]"
                notice, taken = Notice(kind="silenced", task_id=notice.task_id, text=text), _nothing
            if passed == "resume":
                text = "[Matches are told again.]"
                self._pass_on(Notice(kind="resumed", task_id=notice.task_id, text=text), _nothing)
        self._pass_on(notice, taken)

    def _pass_on(self, notice: Notice, taken: Callable[[], Awaitable[None]]) -> None:
        pending = Pending(notice, taken)
        if self._sink is not None:
            self._run(partial(self._hand_over, self._sink, pending))
            return
        if len(self._waiting) >= NOTICES.value:
            self._waiting.popleft()
        self._waiting.append(pending)
        self._came.set()

    async def _hand_over(self, sink: Sink, pending: Pending) -> None:
        await sink(pending.notice)
        await pending.taken()

    async def take(self, task_id: str | None = None) -> Notice | None:
        """The oldest notice that waits, of one task or of any; None when there is none."""
        for pending in self._waiting:
            if task_id in (None, pending.notice.task_id):
                self._waiting.remove(pending)
                await pending.taken()
                return pending.notice
        return None

    async def stream(self, task_id: str | None = None) -> AsyncIterator[Notice]:
        """Notices as they come, for as long as the toolbox is open."""
        while not self._is_closed:
            if notice := await self.take(task_id):
                yield notice
                continue
            self._came.clear()
            await self._came.wait()

    async def close(self) -> None:
        """Stops following; what was not told stays noted with its process."""
        self._is_closed = True
        self._came.set()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def show(self, text: str, command: str) -> str:
        return self._show(text, command)

    def _run(self, work: Callable[[], Awaitable[None]]) -> None:
        async def quietly() -> None:
            with contextlib.suppress(ExecutionError):  # the place is gone, and so is what was to be remembered there
                await work()

        task = asyncio.ensure_future(quietly())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _nothing() -> None:
    return


class Following:
    """One process and what is to be told of it."""

    def __init__(self, notices: Notices, process: Process, wishes: Wishes) -> None:
        self._notices, self._process, self.wishes = notices, process, wishes
        self._watch = Watch(wishes.watch, wishes.searched, wishes.strikes) if wishes.watch else None

    async def run(self) -> None:
        """Returns when it has ended and all was told."""
        progress = asyncio.ensure_future(self._report()) if self.wishes.every else None
        try:
            if self._watch is not None:
                await self._look(self._watch)
            ending = await self._process.wait()
        finally:
            if progress is not None:
                progress.cancel()
        if not self.wishes.told and (self.wishes.notify or self.wishes.every):
            await self._tell_end(ending)
        self._notices.forget(self._process.id)

    async def mark_told(self) -> None:
        self.wishes = msgspec.structs.replace(self.wishes, told=True)
        await self._remember()

    async def _remember(self) -> None:
        await self._process.set_tag(write_wishes(self.wishes))

    async def _look(self, watch: Watch) -> None:
        """Searches the output as it comes, until the end or until there was too much to tell."""
        position = watch.searched
        while not watch.is_over:
            chunk = await self._process.read(position, wait=LONG_WAIT)
            position = chunk.end
            match = watch.feed(chunk.data, time.monotonic(), last=chunk.ended)
            if match is not None:
                await self._tell_match(watch, match)
            if chunk.ended:
                return
        self.wishes = msgspec.structs.replace(self.wishes, watch=(), notify=True)
        await self._remember()
        self._tell("watch_disabled", text="too many matches; only its end is told from now on")

    async def _tell_match(self, watch: Watch, match: Match) -> None:
        self.wishes = msgspec.structs.replace(self.wishes, searched=watch.searched, strikes=watch.strikes)
        shown = self._notices.show(match.lines, self._process.info.command)
        more = f"\n({match.suppressed} earlier matches were not told)" if match.suppressed else ""
        self._tell(
            "matched", f"matched {match.pattern!r}:\n{shown}{more}", taken=self._remember, output=shown,
            pattern=match.pattern, suppressed=match.suppressed,
        )  # fmt: skip

    async def _report(self) -> None:
        while True:
            await asyncio.sleep(self.wishes.every)
            await self._process.status()
            shown = self._notices.show(await tail(self._process, PROGRESS_CHARACTERS), self._process.info.command)
            self._tell("progress", f"still runs; the end of its output:\n{shown}", output=shown)

    async def _tell_end(self, ending: Ending) -> None:
        output = ""
        if not isinstance(ending, Lost):
            await self._process.status()
            output = self._notices.show(await tail(self._process, FINAL_OUTPUT.value), self._process.info.command)
        name = type(ending).__name__.lower()
        self._tell(
            "completed", f"ended ({name}, exit code {ending.exit_code}); the end of its output:\n{output}",
            taken=self.mark_told, exit_code=ending.exit_code, ending=name, output=output,
        )  # fmt: skip

    def _tell(
        self, kind: str, text: str, *, taken: Callable[[], Awaitable[None]] = _nothing, **more: object
    ) -> None:  # fmt: skip
        command = self._notices.show(self._process.info.command, "")
        notice = msgspec.convert(
            {
                "kind": kind, "task_id": self.wishes.task, "session_id": self._process.id, "command": command,
                "text": f"[IMPORTANT: background process {self._process.id} ({command[:100]}) {text}]", **more,
            },
            Notice,
        )  # fmt: skip
        self._notices.tell(notice, taken)
