"""Mutated frames against the client's end: no crash, no hang, no growth."""

import asyncio
import random
import resource
from typing import Any

import msgspec
import pytest

from hermetic.contract.errors import ExecutionError
from hermetic.link import answers
from hermetic.link.calls import Call, Following, Listening
from hermetic.link.link import Link
from hermetic.link.wire import pack_frame
from hermetic.resident.wire.frames import ERROR, EVENT, REPLY
from tests.link.fake_resident import FakeResident
from tests.sizes import scale

INFO = {
    "id": "p1",
    "kind": "process",
    "session": "",
    "command": "sleep 1",
    "pid": 17,
    "pty": False,
    "cwd": "/",
    "started": 1.5,
    "duration": 0.5,
    "state": "ended",
    "ending": ["exited", 0],
    "out": 3,
    "err": None,
    "input": "closed",
}
RAN = {
    "ending": ["exited", 0],
    "duration": 0.1,
    "cwd": "/",
    "notes": ["n"],
    "out": [3, 3, 0],
    "log": "p1",
}

# Good answers to the requests that `ask_everything` sends, by their numbers.
GOOD = [
    pack_frame(REPLY, 1, RAN, b"abc"),
    pack_frame(REPLY, 2, {"processes": 2}, msgspec.msgpack.encode([INFO, INFO])),
    pack_frame(REPLY, 3, {"start": 0, "end": 3, "total": 3, "ended": True}, b"abc"),
    pack_frame(EVENT, 4, {"start": 0}, b"some output"),
    pack_frame(EVENT, 5, {"event": "ended", "process": INFO}),
    pack_frame(REPLY, 6, {"process": INFO, "waiting": None}),
    pack_frame(
        ERROR, 6, {"error": "UnknownProcess", "message": "no such process", "process": "p1"}
    ),
]


def mutate(frame: bytes, chance: random.Random) -> bytes:
    """The frame with a few bytes changed, added, taken away, or moved."""
    data = bytearray(frame)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(data) + 1)
        kind = chance.randrange(5)
        if kind == 0 and at < len(data):
            data[at] = chance.randrange(256)
        elif kind == 1:
            data[at:at] = chance.randbytes(chance.randint(1, 8))
        elif kind == 2:
            del data[at : at + chance.randint(1, 8)]
        elif kind == 3 and at < len(data):
            data[at] ^= 1 << chance.randrange(8)
        else:
            data[at:at] = data[chance.randrange(len(data) + 1) :][:20]
    return bytes(data)


def ask_everything(link: Link) -> list["asyncio.Future[Any]"]:
    """One open request of every shape."""
    calls: list[Call[Any]] = [
        Call({"op": "run"}, answers.ran),
        Call({"op": "list"}, answers.listed),
        Call({"op": "read"}, answers.read_from_log),
        Following("p1", 0, lambda _start, _data: None),
        Listening({"op": "events"}, take_news, lambda: None),
        Call({"op": "status"}, answers.described),
    ]
    return [link.send(call) for call in calls]


def take_news(fields: msgspec.Raw) -> None:
    answers.process_news.decode(fields)


async def try_one(data: bytes) -> int:
    """Sends bytes to a client with open requests, then hangs up; how many requests got an answer."""
    resident = FakeResident()
    link = resident.link()
    await link.open()
    answers_to_come = ask_everything(link)
    await resident.send(data)
    resident.hang_up()
    async with asyncio.timeout(10):
        got = await asyncio.gather(*answers_to_come, return_exceptions=True)
    await link.close()
    failures = [answer for answer in got if isinstance(answer, BaseException)]
    assert all(isinstance(failure, ExecutionError | OSError) for failure in failures), failures
    return len(got) - len(failures)


async def test_good_answers_reach_their_requests() -> None:
    assert [await try_one(frame) for frame in GOOD] == [1, 1, 1, 0, 0, 1, 0]


@pytest.mark.slow
async def test_mutated_frames_end_in_an_answer_or_a_typed_error() -> None:
    chance = random.Random(20)
    count = scale(100_000)
    for _ in range(200):
        await try_one(mutate(chance.choice(GOOD), chance))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    answered = 0
    for _ in range(count):
        answered += await try_one(mutate(chance.choice(GOOD), chance))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert 0 < answered < count  # some mutations are harmless, most are not
    assert grown < 16 * 1024, f"grown by {grown} KiB"
