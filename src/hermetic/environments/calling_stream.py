"""Blocking calls from an event loop, one thread each, and a stream that is carried by such calls."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

from hermetic.contract.concurrency import in_thread
from hermetic.contract.limits import CALL
from hermetic.environments.calling_scripts import LEAVE, PULL, PUSH, SAY, NoAnswer, answered, script

T = TypeVar("T")


class BlockingCalls:
    """Runs a blocking function on threads, also concurrently."""

    def __init__(self, call: Callable[[str], tuple[str, int]], cancel: Callable[[], None]) -> None:
        self._call, self._cancel = call, cancel
        self._running: list[threading.Event] = []

    def __repr__(self) -> str:
        return f"<BlockingCalls of {self._call.__qualname__}>"

    async def run(self, work: Callable[[], T]) -> T:
        """The result of `work`. After a cancel its thread goes on, and its result is dropped."""
        ended = threading.Event()
        self._running.append(ended)

        def do() -> T:
            try:
                return work()
            finally:
                self._running.remove(ended)
                ended.set()

        try:
            return await in_thread(do)
        except RuntimeError:
            if ended in self._running:  # no thread could be started: nobody waits for its end
                self._running.remove(ended)
            raise

    async def output(self, text: str) -> tuple[str, int]:
        """What a script prints, and its exit code. Raises the call's own errors."""
        return await self.run(lambda: self._call(text))

    async def ask(self, text: str) -> bytes:
        """The answer of a script. Raises NoAnswer, and the call's own errors."""
        return answered(*await self.output(text))

    async def give_up(self, destroy: Callable[[], None]) -> None:
        """Cancels running calls, waits for their ends, then destroys."""
        before = list(self._running)

        def end() -> None:
            self._suppressed(self._cancel)
            for ended in before:
                ended.wait()
            self._suppressed(destroy)

        await self.run(end)

    def cancel(self) -> None:
        """Cancels running calls."""
        self._suppressed(self._cancel)

    @staticmethod
    def _suppressed(work: Callable[[], object]) -> None:
        with contextlib.suppress(Exception):  # whatever an SDK raises
            work()


class CallStream:
    """A stream to a program there, by calls of the relay that runs it."""

    def __init__(self, calls: BlockingCalls, python: str, relay: str, size: int) -> None:
        self.size = size  # bytes of one write
        self._calls, self._python, self._relay = calls, python, relay
        self._running: set[asyncio.Future[bytes]] = set()
        self._has_ended = False

    def __repr__(self) -> str:
        return f"<CallStream by {self._relay}>"

    async def write(self, data: bytes) -> None:
        """One call. Raises NoAnswer when the relay has exited."""
        await self._say(PUSH, data)

    async def read(self) -> bytes:
        """What the next call brings that brings something; empty at the end."""
        while True:
            if (data := await self._say(PULL)) or self._has_ended:
                return data

    async def close(self) -> None:
        """Ends the relay; returns when no call is left."""
        if not self._has_ended:
            with contextlib.suppress(Exception):  # the program there ends by its silence then
                await self._calls.ask(script(self._python, SAY, self._relay, LEAVE))
        await asyncio.gather(*self._running, return_exceptions=True)

    def _forget(self, call: asyncio.Future[bytes]) -> None:
        """A call has ended. Its error, if any, is taken: nothing may wait for it any more."""
        self._running.discard(call)
        if not call.cancelled():
            call.exception()

    async def _say(self, verb: str, data: bytes = b"") -> bytes:
        text = script(self._python, SAY, self._relay, verb, given=data)
        # shielded: the thread of a call that nothing waits for goes on
        call = asyncio.ensure_future(self._calls.ask(text))
        self._running.add(call)
        call.add_done_callback(self._forget)
        try:
            async with asyncio.timeout(CALL):
                said = await asyncio.shield(call)
        except TimeoutError:
            self._calls.cancel()
            raise
        self._has_ended = self._has_ended or not said.startswith(b"+")
        if self._has_ended and verb == PUSH:
            raise NoAnswer("the relay has ended")
        return said[1:]
