"""The queue of open questions: every question gets one answer, from whatever thread it comes."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest

from hermetic.approvals.queue import MOST_OPEN, Queue, Reply
from hermetic.contract.approval import Answer, ApprovalRequest
from hermetic.contract.errors import InvalidArgument, UnknownApproval
from hermetic.policy import assess

REQUEST = ApprovalRequest(
    id="ask_1",
    subject="command",
    command="ls",
    verdict=assess("ls"),
    task="t",
    environment="local",
    needs=(),
    scope={"once": "it", "deny": "nothing"},
    expires=10.0,
)


async def test_of_many_answers_to_one_question_the_first_counts() -> None:
    queue, begin = Queue(lambda: 0.0), threading.Barrier(8)
    future = queue.put(REQUEST)

    def answer(number: int) -> str | None:
        said: Answer = "once" if number % 2 else "deny"
        begin.wait(10)
        try:
            queue.answer("ask_1", said)
        except UnknownApproval:
            return None
        return said

    with ThreadPoolExecutor(8) as pool:
        said = [one for one in pool.map(answer, range(8)) if one is not None]
    async with asyncio.timeout(10):
        assert said == [(await future).answer]


async def test_an_answer_from_another_thread_that_is_too_late_wakes_whoever_waits_with_no() -> None:
    now = [0.0]
    queue = Queue(lambda: now[0])
    future = queue.put(REQUEST)
    now[0] = 11.0

    def late() -> None:
        with pytest.raises(UnknownApproval):
            queue.answer("ask_1", "once")

    async with asyncio.timeout(10):
        waiting = asyncio.create_task(asyncio.to_thread(late))
        assert await future == Reply("deny", "timeout")
        await waiting


async def test_one_question_too_many_is_answered_with_no() -> None:
    queue = Queue(lambda: 0.0)
    for number in range(MOST_OPEN):
        queue.put(msgspec.structs.replace(REQUEST, id=str(number)))
    assert await queue.put(REQUEST) == Reply("deny", "queue full")
    assert len(queue.pending()) == MOST_OPEN


async def test_a_withdrawn_question_and_a_denial_with_a_reason_differ() -> None:
    queue = Queue(lambda: 0.0)
    withdrawn, denied = queue.put(REQUEST), queue.put(msgspec.structs.replace(REQUEST, id="ask_2"))
    queue.withdraw("ask_1")
    queue.answer("ask_2", "deny", "use the staging host")
    async with asyncio.timeout(10):
        assert await withdrawn == Reply("deny", "withdrawn")
        assert await denied == Reply("deny", "user", "use the staging host")


async def test_a_reason_beside_a_yes_is_refused() -> None:
    queue = Queue(lambda: 0.0)
    queue.put(REQUEST)
    with pytest.raises(InvalidArgument, match="deny alone"):
        queue.answer("ask_1", "once", "because")
    assert len(queue.pending()) == 1
