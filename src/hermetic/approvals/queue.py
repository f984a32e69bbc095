"""Open questions: who asks puts them here, who can answer looks here."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from hermetic.approvals.replies import Reply
from hermetic.contract.approval import ANSWERS, Answer, ApprovalRequest
from hermetic.contract.errors import InvalidArgument, UnknownApproval

MOST_OPEN = 1000


class Queue:
    """The questions that wait for an answer, the oldest first; `answer` and `withdraw` may come from any thread."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._open: dict[str, tuple[ApprovalRequest, asyncio.Future[Reply]]] = {}
        self._keys: dict[str, str] = {}  # id → what the question is bound to
        self._listeners: set[asyncio.Queue[ApprovalRequest]] = set()

    def __repr__(self) -> str:
        return f"<Queue: {len(self._open)} open, {len(self._listeners)} listeners>"

    @property
    def is_attended(self) -> bool:
        """Whether somebody listens for questions."""
        return bool(self._listeners)

    def pending(self, task: str | None = None) -> list[ApprovalRequest]:
        """The questions that wait, of one task or of all."""
        self._drop_expired()
        return [request for request, _ in list(self._open.values()) if task in (None, request.task)]

    def answer(self, id: str, answer: Answer, reason: str = "") -> None:
        """Answers a question; `reason` goes with "deny". Raises UnknownApproval when it is over, InvalidArgument."""
        if answer not in ANSWERS:
            raise InvalidArgument(f"the answers are {', '.join(ANSWERS)}, not {answer!r}", argument="answer")
        if reason and answer != "deny":
            raise InvalidArgument(f"a reason goes with deny alone, not with {answer}", argument="reason")
        self._drop_expired()
        self._settle(id, Reply(answer, reason=reason))

    def withdraw(self, id: str) -> None:
        """Takes a question back: what it asked for is not allowed. Raises UnknownApproval."""
        self._settle(id, Reply("deny", "withdrawn"))

    @asynccontextmanager
    async def attend(self) -> AsyncIterator[AsyncIterator[ApprovalRequest]]:
        """Says that somebody is there to answer, and gives the questions as they come, those that wait first."""
        mine: asyncio.Queue[ApprovalRequest] = asyncio.Queue()
        for request in self.pending():
            mine.put_nowait(request)
        self._listeners.add(mine)
        try:
            yield _each(mine)
        finally:
            self._listeners.discard(mine)

    def put(self, request: ApprovalRequest, key: str = "") -> "asyncio.Future[Reply]":
        """Asks; the reply comes into the future. "deny" at once when too many questions are open.

        By its `key`, which nobody is shown, the same question is found again.
        """
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._drop_expired()
        if len(self._open) >= MOST_OPEN:
            future.set_result(Reply("deny", "queue full"))
            return future
        self._open[request.id] = (request, future)
        self._keys[request.id] = key
        for listener in self._listeners:
            listener.put_nowait(request)
        return future

    def find(self, task: str, key: str) -> ApprovalRequest | None:
        """The open question about the very same."""
        return next((request for request in self.pending(task) if self._keys.get(request.id) == key), None)

    def forget(self, id: str) -> None:
        """Nobody waits for this answer any more."""
        self._open.pop(id, None)
        self._keys.pop(id, None)

    def _settle(self, id: str, reply: Reply) -> None:
        if not self._tell(id, reply):
            raise UnknownApproval(f"no question {id!r} waits for an answer: it was answered, withdrawn, or is too old")

    def _tell(self, id: str, reply: Reply) -> bool:
        """False when somebody else was first."""
        _, future = self._open.pop(id, (None, None))
        self._keys.pop(id, None)
        if future is not None:
            with contextlib.suppress(RuntimeError):  # the loop of whoever asked is gone
                future.get_loop().call_soon_threadsafe(_set, future, reply)
        return future is not None

    def _drop_expired(self) -> None:
        for id, (request, _) in list(self._open.items()):
            if request.expires <= self._now():
                self._tell(id, Reply("deny", "timeout"))


def _set(future: "asyncio.Future[Reply]", reply: Reply) -> None:
    if not future.done():
        future.set_result(reply)


async def _each(queue: "asyncio.Queue[ApprovalRequest]") -> AsyncIterator[ApprovalRequest]:
    while True:
        yield await queue.get()
