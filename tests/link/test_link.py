"""The link against a resident that breaks off or lies."""

import asyncio

import pytest

from hermetic.contract import limits
from hermetic.contract.errors import (
    EnvironmentUnavailable,
    InvalidArgument,
    UnknownProcess,
    Unreachable,
)
from hermetic.link import answers
from hermetic.link.calls import Call, Following, Viewing
from hermetic.link.connection import Misbehaved
from hermetic.link.failures import Abandoned, ResidentGone, Stalled
from hermetic.link.link import FRUITLESS_CONNECTIONS, Link
from hermetic.link.wire import pack_frame
from hermetic.resident.wire.frames import CREDIT, ERROR, EVENT, REPLY, LogPieces
from tests.link.fake_resident import FakeResident

# To a request with the number 1.
LIES = {
    "a reply of another shape": pack_frame(REPLY, 1, {"processes": "five"}),
    "a reply to nothing": pack_frame(REPLY, 99, {}),
    "an event for a plain request": pack_frame(EVENT, 1, {"start": 0}, b"x"),
    "a frame only clients send": pack_frame(CREDIT, 1, {"n": 1}),
    "an unknown kind": pack_frame(77, 1, {}),
    "no frame at all": b"\xff" * 64,
    "an error without a name": pack_frame(ERROR, 1, {"message": "x"}),
    "a field that is not text": pack_frame(ERROR, 1, {"error": "X", "message": b"\xff"}),
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
async def test_a_lie_ends_the_link_and_says_so(lie: bytes) -> None:
    resident = FakeResident()
    link = resident.link()
    await link.open()
    question = asyncio.ensure_future(link.ask("list", answers.listed))
    await asyncio.sleep(0)
    await resident.send(lie)
    with pytest.raises(Misbehaved, match="misbehaved"):
        await question
    with pytest.raises(Misbehaved):
        await link.ask("list", answers.listed)
    assert resident.dialled == 1  # it is not asked again
    await link.close()
    resident.hang_up()


@pytest.mark.parametrize(
    ("greeting", "error"),
    [
        (pack_frame(REPLY, 0, {"version": 1}), Misbehaved),
        (pack_frame(REPLY, 0, {"version": 9, "resident": "r", "pid": 1}), Misbehaved),
        (pack_frame(REPLY, 3, {"version": 1, "resident": "r", "pid": 1}), Misbehaved),
        (
            pack_frame(ERROR, 0, {"error": "EnvironmentUnavailable", "message": "too old"}),
            EnvironmentUnavailable,
        ),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", Misbehaved),
    ],
    ids=["incomplete", "a version not offered", "another number", "refused", "not a resident"],
)
async def test_a_bad_greeting_is_an_error_and_leaves_nothing_open(
    greeting: bytes, error: type[Exception]
) -> None:
    resident = FakeResident(greeting)
    with pytest.raises(error):
        await resident.link().open()
    resident.hang_up()


async def test_errors_are_what_the_resident_named() -> None:
    resident = FakeResident()
    link = resident.link()
    await link.open()
    questions = [asyncio.ensure_future(link.ask("list", answers.listed)) for _ in range(4)]
    await asyncio.sleep(0)
    await resident.send(
        pack_frame(ERROR, 1, {"error": "UnknownProcess", "message": "m", "process": "p1"})
    )
    await resident.send(
        pack_frame(ERROR, 2, {"error": "InvalidArgument", "message": "m", "argument": "cwd"})
    )
    await resident.send(
        pack_frame(ERROR, 3, {"error": "FileNotFoundError", "message": "no such file: x"})
    )
    await resident.send(pack_frame(ERROR, 4, {"error": "SystemExit", "message": "m"}))
    unknown, invalid, missing, other = await asyncio.gather(*questions, return_exceptions=True)
    assert isinstance(unknown, UnknownProcess)
    assert unknown.process_id == "p1"
    assert isinstance(invalid, InvalidArgument)
    assert invalid.argument == "cwd"
    assert isinstance(missing, FileNotFoundError)
    assert str(other) == "SystemExit: m"
    await link.close()
    resident.hang_up()


async def test_a_resident_that_is_gone_fails_every_open_request_at_once() -> None:
    resident = FakeResident()
    link = resident.link()
    await link.open()
    questions = [asyncio.ensure_future(link.ask("list", answers.listed)) for _ in range(5)]
    await asyncio.sleep(0)
    resident.hang_up()
    failed = await asyncio.gather(*questions, return_exceptions=True)
    assert [type(error) for error in failed] == [ResidentGone] * 5
    assert resident.dialled == 2
    await link.close()


async def test_output_that_goes_backwards_is_a_lie() -> None:
    resident = FakeResident()
    link = resident.link()
    await link.open()
    came: list[tuple[int, bytes]] = []
    following = Following("p1", 0, lambda start, data: came.append((start, data)))
    end = link.send(following)
    await resident.send(
        pack_frame(EVENT, 1, {"start": 0}, b"abc") + pack_frame(EVENT, 1, {"start": 9}, b"x")
    )
    await resident.send(pack_frame(EVENT, 1, {"start": 2}, b"c"))
    with pytest.raises(Misbehaved, match="again"):
        await end
    assert came == [(0, b"abc"), (9, b"x")]
    await link.close()
    resident.hang_up()


async def test_a_cancelled_question_may_still_be_answered() -> None:
    resident = FakeResident()
    link = resident.link()
    await link.open()
    question = asyncio.ensure_future(link.ask("list", answers.listed))
    await asyncio.sleep(0)
    question.cancel()
    with pytest.raises(asyncio.CancelledError):
        await question
    await resident.send(
        pack_frame(REPLY, 1, {"processes": 0}) + pack_frame(REPLY, 2, {"processes": 0})
    )
    said, _ = await link.ask("list", answers.listed)
    assert said.processes == 0
    await link.close()
    resident.hang_up()


async def test_a_broken_way_is_tried_anew_until_it_is_mended() -> None:
    resident = FakeResident(hangs_up_at_first=True)
    link = resident.link()
    await link.open()
    question = asyncio.ensure_future(link.ask("list", answers.listed))
    await asyncio.sleep(0)
    resident.fails = [Unreachable("no route")] * 3
    resident.hang_up()
    async with asyncio.timeout(20):
        await resident.reached.wait()
        await resident.hears(b"list")
    await resident.send(pack_frame(REPLY, 1, {"processes": 0}))
    assert (await question)[0].processes == 0
    assert resident.dialled == 5
    await link.close()
    resident.hang_up()


async def test_a_way_that_brings_one_piece_each_time_is_not_given_up() -> None:
    resident = FakeResident(hangs_up_at_first=True)
    link = resident.link()
    await link.open()
    came = asyncio.Queue[int]()
    view = Viewing("p1", 0, lambda start, data: came.put_nowait(start), until=100, pace=False)
    end = link.send(view)
    async with asyncio.timeout(20):
        for at in range(FRUITLESS_CONNECTIONS + 3):
            await resident.hears(b"follow")
            resident.reached.clear()
            await resident.send(b"".join(LogPieces(view.id).parts(at, b"k")))
            assert await came.get() == at
            resident.hang_up()
            await resident.reached.wait()
    assert not end.done()
    await link.close()
    resident.hang_up()
    with pytest.raises(EnvironmentUnavailable, match="was closed"):
        await end


async def test_a_way_that_stays_broken_is_given_up_and_the_error_says_after_how_long() -> None:
    resident = FakeResident()
    link = resident.link(patience=1)
    await link.open()
    question = asyncio.ensure_future(link.ask("list", answers.listed))
    await asyncio.sleep(0)
    resident.fails = [Unreachable("no route")] * 100
    resident.hang_up()
    async with asyncio.timeout(20):
        with pytest.raises(
            Unreachable, match=r"for [01] s no new one could be made \(no route\).*attach"
        ):
            await question
    assert 3 <= resident.dialled <= 6  # pauses of 0.1, 0.2, 0.4 … seconds
    with pytest.raises(ResidentGone):
        await link.ask("list", answers.listed)
    await link.close()


async def test_closing_ends_the_trying() -> None:
    resident = FakeResident()
    link = resident.link()
    await link.open()
    question = asyncio.ensure_future(link.ask("list", answers.listed))
    await asyncio.sleep(0)
    resident.fails = [Unreachable("no route")] * 100
    resident.hang_up()
    await asyncio.sleep(0.05)
    async with asyncio.timeout(5):
        await link.close()
    with pytest.raises(EnvironmentUnavailable, match="was closed"):
        await question


async def test_a_link_that_ended_while_it_tried_keeps_no_connection() -> None:
    """As when an answer from before the break turns out to be invalid."""
    resident = FakeResident(hangs_up_at_first=True)
    link = resident.link()
    await link.open()
    link.drop("the test breaks it")
    link.distrust("it lied")
    async with asyncio.timeout(5):
        await resident.reached.wait()
        await resident.is_left()
    await link.close()
    resident.hang_up()


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks and limits are a tenth as long."""
    monkeypatch.setattr("hermetic.link.link.LOOK", 0.1)
    for name in ("link.OVERDUE", "link.PING", "link.RECONNECT_PAUSE", "connection.GREETING"):
        monkeypatch.setattr(f"hermetic.link.{name}", getattr(limits, name.partition(".")[2]) / 10)


@pytest.mark.usefixtures("soon")
async def test_the_callers_clock_ends_what_a_silent_resident_was_asked_and_it_may_come_back() -> (
    None
):
    resident, told = FakeResident(), list[bool]()
    link = Link(resident.dial, b"token", environment="fake", silence=0.5, on_stall=told.append)
    await link.open()
    async with asyncio.timeout(20):
        with pytest.raises(Stalled, match="may still be done") as caught:
            await link.ask("list", answers.listed)
    assert caught.value.state == "stalled"
    with pytest.raises(Stalled, match="nothing was sent"):
        await link.ask("list", answers.listed)
    assert told == [True]
    await resident.hears(b"ping")
    later = asyncio.ensure_future(link.ask("list", answers.listed))
    await asyncio.sleep(0)
    assert (link.requests, later.done()) == (2, False)  # it waits for a sign of life
    await resident.send(pack_frame(REPLY, 2, {}))
    await resident.hears(b"list")
    await resident.send(pack_frame(REPLY, 3, {"processes": 4}))
    assert (await later)[0].processes == 4
    assert told == [True, False]
    await link.close()
    resident.hang_up()


@pytest.mark.usefixtures("soon")
async def test_a_slow_answer_is_waited_for_while_the_resident_shows_that_it_lives() -> None:
    resident = FakeResident()
    link = Link(resident.dial, b"token", environment="fake", silence=0.5)
    await link.open()
    question = asyncio.ensure_future(link.ask("list", answers.listed))
    async with asyncio.timeout(20):
        for number in range(2, 6):
            await resident.hears(b"ping")
            await resident.send(pack_frame(REPLY, number, {}))
    assert not question.done()
    await resident.send(pack_frame(REPLY, 1, {"processes": 0}))
    assert (await question)[0].processes == 0
    await link.close()
    resident.hang_up()


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_a_command_that_a_living_resident_never_answers_is_given_up(
    is_cancelled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hermetic.link.link.ABANDONED", 0.5)
    resident = FakeResident()
    link = Link(resident.dial, b"token", environment="fake", silence=0.5)
    await link.open()
    call = Call({"op": "run", "timeout": None if is_cancelled else 0.1}, answers.ran)
    answer = link.send(call)
    slow = asyncio.ensure_future(link.ask("list", answers.listed))
    stopped = asyncio.ensure_future(link.stop(call)) if is_cancelled else None
    async with asyncio.timeout(20):
        number = 3
        while not (stopped or answer).done():
            await resident.hears(b"ping")
            await resident.send(pack_frame(REPLY, number, {}))
            number += 1
    if stopped is not None:
        assert await stopped is None
    else:
        with pytest.raises(Abandoned, match="time is long over") as caught:
            await answer
        assert caught.value.state == "stalled"
    assert not slow.done()
    assert not link.is_over
    slow.cancel()
    await link.close()
    resident.hang_up()


@pytest.mark.usefixtures("soon")
async def test_the_callers_clock_runs_while_a_silent_resident_is_greeted_again_and_again() -> None:
    resident = FakeResident(hangs_up_at_first=True)
    link = Link(resident.dial, b"token", environment="fake", silence=0.8)
    await link.open()
    question = asyncio.ensure_future(link.ask("list", answers.listed))
    await asyncio.sleep(0)
    resident.greeting = b""
    resident.hang_up()
    async with asyncio.timeout(20):
        with pytest.raises(Stalled):
            await question
    assert not link.is_over  # the resident may answer yet
    await link.close()
    resident.hang_up()


async def test_one_who_hangs_up_instead_of_greeting_is_gone_after_three_times() -> None:
    resident = FakeResident(hangs_up_at_first=True)
    link = resident.link()
    await link.open()
    question = asyncio.ensure_future(link.ask("list", answers.listed))
    await asyncio.sleep(0)
    resident.greeting = None
    resident.hang_up()
    async with asyncio.timeout(20):
        with pytest.raises(ResidentGone, match="instead of answering"):
            await question
    assert resident.dialled == 4
    await link.close()
