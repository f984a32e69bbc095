"""Approval requests of one process at the consoles of another: seen at once, answered once, gone
with their process.
"""

import asyncio
import os
import signal
import stat
from pathlib import Path

import pytest

from hermetic.approvals import exchange
from hermetic.approvals.settings import ApprovalSettings
from hermetic.approvals.watching import AlreadyAnswered, ApprovalWatch
from hermetic.config.settings import Settings
from hermetic.contract.approval import Answer, ApprovalRequest
from hermetic.contract.errors import InvalidArgument, UnknownApproval
from tests.approvals.asking import BAD, SECONDS, asking, next_change, pending
from tests.boxes import opened


async def test_a_question_of_another_process_appears_and_its_answer_releases_the_call(
    tmp_path: Path,
) -> None:
    async with ApprovalWatch("one") as one, ApprovalWatch("two") as two, asking(tmp_path) as asker:
        request = await pending(one)
        assert (await pending(two)).id == request.id
        assert (request.command, request.where.pid, request.where.inside) == (
            BAD,
            asker.process.pid,
            False,
        )
        assert request.needs[0].decoded.startswith("rm -rf")
        assert set(request.scope) >= {"once", "deny"}
        seen = asyncio.create_task(next_change(two, "answered"))
        await asyncio.sleep(0)
        await one.answer(request.id, "once")
        answer = await asker.result()
        assert (answer["exit_code"], answer["output"].strip()) == (0, "it ran")
        change = await seen
        assert change.settled is not None
        assert (change.settled.answer, change.settled.by) == ("once", f"one, pid {os.getpid()}")
        assert one.pending() == two.pending() == []
    assert not exchange.exchange_path().exists()


async def test_a_console_that_comes_later_sees_what_waits(tmp_path: Path) -> None:
    async with asking(tmp_path) as asker:
        async with ApprovalWatch("first") as first:
            request = await pending(first)
        async with ApprovalWatch("later") as later:
            assert [one.id for one in later.pending()] == [request.id]
            await later.answer(request.id, "deny", "use the staging host")
        answer = await asker.result()
        assert answer["status"] == "blocked"
        assert "use the staging host" in answer["error"]


async def test_of_many_answers_at_once_the_first_counts_and_the_others_see_it(
    tmp_path: Path,
) -> None:
    async with ApprovalWatch("one") as one, ApprovalWatch("two") as two, asking(tmp_path) as asker:
        id = (await pending(one)).id
        await pending(two)
        watches = (one, two) * 4
        said: tuple[Answer, ...] = ("once", "deny") * 4
        ended = await asyncio.gather(
            *(watch.answer(id, answer) for watch, answer in zip(watches, said, strict=True)),
            return_exceptions=True,
        )
        winners = [one for one in ended if not isinstance(one, BaseException)]
        losers = [one for one in ended if isinstance(one, AlreadyAnswered)]
        assert (len(winners), len(losers)) == (1, 7)
        assert {(loser.settled.answer, loser.settled.by) for loser in losers} == {
            (winners[0].answer, winners[0].by)
        }
        status = (await asker.result()).get("status")
        assert (status == "blocked") == (winners[0].answer == "deny")
        with pytest.raises(AlreadyAnswered, match="answered with"):
            await one.answer(id, "deny")


async def test_a_question_whose_process_was_killed_disappears(tmp_path: Path) -> None:
    async with ApprovalWatch("one") as one:
        async with asking(tmp_path) as asker:
            request = await pending(one)
            gone = asyncio.create_task(next_change(one, "withdrawn"))
            await asyncio.sleep(0)
            asker.process.send_signal(signal.SIGKILL)
            assert (await gone).request.id == request.id
        assert one.pending() == []
        with pytest.raises(UnknownApproval):
            await one.answer(request.id, "once")
        async with ApprovalWatch("later") as later:
            assert later.pending() == []
    assert not exchange.exchange_path().exists()


async def test_without_a_console_nothing_is_asked_and_with_one_everything_is(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as box:
        assert (await box.terminal(BAD))["refused_by"] == "nobody"
        async with ApprovalWatch("one") as one:
            # it watches, and does not answer
            assert (await box.terminal(BAD))["refused_by"] == "nobody"
            with one.attend():
                call = asyncio.create_task(box.terminal(BAD))
                await one.answer((await pending(one)).id, "once")
                assert (await call)["exit_code"] == 0
            assert (await box.terminal(BAD))["refused_by"] == "nobody"


async def test_a_console_can_answer_before_the_programs_own_approver(tmp_path: Path) -> None:
    ended = asyncio.Event()

    async def approver(request: ApprovalRequest) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError

    async with opened(tmp_path, approver=approver) as box, ApprovalWatch("one") as one:
        call = asyncio.create_task(box.terminal(BAD))
        await one.answer((await pending(one)).id, "once")
        async with asyncio.timeout(SECONDS):
            assert (await call)["exit_code"] == 0
            await ended.wait()


async def test_the_programs_own_approver_can_answer_before_a_console(tmp_path: Path) -> None:
    answered = asyncio.Event()

    async def approver(request: ApprovalRequest) -> str:
        await answered.wait()
        return "deny"

    async with opened(tmp_path, approver=approver) as box, ApprovalWatch("one") as one:
        call = asyncio.create_task(box.terminal(BAD))
        request = await pending(one)
        seen = asyncio.create_task(next_change(one, "answered"))
        await asyncio.sleep(0)
        answered.set()
        change = await seen
        assert change.settled is not None
        assert change.settled.by == "the program's own approver"
        assert (await call)["refused_by"] == "user"
        with pytest.raises(AlreadyAnswered):
            await one.answer(request.id, "once")


async def test_a_question_that_was_not_answered_in_time_expires_everywhere(tmp_path: Path) -> None:
    async with ApprovalWatch("one") as one, asking(tmp_path, timeout=1.0) as asker:
        assert (await next_change(one, "expired")).settled is not None
        assert (await asker.result())["refused_by"] == "timeout"


@pytest.mark.parametrize("answer", ["once", "deny"])
async def test_a_question_that_no_call_waits_for_is_answered_for_the_next_try(
    answer: str, tmp_path: Path
) -> None:
    settings = Settings(
        approvals=ApprovalSettings(answers="queue", wait=False, log=str(tmp_path / "log"))
    )
    async with opened(tmp_path, settings=settings) as box, ApprovalWatch("one") as one:
        assert (await box.terminal(BAD))["status"] == "approval_required"
        await one.answer((await pending(one)).id, answer)  # type: ignore[arg-type]
        assert (await box.terminal(BAD)).get("status") == ("blocked" if answer == "deny" else None)


async def test_an_interrupted_call_withdraws_its_question(tmp_path: Path) -> None:
    settings = Settings(approvals=ApprovalSettings(answers="queue", log=str(tmp_path / "log")))
    async with opened(tmp_path, settings=settings) as box, ApprovalWatch("one") as one:
        call = asyncio.create_task(box.terminal(BAD))
        await pending(one)
        seen = asyncio.create_task(next_change(one, "withdrawn"))
        await asyncio.sleep(0)
        box.toolbox.interrupt("t")
        await seen
        await call


async def test_closing_a_toolbox_withdraws_what_waits(tmp_path: Path) -> None:
    settings = Settings(
        approvals=ApprovalSettings(answers="queue", wait=False, log=str(tmp_path / "log"))
    )
    async with ApprovalWatch("one") as one:
        async with opened(tmp_path, settings=settings) as box:
            await box.terminal(BAD)
            await pending(one)
            seen = asyncio.create_task(next_change(one, "withdrawn"))
        await seen
        assert one.pending() == []


async def test_the_directory_is_private_and_goes_with_its_last_file(tmp_path: Path) -> None:
    async with ApprovalWatch("one"):
        mode = exchange.exchange_path().stat().st_mode
        assert stat.S_IMODE(mode) == 0o700
    assert not exchange.exchange_path().exists()


async def test_a_reason_beside_a_yes_and_an_unknown_answer_are_refused(tmp_path: Path) -> None:
    async with ApprovalWatch("one") as one:
        with pytest.raises(InvalidArgument):
            await one.answer("ask_1", "once", "because")
        with pytest.raises(InvalidArgument):
            await one.answer("ask_1", "maybe")  # type: ignore[arg-type]
        with pytest.raises(UnknownApproval):
            await one.answer("ask_1", "once")


async def test_a_command_that_is_no_valid_text_is_shown_with_its_broken_characters_spelled_out(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as box, ApprovalWatch("one") as one:
        with one.attend():
            call = asyncio.create_task(box.terminal(f"{BAD} \udcff"))
            request = await pending(one)
            assert "\\udcff" in request.command
            await one.answer(request.id, "deny")
            await call


async def test_an_answer_to_a_stopped_process_waits_no_longer_than_its_request(
    tmp_path: Path,
) -> None:
    async with ApprovalWatch("one") as one, asking(tmp_path, timeout=3.0) as asker:
        request = await pending(one)
        asker.process.send_signal(signal.SIGSTOP)
        try:
            async with asyncio.timeout(SECONDS):
                with pytest.raises(AlreadyAnswered, match="expired"):
                    await one.answer(request.id, "once")
        finally:
            asker.process.send_signal(signal.SIGCONT)
        assert (await asker.result())["status"] == "blocked"
