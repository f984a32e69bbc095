"""One process and what is to be told of it, from its start or from where an earlier caller left off."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Protocol

import msgspec

from hermetic.contract.endings import Ending, Lost
from hermetic.contract.errors import ExecutionError
from hermetic.contract.limits import FINAL_OUTPUT
from hermetic.contract.notice import Kind, Notice, NotifyOptions, read_wishes, write_wishes
from hermetic.session.process import Process
from hermetic.tools.base.task import Show
from hermetic.tools.process.reading import tail
from hermetic.tools.process.watching import Match, Watch

PROGRESS_CHARACTERS = 500
STEP = 1 << 15  # bytes searched in one turn of the event loop
LONG_WAIT = 3600.0  # seconds that one read of a quiet log waits

Mark = Callable[[], Awaitable[None]]  # remembers that something was told
Leave = Callable[[], Awaitable[bool]]  # remembers that somebody gets it now; False: it is no longer ours to tell


async def nothing() -> None:
    """Nothing is to be remembered."""


async def always() -> bool:
    """It may be told, and nothing is to be remembered."""
    return True


class Teller(Protocol):
    """Where notices go."""

    show: Show

    def tell(self, notice: Notice, taken: Mark, giving: Leave = always) -> None:
        """Puts a notice on its way; `giving` is called before somebody gets it, `taken` once he has it."""

    async def unattended(self, id: str) -> None:
        """Returns when no call is about to tell of its end."""

    def forget(self, id: str) -> None:
        """Nothing of it is left to be told."""

    def follow(self, process: Process) -> None:
        """From now on, by what its tag says."""


class Following:
    """Tells of one process, and keeps in its tag what was told.

    Of several callers that are connected one tells: who started the process, and when he is gone whoever claims it.
    """

    def __init__(self, teller: Teller, process: Process, wishes: NotifyOptions) -> None:
        self._teller, self._process, self.wishes = teller, process, wishes
        self._matches = 0  # on their way
        self._is_over = False
        self._is_ours = False
        self._is_lost = False  # another caller claims it, after our connection was broken for a while
        self._is_seen = False  # our caller has learned of its end otherwise

    def __repr__(self) -> str:
        return f"<Following {self._process.id}>"

    async def run(self) -> None:
        """Returns when it has ended and all is on its way to be told."""
        try:
            await self._claim()
            wishes = self.wishes
            async with self._reporting():
                if wishes.watch and not wishes.told:
                    await self._look(Watch(wishes.watch, wishes.searched, wishes.strikes, wishes.matches))
                ending = await self._process.wait()
            await self._teller.unattended(self._process.id)
            self._is_over = True
            if self.wishes.told or self._is_lost:
                return
            if self._is_seen:
                await self._mark_told()
            elif self.wishes.notify or self.wishes.every:
                await self._tell_end(ending)
            else:
                await self._settle()
        except ExecutionError:  # the place is gone, or was let go of: who opens it again follows anew
            self._forget()
            raise

    async def seen(self) -> None:
        """Our caller has learned of its end otherwise: he is not told again, whoever else claims it is."""
        self._is_seen = True
        if self._is_ours:
            await self._mark_told()

    async def amend(self, **changes: Any) -> None:
        """Changes what is remembered with the process."""
        self.wishes = msgspec.structs.replace(self.wishes, **changes)
        await change_wishes(self._process, changes)

    async def _claim(self) -> None:
        await self._process.claim()
        self.wishes = read_wishes(self._process.info.tag) or self.wishes
        self._is_ours = True

    async def _give(self, name: str) -> bool:
        """Remembers that somebody gets the notice now, unless another caller has come to tell of the process."""
        if self._is_lost:
            return False
        self.wishes = msgspec.structs.replace(self.wishes, given=name)
        if await change_wishes(self._process, {"given": name}, claimed=True):
            return True
        self._forget()
        self._is_lost = True
        self._teller.follow(self._process)
        return False

    def _forget(self) -> None:
        if not self._is_lost:
            self._teller.forget(self._process.id)

    async def _settle(self) -> None:
        """Only lines were watched for: when the last match has been taken, nothing is left to be told."""
        if self._is_over and not self._matches and not (self.wishes.notify or self.wishes.every):
            await self._mark_told()

    async def _mark_told(self) -> None:
        self._forget()
        await self.amend(told=True)

    async def _look(self, watch: Watch) -> None:
        """Searches the output as it comes, until the end or until there was too much to tell."""
        position = watch.searched
        while not watch.is_over:
            chunk = await self._process.read(position, wait=LONG_WAIT)
            if chunk.start > position:
                watch.jump(chunk.start)
            position = chunk.end
            for at in range(0, max(1, len(chunk.data)), STEP):
                piece, is_last = chunk.data[at : at + STEP], at + STEP >= len(chunk.data)
                match = watch.feed(piece, time.monotonic(), last=chunk.ended and is_last)
                if match is not None:
                    self._tell_match(watch, match)
                await asyncio.sleep(0)  # a flood leaves the event loop to others
            if chunk.ended:
                return
        changes = {"watch": (), "notify": True}
        self.wishes = msgspec.structs.replace(self.wishes, **changes)
        self._tell(
            "watch_disabled", "too many matches; only its end is told from now on", taken=partial(self.amend, **changes)
        )

    def _tell_match(self, watch: Watch, match: Match) -> None:
        shown = self._teller.show(match.lines, self._process.info.command)
        more = f"\n({match.suppressed} earlier matches were not told)" if match.suppressed else ""
        self._matches += 1
        self._tell(
            "matched", f"matched {match.pattern!r}:\n{shown}{more}", id=f"matched-{watch.searched}",
            taken=partial(self._match_taken, watch.searched, watch.strikes, watch.matches), output=shown,
            pattern=match.pattern, suppressed=match.suppressed,
        )  # fmt: skip

    async def _match_taken(self, searched: int, strikes: int, matches: int) -> None:
        self._matches -= 1
        searched, matches = max(searched, self.wishes.searched), max(matches, self.wishes.matches)
        await self.amend(searched=searched, strikes=strikes, matches=matches)
        await self._settle()

    @asynccontextmanager
    async def _reporting(self) -> AsyncIterator[None]:
        """Tells now and then that it still runs, while the block waits."""
        if not self.wishes.every:
            yield
            return
        reports = asyncio.ensure_future(self._report())
        try:
            yield
        finally:
            reports.cancel()
            with contextlib.suppress(asyncio.CancelledError, ExecutionError):
                await reports

    async def _report(self) -> None:
        while True:
            await asyncio.sleep(self.wishes.every)
            shown = await self._tail(PROGRESS_CHARACTERS)
            age = round(self._process.info.duration)  # the next caller's reports are others
            self._tell("progress", f"still runs; the end of its output:\n{shown}", id=f"progress-{age}", output=shown)

    async def _tell_end(self, ending: Ending) -> None:
        output = "" if isinstance(ending, Lost) else await self._tail(FINAL_OUTPUT)
        name = type(ending).__name__.lower()
        self._tell(
            "completed", f"ended ({name}, exit code {ending.exit_code}); the end of its output:\n{output}",
            taken=self._mark_told, exit_code=ending.exit_code, ending=name, output=output,
        )  # fmt: skip

    async def _tail(self, characters: int) -> str:
        await self._process.status()
        return await tail(self._process, characters, self._teller.show)

    def _tell(self, kind: Kind, text: str, *, id: str = "", taken: Mark = nothing, **more: Any) -> None:
        command, process = self._teller.show(self._process.info.command, ""), self._process.id
        said = f"[IMPORTANT: background process {process} ({command[:100]}) {text}]"
        name = id or kind
        notice = Notice(
            kind=kind, task_id=self.wishes.task, id=f"{process}-{name}", session_id=process, command=command,
            text=said, repeated=self.wishes.given == name, **more,
        )  # fmt: skip
        self._teller.tell(notice, taken, partial(self._give, name))


async def change_wishes(process: Process, changes: Mapping[str, Any], *, claimed: bool = False) -> bool:
    """Changes what is remembered with a process, and keeps what another caller has changed of it meanwhile.

    `claimed=True` gives False, and changes nothing, when another caller has claimed the process.
    """
    while True:
        was = process.info.tag
        wishes = msgspec.structs.replace(read_wishes(was) or NotifyOptions(), **changes)
        state = await process.swap_tag(was, write_wishes(wishes), claimed=claimed)
        if state != "changed":
            return state == "done"
