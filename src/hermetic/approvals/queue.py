"""Queue of pending approval requests, and the reply that each of them gets."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Literal, NamedTuple

from hermetic.contract.approval import ANSWERS, Answer, ApprovalRequest, Denial
from hermetic.contract.errors import InvalidArgument, UnknownApproval

MOST_OPEN = 1000

By = Literal["user", "nobody", "timeout", "withdrawn", "approver failed", "queue full"]

_ELSE = "do it in another way, or tell the user what you need"
_REFUSALS = {
    "timeout": "the user did not answer within {:g} s, which is neither a yes nor a no: "
    f"{_ELSE}, and try again when the user is there",
    "withdrawn": f"the question was withdrawn before the user answered: {_ELSE}",
    "approver failed": f"the user could not be asked, the approver failed: {_ELSE}",
    "queue full": "too many questions wait for the user: try again when some are answered",
    "user": "the user said no: do not try it again",
}


class Reply(NamedTuple):
    """Outcome of a request: the user's answer, or "deny" and why there is no answer."""

    answer: Answer
    by: By = "user"
    reason: str = ""  # the user's, beside "deny"
    who: str = ""  # answered, in words for other consoles

    def refusal(self, seconds: float) -> str:
        """Why it is not allowed, for a model; `seconds` is the time there was for an answer."""
        if self.by == "nobody":
            return self.reason
        if self.reason:
            return f"the user said no: {self.reason}; follow that, and do not try this again"
        return _REFUSALS[self.by].format(seconds)


def reply_of(said: object) -> Reply:
    """An approver's return value as a reply; a value that is no answer means that the approver
    failed.
    """
    who = "the program's own approver"
    if isinstance(said, Denial):
        return Reply("deny", said.by, said.reason, who)
    known = next((answer for answer in ANSWERS if answer == said), None)
    return Reply("deny", "approver failed") if known is None else Reply(known, who=who)


def check_answer(answer: str, reason: str = "") -> None:
    """Raises InvalidArgument for what is no answer."""
    if answer not in ANSWERS:
        raise InvalidArgument(
            f"the answers are {', '.join(ANSWERS)}, not {answer!r}", argument="answer"
        )
    if reason and answer != "deny":
        raise InvalidArgument(
            f"a reason goes with deny alone, not with {answer}", argument="reason"
        )


class _Pending(NamedTuple):
    request: ApprovalRequest
    key: str
    reply: "asyncio.Future[Reply]"


class Queue:
    """Requests that wait for an answer, the oldest first.

    Threads may call `answer` and `withdraw`.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._open: dict[str, _Pending] = {}
        self._listeners: set[asyncio.Queue[ApprovalRequest]] = set()

    def __repr__(self) -> str:
        return f"<Queue: {len(self._open)} open, {len(self._listeners)} listeners>"

    @property
    def is_attended(self) -> bool:
        """Whether there is a listener for requests."""
        return bool(self._listeners)

    def pending(self, task: str | None = None) -> list[ApprovalRequest]:
        """The requests that wait, of one task or of all."""
        self.drop_expired()
        return [
            one.request for one in list(self._open.values()) if task in (None, one.request.task)
        ]

    def answer(self, id: str, answer: Answer, reason: str = "", *, who: str = "") -> None:
        """Answers a request; `reason` goes with "deny".

        Raises UnknownApproval when it is over, InvalidArgument.
        """
        check_answer(answer, reason)
        self.drop_expired()
        self.settle(id, Reply(answer, reason=reason, who=who))

    def withdraw(self, id: str) -> None:
        """Withdraws a request: what it asked for is not allowed. Raises UnknownApproval."""
        self.settle(id, Reply("deny", "withdrawn"))

    @asynccontextmanager
    async def attend(self) -> AsyncIterator[AsyncIterator[ApprovalRequest]]:
        """Requests as they come, the pending ones first.

        While the block lasts, there is a listener.
        """
        mine: asyncio.Queue[ApprovalRequest] = asyncio.Queue()
        for request in self.pending():
            mine.put_nowait(request)
        self._listeners.add(mine)
        try:
            yield _each(mine)
        finally:
            self._listeners.discard(mine)

    def put(self, request: ApprovalRequest, key: str = "") -> "asyncio.Future[Reply]":
        """Adds a request; the future gets the reply. "deny" at once when too many requests are
        open.

        By its `key`, which is not shown, the same request is found again.
        """
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self.drop_expired()
        if len(self._open) >= MOST_OPEN:
            future.set_result(Reply("deny", "queue full"))
            return future
        self._open[request.id] = _Pending(request, key, future)
        for listener in self._listeners:
            listener.put_nowait(request)
        return future

    def find(self, key: str) -> ApprovalRequest | None:
        """The pending request with this key."""
        self.drop_expired()
        return next((one.request for one in self._open.values() if one.key == key), None)

    def forget(self, id: str) -> None:
        """Drops a request whose answer is not waited for any more."""
        if pending := self._open.pop(id, None):
            pending.reply.cancel()

    def settle(self, id: str, reply: Reply) -> None:
        """Ends a request with its reply; the first one counts.

        Raises UnknownApproval when it is over.
        """
        pending = self._open.pop(id, None)
        if pending is None:
            raise UnknownApproval(
                f"no question {id!r} waits for an answer: it was answered, withdrawn, or is too old"
            )
        with contextlib.suppress(RuntimeError):  # the loop of the caller that asked is closed
            pending.reply.get_loop().call_soon_threadsafe(_set, pending.reply, reply)

    def drop_expired(self) -> None:
        """Ends the requests whose time is over."""
        for id, one in list(self._open.items()):
            if one.request.expires <= self._now():
                with contextlib.suppress(UnknownApproval):  # another thread was first
                    self.settle(id, Reply("deny", "timeout"))


def _set(future: "asyncio.Future[Reply]", reply: Reply) -> None:
    if not future.done():
        future.set_result(reply)


async def _each(queue: "asyncio.Queue[ApprovalRequest]") -> AsyncIterator[ApprovalRequest]:
    while True:
        yield await queue.get()
