"""Pending approval requests of all processes of this user, as a console sees and answers them."""

import asyncio
import contextlib
import logging
import os
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Literal, NamedTuple, Self

import msgspec

from hermetic.approvals import exchange
from hermetic.approvals.exchange import Give, Listed, Message, Refused, Settled, SharedRequest
from hermetic.approvals.queue import check_answer
from hermetic.contract.approval import Answer
from hermetic.contract.errors import NotPermitted, UnknownApproval
from hermetic.registry.directory_watch import DirectoryWatch
from hermetic.registry.peers import is_inside, peer_of

MOST_REMEMBERED = 1000  # settled requests, for answers that come too late
LISTING = 2.0  # seconds for the processes that ask to say what they ask
MOST_UNTAKEN = 10_000  # changes for a subscriber that does not take them
# Of one process. What it asks beyond that is not shown, and other processes are not affected.
MOST_PENDING = 1000  # requests
MOST_BYTES = 16 << 20  # of its requests
MOST_SOCKETS = 16
MESSAGES_A_SECOND = 200
MOST_REASON = 1000  # characters of the reason of a settled request
_ID = re.compile(r"[\w-]{1,64}", re.ASCII)
_log = logging.getLogger("hermetic.approvals")


class AlreadyAnswered(UnknownApproval):
    """Another answer was first."""

    def __init__(self, settled: Settled) -> None:
        super().__init__(f"the question {settled.id} does not wait any more: {settled.described()}")
        self.settled = settled


class Change(NamedTuple):
    """One change of what is pending."""

    change: Literal["asked", "answered", "expired", "withdrawn"]
    request: SharedRequest
    settled: Settled | None = None  # unless it is "asked"


class _Publisher:
    """The connection to one process that asks."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.writer: asyncio.StreamWriter | None = None
        self.pending: dict[str, SharedRequest] = {}
        self.listed = asyncio.Event()  # what is pending is known, or that it cannot be
        self.task: asyncio.Task[None] | None = None
        self.whence: dict[str, int] = {}  # fields of `Where`, by the kernel's account
        self.sizes: dict[str, int] = {}  # bytes of what is pending
        self.expected = 0  # requests that it still has to list
        self.is_flooding = False


class ApprovalWatch:
    """Use it in `async with`. A console that lets a person answer also enters `attend`."""

    def __init__(self, name: str) -> None:
        """`name`: of the console, for other consoles and the journal."""
        self._name = name
        self._publishers: dict[str, _Publisher] = {}
        self._settled: OrderedDict[str, Settled] = OrderedDict()
        self._waiting: dict[str, set[asyncio.Future[Settled]]] = {}
        self._subscribers: set[asyncio.Queue[Change | None]] = set()
        self._attending = 0
        self._attends: tuple[Path, int] | None = None
        self.refused = ""  # why requests are not shown to this process

    def __repr__(self) -> str:
        return f"<ApprovalWatch of {self._name}: {len(self.pending())} pending>"

    async def __aenter__(self) -> Self:
        """Returns when all that is pending is known. Raises ConfigError, OSError."""
        self._held = exchange.hold(exchange.WATCH)  # as long as it is there, the directory is
        try:
            self._watch = DirectoryWatch(self.look)
            self._watch.watch(exchange.exchange_path())
        except BaseException:
            _release(self._held)
            raise
        self.look()
        await self._listed()
        return self

    async def _listed(self) -> None:
        # a process that is stopped does not answer
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LISTING):
                for publisher in list(self._publishers.values()):
                    await publisher.listed.wait()

    async def __aexit__(self, *_: object) -> None:
        self._watch.close()
        tasks = [
            publisher.task for publisher in self._publishers.values() if publisher.task is not None
        ]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._attends is not None:
            _release(self._attends)
        _release(self._held)
        for subscriber in self._subscribers:
            subscriber.put_nowait(None)

    def pending(self) -> list[SharedRequest]:
        """The oldest first."""
        found = [
            request
            for publisher in self._publishers.values()
            for request in publisher.pending.values()
        ]
        return sorted(found, key=lambda request: (request.asked, request.id))

    @contextmanager
    def attend(self) -> Iterator[None]:
        """While a block lasts, a person can answer: toolboxes without an approver of their own ask
        too.
        """
        if self._attends is None:
            self._attends = exchange.hold(exchange.ATTENDS)
        self._attending += 1
        try:
            yield
        finally:
            self._attending -= 1
            if not self._attending and self._attends is not None:
                _release(self._attends)
                self._attends = None

    @asynccontextmanager
    async def changes(self) -> AsyncIterator[AsyncIterator[Change]]:
        """Changes from now on. They end when the watch does, or when too many were not taken."""
        mine: asyncio.Queue[Change | None] = asyncio.Queue()
        self._subscribers.add(mine)
        try:
            yield _each(mine)
        finally:
            self._subscribers.discard(mine)

    async def answer(self, id: str, answer: Answer, reason: str = "", *, by: str = "") -> Settled:
        """Answers a request; `reason` goes with "deny". Of several answers the first counts.

        Raises AlreadyAnswered, UnknownApproval, InvalidArgument, and NotPermitted inside an
        environment.
        """
        check_answer(answer, reason)
        publisher = next((one for one in self._publishers.values() if id in one.pending), None)
        if publisher is None or publisher.writer is None:
            if settled := self._settled.get(id):
                raise AlreadyAnswered(settled)
            raise (
                NotPermitted(self.refused)
                if self.refused
                else UnknownApproval(
                    f"no question {id!r} waits; `hermetic approvals` lists those that do"
                )
            )
        token = secrets.token_hex(8)
        waiting = self._waiting.setdefault(id, set())
        done: asyncio.Future[Settled] = asyncio.get_running_loop().create_future()
        waiting.add(done)
        try:
            give = Give(id=id, answer=answer, reason=reason, name=by or self._name, token=token)
            publisher.writer.write(exchange.packed(give))
            async with asyncio.timeout(
                max(0.0, publisher.pending[id].expires - time.time()) + LISTING
            ):
                settled = await done
        except TimeoutError:  # its process is stopped; the answer comes too late
            raise AlreadyAnswered(Settled(id=id, outcome="expired")) from None
        finally:
            waiting.discard(done)
            if not waiting:
                self._waiting.pop(id, None)
        if settled.token != token:
            raise AlreadyAnswered(settled)
        return settled

    # -- the processes that ask
    def look(self) -> None:
        """Connects to the sockets that are new.

        The kernel reports them; where it has no watch left, call this.
        """
        for name in exchange.names():
            if name.startswith(exchange.SOCKET) and name not in self._publishers:
                publisher = _Publisher(exchange.exchange_path() / name)
                self._publishers[name] = publisher
                publisher.task = asyncio.create_task(self._follow(publisher))

    async def _follow(self, publisher: _Publisher) -> None:
        """Takes over what a process asks, until it has no more requests or ends."""
        try:
            reader, publisher.writer = await asyncio.open_unix_connection(
                str(publisher.path), limit=exchange.MOST_MESSAGE
            )
            try:
                pid = peer_of(publisher.writer.get_extra_info("socket")).pid
                publisher.whence = {"pid": pid, "inside": is_inside(pid)}
                if len(self._of_process(pid)) > MOST_SOCKETS:
                    _log.warning(
                        "process %d has too many sockets for approval requests: one is not used",
                        pid,
                    )
                    return
                async for line in _slowly(reader):
                    self._take(publisher, exchange.read_message(line), len(line))
            finally:
                publisher.writer.close()
                with contextlib.suppress(OSError):
                    await publisher.writer.wait_closed()
        except ConnectionRefusedError:  # its process was killed
            with contextlib.suppress(OSError):
                exchange.remove(publisher.path)
        except (OSError, ValueError, msgspec.MsgspecError):  # it ends, or is no publisher
            pass
        finally:
            self._publishers.pop(publisher.path.name, None)
            publisher.listed.set()
            for id in list(publisher.pending):
                self._settle(publisher, Settled(id=id, outcome="withdrawn"))

    def _of_process(self, pid: int) -> list[_Publisher]:
        return [one for one in self._publishers.values() if one.whence.get("pid") == pid]

    def _take(self, publisher: _Publisher, message: Message, size: int) -> None:
        if isinstance(message, Settled):
            self._settle(publisher, message)
        elif isinstance(message, Refused):
            self.refused = message.why
            publisher.listed.set()
            for id in list(publisher.pending):
                self._refuse(id)
        elif isinstance(message, Listed):
            publisher.expected = message.count
        else:
            self._add(publisher, message.request, size)
            publisher.expected -= 1
        if publisher.expected <= 0:
            publisher.listed.set()

    def _add(self, publisher: _Publisher, request: SharedRequest, size: int) -> None:
        if not _ID.fullmatch(request.id):
            raise ValueError("no publisher of ours makes such an id")
        if other := next(
            (one for one in self._publishers.values() if request.id in one.pending), None
        ):
            # The answer to one question must not reach another. One from inside an environment
            # gives way.
            if publisher.whence["inside"] or not other.whence["inside"]:
                return
            self._settle(other, Settled(id=request.id, outcome="withdrawn"))
        sizes = [
            bytes
            for one in self._of_process(publisher.whence["pid"])
            for bytes in one.sizes.values()
        ]
        if len(sizes) >= MOST_PENDING or sum(sizes) + size > MOST_BYTES:
            if not publisher.is_flooding:
                _log.warning(
                    "process %d asks too much at once: not all is shown", publisher.whence["pid"]
                )
            publisher.is_flooding = True
            return
        where = msgspec.structs.replace(request.where, **publisher.whence)
        request = msgspec.structs.replace(request, where=where)
        publisher.pending[request.id], publisher.sizes[request.id] = request, size
        self._tell(Change("asked", request))

    def _settle(self, publisher: _Publisher, settled: Settled) -> None:
        request = publisher.pending.pop(settled.id, None)
        if request is None:  # settled before, or not its own
            return
        del publisher.sizes[settled.id]
        settled = msgspec.structs.replace(settled, reason=settled.reason[:MOST_REASON])
        self._settled[settled.id] = settled
        if len(self._settled) > MOST_REMEMBERED:
            self._settled.popitem(last=False)
        for done in self._waiting.get(settled.id, ()):
            if not done.done():
                done.set_result(settled)
        self._tell(Change(settled.outcome, request, settled))

    def _refuse(self, id: str) -> None:
        for done in self._waiting.get(id, ()):
            if not done.done():
                done.set_exception(NotPermitted(self.refused))

    def _tell(self, change: Change) -> None:
        for subscriber in list(self._subscribers):
            subscriber.put_nowait(change)
            if subscriber.qsize() > MOST_UNTAKEN:
                self._subscribers.discard(subscriber)
                subscriber.put_nowait(None)


async def _slowly(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Its lines. One that writes without a pause is read no faster than a fixed rate."""
    began, count = time.monotonic(), 0
    while line := await reader.readline():
        yield line
        count += 1
        if count == MESSAGES_A_SECOND:
            await asyncio.sleep(began + 1.0 - time.monotonic())
            began, count = time.monotonic(), 0


def _release(held: tuple[Path, int]) -> None:
    path, fd = held
    with contextlib.suppress(OSError):
        exchange.remove(path)
    os.close(fd)


async def _each(queue: "asyncio.Queue[Change | None]") -> AsyncIterator[Change]:
    while (change := await queue.get()) is not None:
        yield change
