"""A viewer of a process: output within a window, and who types.

The resident decides whose input is taken.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import msgspec

from hermetic.contract.errors import Driven, ExecutionError, InputClosed, NotPermitted
from hermetic.contract.limits import HANDOVER_NOTE, TERMINAL
from hermetic.contract.process import ProcessInfo
from hermetic.link import answers
from hermetic.serve import frames
from hermetic.serve.outgoing import Outgoing
from hermetic.session.terminal import Terminal, View

WINDOW = 1 << 18  # bytes of output that a viewer has not parsed
IN_FLIGHT = 8  # input frames that the environment has not accepted
QUEUED_INPUT = 16 << 20  # bytes of input that wait in the server

_log = logging.getLogger("hermetic.serve")


class Person(msgspec.Struct, frozen=True):
    """The user of a tab, and what that user may do."""

    name: str
    scopes: frozenset[str]

    @property
    def can_drive(self) -> bool:
        """True when the user may type into terminals."""
        return bool(self.scopes & {"drive", "admin"})

    @property
    def can_approve(self) -> bool:
        """True when the user may answer approval requests."""
        return bool(self.scopes & {"approve", "admin"})


class Channel:
    """One process in one tab."""

    def __init__(
        self,
        number: int,
        out: Outgoing,
        person: Person,
        environment: str,
        terminal: Terminal,
    ) -> None:
        self.number, self.person, self.environment, self.terminal = (
            number,
            person,
            environment,
            terminal,
        )
        self.when_closed: list[Callable[[], object]] = []
        self._out = out
        self._view: View | None = None
        self._position = 0  # behind the last byte that came
        self._written = 0  # behind the last byte that went to the tab
        self._parsed = 0  # behind the last byte that the viewer has parsed
        self._allowed = 0  # behind the last byte that may come
        self._asks_at = 0  # where more is allowed, at the latest
        self._replay_end: int | None = None
        self._size: tuple[int, int] | None = None  # of the viewer's window
        self._taking: asyncio.Task[None] | None = None
        self._pending: deque[tuple[int | None, bytes]] = deque()  # input: its id, None for a secret
        self._pending_bytes = 0
        self._in_flight = 0
        self.is_closed = False
        self._tasks: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"<Channel {self.number}: {self.terminal.id} for {self.person.name}>"

    @property
    def info(self) -> ProcessInfo:
        """Last known description of the process."""
        return self.terminal.info

    @property
    def position(self) -> int:
        """The offset behind the last byte that came."""
        return self._position

    # -- output
    async def open(self, start: int, prelude: bytes, size: tuple[int, int] | None) -> None:
        """Begins to send: the past from `start` on as a replay, then the output as it comes."""
        self._size = size
        if self._may_take_unasked():
            with contextlib.suppress(ExecutionError):  # another person was faster, or it has ended
                await self._take()
            await self.terminal.status()
        info, number = self.info, self.number
        end = max(info.out, start)
        self._out.event(
            "attached",
            channel=number,
            environment=self.environment,
            process=info.id,
            rows=info.rows,
            cols=info.cols,
            pty=info.pty,
            driver=self._driver(info),
            start=start,
            end=end,
            live=info.ending is None,
        )
        self._position = self._written = self._parsed = start
        self._replay_end = end
        self._out.frame(frames.REPLAY_BEGIN, number, start, prelude)
        if start == end:
            self._end_replay()
        self._out.channels += 1
        share = min(WINDOW, self._out.share)
        self._allowed, self._asks_at = start + share, start + share // 2
        self._view = self.terminal.view(
            self._came, offset=start, until=self._allowed, pace=info.personal
        )
        self.run(self._follow(self._view))

    def _came(self, start: int, data: bytes) -> None:
        if self.is_closed:
            return
        if start == self._position and self._replay_end is None:  # nearly always
            self._position = start + len(data)
            self._out.output(self.number, start, data, self._was_written)
            return
        if start > self._position:
            self._out.frame(frames.GAP, self.number, start)
            self._parsed += start - self._position  # the viewer gets nothing to parse in between
            self._allowed += start - self._position
        self._position = start + len(data)
        end = self._replay_end
        if end is not None and self._position >= end:
            split = max(0, end - start)
            if split:
                self._out.output(self.number, start, data[:split], self._was_written)
            self._end_replay()
            start, data = start + split, data[split:]
        if data:
            self._out.output(self.number, start, data, self._was_written)

    def _end_replay(self) -> None:
        self._out.frame(frames.REPLAY_END, self.number, self._replay_end or 0)
        self._replay_end = None

    def parsed(self, offset: int) -> None:
        """The viewer has parsed all output before `offset`."""
        self._parsed = max(self._parsed, min(offset, self._position))
        self._allow_more()

    def _was_written(self, end: int) -> None:
        self._written = end
        if end >= self._asks_at:
            self._allow_more()

    def _allow_more(self) -> None:
        """Allows more output: a window beyond what is parsed, and a share of the tab's space beyond
        what is written.
        """
        share = min(WINDOW, self._out.share)
        until = min(self._parsed + WINDOW, self._written + share)
        # a key needs no credit of its own
        if until - self._allowed >= share // 4 and self._view is not None:
            self._allowed, self._asks_at = until, until - share // 2
            self._view.allow(until)

    async def _follow(self, view: View) -> None:
        """Reports the end of the process, after all of its output."""
        try:
            ending = await view.ended()
            await self.terminal.status()
        except ExecutionError as error:
            self._out.event(
                "error",
                channel=self.number,
                code="lost",
                message=str(error),
                advice="reload the lists",
            )
            self._out.event("detached", channel=self.number)
        else:
            if self._replay_end is not None:  # output that fell out of the log
                self._end_replay()
            self._out.event(
                "ended",
                channel=self.number,
                ending=ending,
                exit_code=ending and ending.exit_code,
                text=str(ending),
                left=self.info.left,
                cleared=self.info.cleared,
            )
        self._tasks.discard(asyncio.current_task())
        self.close()

    # -- control
    def changed(self, info: ProcessInfo) -> None:
        """Another person drives the process, or none, or its terminal has another size."""
        self.terminal.learn(info)
        note = info.handed.note if info.handed is not None and info.driver is None else ""
        self._out.publish(
            {
                "event": "control",
                "channel": self.number,
                "environment": self.environment,
                "process": info.id,
                "driver": self._driver(info),
                "note": note,
                "rows": info.rows,
                "cols": info.cols,
            }
        )

    def _driver(self, info: ProcessInfo) -> dict[str, object] | None:
        if info.driver is None:
            return None
        return {**msgspec.structs.asdict(info.driver), "you": self.terminal.is_driving}

    def _may_take_unasked(self) -> bool:
        """True for a person's terminal without a driver: typing into it needs no other key."""
        info = self.info
        is_free = info.driver is None or not info.driver.present
        return info.personal and is_free and info.input == "open" and self.person.can_drive

    async def take(self) -> None:
        """The person takes the keyboard, also from another person.

        Raises NotPermitted, ExecutionError.
        """
        if not self.person.can_drive:
            raise self._forbidden("take over a terminal")
        if not self.terminal.is_driving:
            await self._take()

    async def _take(self) -> None:
        await self.terminal.drive(self.person.name)
        _log.info("%s drives %s in %s", self.person.name, self.terminal.id, self.environment)
        if self._size is not None and self.info.pty:
            await self.terminal.resize(*self._size)
        await self.terminal.status()

    async def give(self, note: str) -> None:
        """Gives the keyboard back, with a note for the agent."""
        await self.terminal.give(note[:HANDOVER_NOTE])

    def resize(self, rows: int, cols: int) -> None:
        """The viewer's window has another size; the terminal follows its driver."""
        self._size = clamp(rows), clamp(cols)
        if self.terminal.is_driving and self.info.pty:
            self.run(self._resize(*self._size))

    async def _resize(self, rows: int, cols: int) -> None:
        try:
            await self.terminal.resize(rows, cols)
        except ExecutionError as error:
            self._refused(error)

    # -- input
    def input(self, id: int, data: bytes) -> None:
        """Types bytes; they are acknowledged by their id once the environment has accepted them."""
        if (
            self._pending
            or self._in_flight >= IN_FLIGHT
            or not self.terminal.type_directly(data, partial(self._typed, id))
        ):
            self._add(id, data)
        else:
            self._in_flight += 1

    def secret(self, text: str) -> None:
        """Types a line that no log shows, even where the process prints it."""
        self._add(None, text.encode("utf-8", "replace") + (b"\r" if self.info.pty else b"\n"))

    def _add(self, id: int | None, data: bytes) -> None:
        if not self.person.can_drive:
            self._refused(self._forbidden("type"))
        elif not self.terminal.is_driving and self._taking is None and not self._begin_taking():
            self._refused(
                Driven(
                    "you do not drive this terminal; take it over first",
                    process_id=self.terminal.id,
                )
            )
        elif self._pending_bytes + len(data) > QUEUED_INPUT:
            message = "the process does not read its input, and too much waits for it: this part was dropped"
            self._out.publish(
                {"event": "error", "channel": self.number, "code": "input_full", "message": message}
            )
        else:
            self._pending.append((id, data))
            self._pending_bytes += len(data)
            self._pump()

    def _begin_taking(self) -> bool:
        """Takes a person's own terminal before its input is typed; False for other processes."""
        if not self._may_take_unasked():
            return False

        async def take() -> None:
            try:
                await self._take()
            except ExecutionError as error:
                self._refused(error)
                self._drop_input()
            self._taking = None
            self._pump()

        self._taking = self.run(take())
        return True

    def _pump(self) -> None:
        """Sends input in order, a few frames at a time."""
        most = 1 if self.terminal.is_judged else IN_FLIGHT
        while self._pending and self._in_flight < most and self._taking is None:
            id, data = self._pending.popleft()
            self._pending_bytes -= len(data)
            self._in_flight += 1
            if id is not None and self.terminal.type_directly(data, partial(self._typed, id)):
                continue
            try:
                answer = self.terminal.type(data, secret=id is None)
            except ExecutionError as error:
                self._in_flight -= 1
                self._refused(error)
                continue
            answer.add_done_callback(partial(self._answered, id))

    def _answered(
        self, id: int | None, answer: "asyncio.Future[tuple[answers.Done, bytes]]"
    ) -> None:
        if answer.cancelled():
            self._in_flight -= 1
        else:
            self._typed(id, answer.exception())

    def _typed(self, id: int | None, error: BaseException | None) -> None:
        self._in_flight -= 1
        if self.is_closed:
            return
        if error is not None:
            self._refused(error)
        elif id is not None:
            self._out.frame(frames.INPUT_ACK, self.number, id)
        self._pump()

    def _drop_input(self) -> None:
        self._pending.clear()
        self._pending_bytes = 0

    def _refused(self, error: BaseException) -> None:
        """Reports input that was not typed.

        What waits behind it is dropped: half a paste must not run.
        """
        self._drop_input()
        code = "not_driving" if isinstance(error, Driven) else "refused"
        code = (
            "forbidden" if isinstance(error, NotPermitted) and not self.person.can_drive else code
        )
        code = "input_closed" if isinstance(error, InputClosed) else code
        self._out.publish(
            {
                "event": "error",
                "channel": self.number,
                "code": code,
                "message": str(error),
                "advice": "",
            }
        )

    def _forbidden(self, what: str) -> NotPermitted:
        _log.warning("refused to %s: %s may only view", what, self.person.name)
        return NotPermitted(
            f"this link may only view: to {what}, open the console with the scope drive", by="scope"
        )

    # -- end
    def run(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Runs work that ends with the channel."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def close(self) -> None:
        """Ends the view. A person who drives has a while to come back."""
        if self.is_closed:
            return
        self.is_closed = True
        if self._view is not None:
            self._view.close()
            self._out.channels -= 1
        self.terminal.leave()
        for task in list(self._tasks):
            task.cancel()
        for callback in self.when_closed:
            callback()


def clamp(cells: int) -> int:
    """Rows or columns that a terminal can have."""
    return max(1, min(cells, TERMINAL))
