"""Agents that a person stops: frozen or ended, their calls held, and everything goes on after the
release.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import hermetic
from hermetic.approvals.watching import ApprovalWatch
from hermetic.contract.approval import ApprovalRequest
from hermetic.contract.process import PERSON
from hermetic.fleet.stopping import release, stop
from hermetic.registry import holds
from hermetic.registry.host_process import is_stopped
from hermetic.registry.records import Records, id_for_task, runtime_root
from tests.approvals.asking import BAD, pending
from tests.boxes import everywhere, opened

COUNTS = "i=0; while :; do i=$((i+1)); echo $i > {0}.new; mv {0}.new {0}; sleep 0.01; done"
SECONDS = 60.0


@asynccontextmanager
async def released() -> AsyncIterator[Records]:
    """The records; nothing stays stopped after the block."""
    records = Records(runtime_root())
    try:
        yield records
    finally:
        await release(records, None)


def number(path: Path) -> int:
    return int(path.read_text())


async def until(check: Callable[[], bool]) -> None:
    """Returns when the check says yes."""
    async with asyncio.timeout(SECONDS):
        while not check():  # noqa: ASYNC110  # no event tells
            await asyncio.sleep(0.02)


async def moves_on(path: Path) -> None:
    """Returns when the counter in a file has moved."""
    await until(path.exists)
    before = number(path)
    await until(lambda: number(path) != before)


async def stands_still(path: Path) -> bool:
    """Whether a counter that moves every 10 ms does not move for half a second."""
    before = number(path)
    await asyncio.sleep(0.5)
    return number(path) == before


async def begun(environment: hermetic.Environment, command: str) -> None:
    """Returns when a command runs there."""
    async with environment.events() as events:
        if any(info.command == command for info in await environment.processes()):
            return
        async for event in events:
            if event.process is not None and event.process.command == command:
                return


@everywhere
async def test_frozen_processes_stand_still_and_calls_are_held_until_the_release(
    kind: str, tmp_path: Path
) -> None:
    counter = tmp_path / "counter"
    async with opened(tmp_path, kind) as box, released() as records:
        began = await box.terminal(COUNTS.format(counter), background=True)
        await moves_on(counter)
        [done] = await stop(records, [id_for_task("t")], "freeze", "a test")
        assert (done.task, done.problem) == ("t", "")
        assert done.processes >= 1
        assert await stands_still(counter)
        for answer in (
            await box.terminal("true"),
            await box.process("poll", began["session_id"]),
            await box.call("read_file", path="/etc/hostname"),
        ):
            assert (answer["status"], answer["refused_by"]) == ("blocked", "stopped"), answer
            assert "the user has stopped this task; its processes are frozen" in answer["error"]
        await release(records, [id_for_task("t")])
        await moves_on(counter)
        assert (await box.terminal("echo again"))["output"].strip() == "again"


async def test_a_command_that_a_call_waits_for_goes_on_as_a_process(tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    command = (
        COUNTS.format(counter).replace("sleep", f"[ -e {tmp_path}/end ] && break; sleep")
        + "; echo all"
    )
    async with opened(tmp_path) as box, released() as records:
        call = asyncio.create_task(box.terminal(command, timeout=3))
        await moves_on(counter)
        await stop(records, [id_for_task("t")], "freeze")
        answer = await call
        assert "frozen by the user; it goes on when the user releases it" in json.dumps(answer)
        assert await stands_still(counter)
        await asyncio.sleep(3)  # its time limit does not run on
        await release(records, [id_for_task("t")])
        await moves_on(counter)
        (tmp_path / "end").touch()
        ended = await box.process("wait", answer["session_id"], timeout=60)
        assert ended["exit_code"] == 0, ended
        assert "all" in json.dumps(ended)


async def test_a_persons_terminal_stays_usable(tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    async with opened(tmp_path) as box, released() as records:
        await box.terminal(COUNTS.format(counter), background=True)
        await moves_on(counter)
        async with await hermetic.attach("t") as environment:
            terminal = await environment.start("exec bash --norc", pty=True, tag=f"{PERSON}test")
            await terminal.submit("sleep 1000 & echo st''arted")
            await terminal.wait_for("started", timeout=SECONDS)
            await stop(records, None, "freeze")
            assert await stands_still(counter)
            await terminal.submit("echo us''able")
            await terminal.wait_for("usable", timeout=SECONDS)
            await stop(records, None, "end")
            await terminal.submit("echo st''ill")
            await terminal.wait_for("still", timeout=SECONDS)
            await terminal.kill()


async def test_ended_processes_are_gone_and_calls_are_held(tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    async with opened(tmp_path) as box, released() as records:
        began = await box.terminal(COUNTS.format(counter), background=True)
        await box.terminal("sleep 1000 & disown")
        await moves_on(counter)
        call = asyncio.create_task(box.terminal("sleep 1000"))
        async with await hermetic.attach("t") as environment:
            await begun(environment, "sleep 1000")
            [done] = await stop(records, [id_for_task("t")], "end")
            assert done.processes == 3
            assert not any(info.is_running for info in await environment.processes())
        assert (await call)["exit_code"] != 0
        assert "its processes are ended" in (await box.terminal("true"))["error"]
        await release(records, None)
        assert (await box.process("poll", began["session_id"]))["status"] != "running"


async def test_all_holds_environments_that_are_opened_later_too(tmp_path: Path) -> None:
    async with opened(tmp_path) as box, released() as records:
        assert await stop(records, None, "freeze") == []
        assert (await box.terminal("true"))["refused_by"] == "stopped"
        assert records.all() == []  # nothing was opened for it
        await release(records, None)
        assert (await box.terminal("true"))["exit_code"] == 0
    assert holds.holds() == []


async def test_a_call_that_is_approved_while_its_task_is_stopped_does_not_run(
    tmp_path: Path,
) -> None:
    async def approver(request: ApprovalRequest) -> str:
        await asyncio.Event().wait()
        raise AssertionError

    async with (
        opened(tmp_path, approver=approver) as box,
        released() as records,
        ApprovalWatch("test") as watch,
    ):
        call = asyncio.create_task(box.terminal(BAD))
        request = await pending(watch)
        await stop(records, [id_for_task("t")], "freeze")
        await watch.answer(request.id, "once")
        assert (await call)["refused_by"] == "stopped"


async def test_one_environment_is_released_while_all_are_held_and_can_be_stopped_again(
    tmp_path: Path,
) -> None:
    one, two = id_for_task("one"), id_for_task("two")
    async with released() as records:
        await stop(records, None, "freeze")
        await release(records, [one])
        assert (holds.held(one), holds.held(two) is None) == (None, False)
        await stop(records, [one], "freeze")
        assert holds.held(one) is not None
        await release(records, [one])
        await stop(records, None, "freeze")
        assert holds.held(one) is not None
        await release(records, [one])
        await release(records, None)
        assert (holds.held(one), holds.held(two)) == (None, None)


async def test_other_tasks_are_not_held(tmp_path: Path) -> None:
    async with opened(tmp_path) as box, released() as records:
        await box.terminal("true", task="one")
        await stop(records, [id_for_task("one")], "freeze")
        assert (await box.terminal("true", task="one"))["refused_by"] == "stopped"
        assert (await box.terminal("echo two", task="two"))["exit_code"] == 0


async def test_processes_that_were_stopped_before_stay_so(tmp_path: Path) -> None:
    async with opened(tmp_path) as box, released() as records:
        await box.terminal(f"sleep 1000 & echo $! > {tmp_path}/pid; kill -STOP $!")
        pid = number(tmp_path / "pid")
        await stop(records, [id_for_task("t")], "freeze")
        await release(records, [id_for_task("t")])
        assert is_stopped(pid)


async def test_many_processes_that_fork_all_the_time_are_all_frozen(tmp_path: Path) -> None:
    async with opened(tmp_path) as box, released() as records:
        forks = tmp_path / "forks"
        loop = f"f() {{ while :; do /bin/true & wait; echo >> {forks}; done; }}"
        await box.terminal(f"{loop}; for i in 1 2 3 4; do f & done; wait", background=True)
        await until(forks.exists)
        await stop(records, None, "freeze")
        size = forks.stat().st_size
        await asyncio.sleep(0.5)
        assert forks.stat().st_size == size
        await release(records, None)
        await until(lambda: forks.stat().st_size > size)


@pytest.mark.parametrize("damage", ["", "not json"])
async def test_a_hold_that_cannot_be_read_holds(damage: str, tmp_path: Path) -> None:
    async with opened(tmp_path) as box, released():
        holds.hold(None, "freeze", "test")
        (runtime_root() / holds.DIRECTORY / holds.ALL).write_text(damage)
        assert (await box.terminal("true"))["refused_by"] == "stopped"
