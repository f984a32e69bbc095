"""Blocking calls from an event loop, one thread each, and a stream that is carried by such calls."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

from hermetic.contract.limits import CALL
from hermetic.environments.calling_scripts import LEAVE, PULL, PUSH, SAY, NoAnswer, answered, script

T = TypeVar("T")


class BlockingCalls:
    """Runs a blocking function on threads, also concurrently."""

    def __init__(self, call: Callable[[str], tuple[str, int]], cancel: Callable[[], None]) -> None:
        self._call, self._cancel = call, cancel
        self._threads: list[threading.Thread] = []

    def __repr__(self) -> str:
        return f"<BlockingCalls of {self._call.__qualname__}>"

    async def run(self, work: Callable[[], T]) -> T:
        """The result of `work`. After a cancel its thread goes on, and its result is dropped."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def tell(set_it: Callable[[], None]) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(lambda: None if future.done() else set_it())

        def do() -> None:
            try:
                result = work()
            except BaseException as error:
                failure = error  # the name `error` ends with the handler
                tell(lambda: future.set_exception(failure))
            else:
                tell(lambda: future.set_result(result))

        self._begin(do)
        return await future

    async def ask(self, text: str) -> bytes:
        """The answer of a script. Raises NoAnswer, and the call's own errors."""
        return await self.run(lambda: self.ask_now(text))

    async def output(self, text: str) -> str:
        """What a script of the shell prints. Raises the call's own errors."""
        return (await self.run(lambda: self._call(text)))[0]

    def ask_now(self, text: str) -> bytes:
        """The same, for a thread that may wait."""
        return answered(*self._call(text))

    def tell(self, text: str) -> None:
        """Runs a script without waiting for it."""
        self._begin(lambda: self._suppressed(lambda: self._call(text)))

    async def give_up(self, destroy: Callable[[], None], seconds: float) -> None:
        """Cancels running calls, then destroys; waits for both at most so many seconds."""
        before = list(self._threads)

        def end() -> None:
            self._suppressed(self._cancel)
            for thread in before:
                thread.join()
            self._suppressed(destroy)

        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await asyncio.shield(asyncio.ensure_future(self.run(end)))

    def cancel(self) -> None:
        """Cancels running calls."""
        self._suppressed(self._cancel)

    def _begin(self, work: Callable[[], object]) -> None:
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        thread = threading.Thread(target=work, daemon=True, name="hermetic-call")
        self._threads.append(thread)
        thread.start()

    @staticmethod
    def _suppressed(work: Callable[[], object]) -> None:
        with contextlib.suppress(Exception):  # whatever an SDK raises
            work()


def carry(calls: BlockingCalls, python: str, relay: str, size: int) -> socket.socket:
    """A non-blocking stream whose other end is the relay that listens there. Closing it ends the
    relay.

    A call runs `python` there and carries at most `size` bytes.
    """
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    stream = _Stream(calls, python, relay, theirs, size)
    threading.Thread(target=stream.push, daemon=True, name="hermetic-push").start()
    threading.Thread(target=stream.pull, daemon=True, name="hermetic-pull").start()
    return ours


class _Stream:
    """The local end of a carried stream.

    `push` and `pull` run on threads and end when either side does.
    """

    def __init__(
        self, calls: BlockingCalls, python: str, relay: str, end: socket.socket, size: int
    ) -> None:
        self._calls, self._python, self._relay, self._end, self._size = (
            calls,
            python,
            relay,
            end,
            size,
        )
        self._ended = threading.Semaphore(0)
        self._is_relayed = True

    def push(self) -> None:
        """Carries bytes from here to the relay."""
        with self._ending(), contextlib.suppress(Exception):
            while data := self._end.recv(self._size):
                self._say(PUSH, data)
        if self._is_relayed:
            self._calls.tell(script(self._python, SAY, self._relay, LEAVE))
        self._ended.acquire()
        self._end.close()

    def pull(self) -> None:
        """Carries bytes from the relay to here."""
        with self._ending(), contextlib.suppress(Exception):
            while True:
                self._end.sendall(self._say(PULL))
        self._ended.release()

    def _say(self, verb: str, data: bytes = b"") -> bytes:
        """Raises NoAnswer when the relay is gone."""
        overdue = threading.Timer(CALL, self._give_up)
        overdue.daemon = True
        overdue.start()
        try:
            said = self._calls.ask_now(script(self._python, SAY, self._relay, verb, given=data))
        finally:
            overdue.cancel()
        if not said.startswith(b"+"):
            self._is_relayed = False
            raise NoAnswer("the relay has ended")
        return said[1:]

    def _give_up(self) -> None:
        self._calls.cancel()
        self._shut()

    @contextlib.contextmanager
    def _ending(self) -> Iterator[None]:
        try:
            yield
        finally:
            self._shut()

    def _shut(self) -> None:
        with contextlib.suppress(OSError):
            self._end.shutdown(socket.SHUT_RDWR)
