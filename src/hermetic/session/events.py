"""What starts and ends in an environment, as it happens."""

import asyncio
from collections import deque

import msgspec

from hermetic.contract.limits import EVENTS
from hermetic.contract.process import ProcessEvent
from hermetic.link import answers
from hermetic.link.calls import Listening
from hermetic.link.link import Link

_MISSED = ProcessEvent(event="missed")


class EventStream:
    """Events from the moment it was made; iterate over it, then `aclose` it, or use `async with`."""

    def __init__(self, link: Link, *, control: bool = False) -> None:
        self._link = link
        self._waiting: deque[ProcessEvent] = deque()
        self._came = asyncio.Event()
        self._call = Listening({"op": "events", "control": control}, self._take, self._missed)
        link.send(self._call).add_done_callback(self._ended)

    def __repr__(self) -> str:
        return f"<EventStream of {self._link.environment}>"

    def __aiter__(self) -> "EventStream":
        return self

    async def __anext__(self) -> ProcessEvent:
        while not self._waiting:
            future = self._call.future
            if future.cancelled():
                raise StopAsyncIteration
            if future.done():
                future.result()  # raises EnvironmentUnavailable when the resident is gone
                raise StopAsyncIteration
            self._came.clear()
            await self._came.wait()
        return self._waiting.popleft()

    async def aclose(self) -> None:
        """Ends the stream."""
        if not self._call.future.done():
            self._call.future.cancel()
            self._link.cancel(self._call)

    async def __aenter__(self) -> "EventStream":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _ended(self, future: "asyncio.Future[tuple[answers.Done, bytes]]") -> None:
        """Wakes the reader; without one, the error counts as retrieved."""
        if not future.cancelled():
            future.exception()
        self._came.set()

    def _take(self, fields: msgspec.Raw) -> None:
        news = answers.process_news.decode(fields)
        self._add(ProcessEvent(event=news.event, process=news.process))

    def _missed(self) -> None:
        self._add(_MISSED)

    def _add(self, event: ProcessEvent) -> None:
        """A reader that lags behind by too much gets an event that says so, instead of costing more
        memory.
        """
        if len(self._waiting) >= EVENTS:
            self._waiting.clear()
            event = _MISSED
        self._waiting.append(event)
        self._came.set()
