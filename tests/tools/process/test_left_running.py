"""What a command has left running is shown with it, and ended with it."""

import asyncio
import os
from pathlib import Path

import pytest

import hermetic
from hermetic.contract.limits import KEPT_COMMANDS
from tests.boxes import everywhere, on_this_side, opened
from tests.scenarios.living import is_alive, with_argument


def odd(number: int) -> str:
    return f"7{number}.{os.getpid()}"


@everywhere
async def test_what_a_background_process_left_is_listed_and_killed(
    tmp_path: Path, kind: str
) -> None:
    async with opened(tmp_path, kind) as box:
        started = (await box.terminal("sleep 99999 & echo hi", background=True))["session_id"]
        assert (await box.process("wait", started, timeout=60))["status"] == "exited"
        [listed] = (await box.process("list"))["processes"]
        assert (listed["session_id"], listed["status"], listed["left_running"]) == (
            started,
            "exited",
            1,
        )
        assert await box.toolbox.running("t") == [started]
        killed = await box.process("kill", started, grace=1)
        assert (killed["status"], killed["exit_code"]) == ("killed", 0)
        assert "left_running" not in killed
        assert await box.toolbox.running("t") == []
        assert (await box.process("kill", started))["status"] == "already_exited"


@on_this_side
async def test_kill_all_ends_what_was_left(tmp_path: Path, kind: str) -> None:
    async with opened(tmp_path, kind) as box:
        started = (await box.terminal("sleep 99999 & echo hi", background=True))["session_id"]
        await box.process("wait", started, timeout=60)
        assert (await box.terminal("sleep 99999 & echo foreground"))["output"] == "foreground\n"
        assert len(await box.toolbox.running("t")) == 2
        assert await box.toolbox.kill_all("t") == 2
        assert await box.toolbox.running("t") == []


@pytest.mark.parametrize(
    "leaves",
    [
        "sleep {} & ",
        "(sleep {} &) ; ",
        "setsid sleep {} & disown; ",
        "env -i setsid sleep {} >/dev/null 2>&1 & ",
    ],
)
async def test_whatever_way_it_was_left_it_belongs_to_its_command(leaves: str) -> None:
    async with hermetic.open("local", login=False) as environment:
        before = (await environment.info()).processes
        first, second = odd(1), odd(2)
        await environment.run("echo nothing")
        result = await environment.run(leaves.format(first))
        process = await environment.start(leaves.format(second))
        await process.wait(60)
        left = {info.id: info.left for info in await environment.processes()}
        assert {id: count for id, count in left.items() if count} == {result.log: 1, process.id: 1}
        assert (await environment.info()).processes == before + 2
        assert (await process.status()).ending is not None
        await process.kill(grace=1)
        assert (with_argument(second), len(with_argument(first))) == ([], 1)
        command = await environment.process(result.log)
        await command.kill(grace=1)
        assert with_argument(first) == []
        assert (await environment.info()).processes == before


async def test_an_entry_stays_as_long_as_something_of_it_runs() -> None:
    async with hermetic.open("local", login=False) as environment:
        left = await environment.run("sleep 99999 & echo $!")
        for _ in range(KEPT_COMMANDS * 2):
            await environment.run("true")
        known = await environment.processes()
        assert KEPT_COMMANDS <= len(known) < KEPT_COMMANDS * 2
        assert known[0].id == left.log
        assert known[0].left == 1
        await (await environment.process(left.log)).kill(grace=1)
        assert not is_alive(int(left.output))


async def test_a_loop_that_was_left_is_not_taken_for_a_shell_that_is_being_forked() -> None:
    async with hermetic.open("local", login=False) as environment:
        left = await environment.run("(while :; do sleep 1; done &)")

        async def fork_often(session: hermetic.Session) -> None:
            for number in range(KEPT_COMMANDS):
                await session.run(f"export N={number}")

        sessions = [environment.session(str(number)) for number in range(8)]
        await asyncio.gather(*map(fork_often, sessions))
        assert left.log in {info.id for info in await environment.processes() if info.left}
        await (await environment.process(left.log)).kill(grace=1)


async def test_a_standby_is_not_taken_for_something_left() -> None:
    """It is forked from the shell after each command that changes state."""
    async with hermetic.open("local", login=False) as environment:
        for number in range(30):
            _, known = await asyncio.gather(
                environment.run(f"export N={number}"), environment.processes()
            )
            assert [info for info in known if info.left] == []
            assert [info for info in await environment.processes() if info.left] == []


async def test_what_a_shell_has_that_went_on_with_a_yielded_command_is_ended_too() -> None:
    async with hermetic.open("local", login=False) as environment:
        left = await environment.run("sleep 99999 & echo $!")
        yielded = await environment.run("sleep 99999", timeout=0.2, on_timeout="yield")
        assert yielded.process is not None
        assert {info.id for info in await environment.processes() if info.left} == {left.log}
        await (await environment.process(left.log)).kill(grace=1)
        assert not is_alive(int(left.output))
        assert (await yielded.process.status()).state == "running"
