"""Timeout, cancel and kill end the whole tree, soon, and nothing else."""

import asyncio
import itertools
import os
import statistics
import time

import pytest

import hermetic
from hermetic import Cancelled, Exited, Signalled, TimedOut
from tests.scenarios.living import begin, is_alive, with_argument
from tests.sizes import scale

# What each does with `$S`, a sleep with an odd argument by which it can be found again. It says
# "up" before what lasts.
TREES = {
    "plain": "$S & echo up; $S",
    "setsid": "setsid $S & echo up; $S",
    "double fork": "($S &) ; (setsid $S &) ; echo up; $S",
    "nohup": "nohup $S >/dev/null 2>&1 & echo up; $S",
    "disown": "$S & disown; echo up; $S",
    "ignores TERM": "trap '' TERM; $S & echo up; $S",
    "ignores TERM below": "(trap '' TERM; $S) & echo up; $S",
    "keeps forking": "while :; do $S & echo up; sleep 0.01; done",
    "forks on TERM": "trap '$S & $S &' TERM; echo up; $S",
    "emptied environment": "env -i setsid bash -c '$S & $S & disown' & echo up; $S",
    "all of it": "trap '' TERM; (env -i setsid nohup $S >/dev/null 2>&1 &) ; (setsid bash -c '$S & $S' &) ; "
    "$S & disown; echo up; $S",
}
IGNORES_TERM = {"ignores TERM", "ignores TERM below", "forks on TERM", "all of it"}
GRACE = 0.25

numbers = itertools.count(1)


def tree(kind: str) -> tuple[str, str]:
    """A command that makes a tree, and the argument by which its sleeps are found."""
    odd = f"{1000 + next(numbers)}.{os.getpid()}"
    return TREES[kind].replace("$S", f"sleep {odd}"), odd


@pytest.mark.slow
async def test_two_hundred_ends_of_trees_leave_no_survivor_and_come_soon() -> None:
    late: list[float] = []
    async with hermetic.open("local") as env:
        earlier = await env.run("sleep 5000 & echo $!")
        job = int(earlier.output)
        ways = itertools.cycle(("timeout", "cancel", "kill"))
        for kind, way, _ in zip(itertools.cycle(TREES), ways, range(scale(200) + 13), strict=False):
            command, odd = tree(kind)
            if way == "timeout":
                result = await env.run(command, timeout=0.15)
                took = result.duration - 0.15
                assert result.ending == TimedOut(0.15), (kind, way)
            elif way == "cancel":
                running = await begin(env, command)
                moment = time.perf_counter()
                running.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await running
                took = time.perf_counter() - moment
            else:
                process = await env.start(command)
                await process.wait_for("up", timeout=20)
                moment = time.perf_counter()
                await process.kill(GRACE)
                took = time.perf_counter() - moment
            assert with_argument(odd) == [], (kind, way)
            late.append(took - (GRACE if kind in IGNORES_TERM else 0))
        assert is_alive(job), "an earlier job of the session was touched"
        assert (await env.run("echo fine")).output == "fine\n"
    # Tenfold slack on 50 ms at the median and 250 ms at worst.
    assert statistics.median(late) < 0.5
    assert max(late) < 2.5


async def test_a_cancelled_command_is_known_as_cancelled() -> None:
    async with hermetic.open("local") as env:
        running = await begin(env, "echo begun; sleep 1000")
        found = [
            process for process in await env.processes() if process.command.startswith("echo begun")
        ]
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert (await (await env.process(found[0].id)).status()).ending == Cancelled()


async def test_commands_beside_each_other_end_apart() -> None:
    """What one leaves without any mark in its environment is not taken for the other's."""
    async with hermetic.open("local") as env:
        kept_command, kept = tree("emptied environment")
        ended_command, ended = tree("emptied environment")
        keeper = await env.start(kept_command)
        await keeper.wait_for("up", timeout=20)
        running = await begin(env.session("b"), ended_command)
        before = len(with_argument(kept))
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert with_argument(ended) == []
        assert len(with_argument(kept)) >= before
        await keeper.kill(grace=0)
        assert with_argument(kept) == []


# Takes longer than the grace of a timeout, 0.25 s, and much less than that of a kill, 2 s.
SAVES = "trap 'sleep 0.3 && echo saved; exit 0' TERM; echo up; while :; do sleep 0.05; done"


async def test_a_killed_process_has_time_to_save_its_work() -> None:
    async with hermetic.open("local", login=False) as env:
        process = await env.start(SAVES)
        await process.wait_for("up", timeout=20)
        assert await process.kill() == Exited(0)
        assert (await process.read()).data.endswith(b"saved\n")


async def test_what_a_term_handler_starts_gets_no_term() -> None:
    """The handler's own helper, after the process that started it has ended."""
    async with hermetic.open("local", login=False) as env:
        process = await env.start(
            "trap '(sleep 0.7 && echo helped) & exit 0' TERM; echo up; while :; do sleep 0.05; done"
        )
        await process.wait_for("up", timeout=20)
        await process.kill(grace=60)
        assert (await process.read()).data.endswith(b"helped\n")


async def test_the_time_between_term_and_kill_is_the_callers() -> None:
    async with hermetic.open("local", login=False) as env:
        soon = SAVES.replace("0.3", "1.5")  # within the default of a kill
        process = await env.start(soon)
        await process.wait_for("up", timeout=20)
        assert await process.kill(grace=0.1) == Signalled(9)
        assert b"saved" not in (await process.read()).data
        assert "saved" not in (await env.run(soon, timeout=1)).output  # 0.25 s after its time
        process = await env.start(SAVES.replace("0.3", "2.5"))
        await process.wait_for("up", timeout=20)
        assert await process.kill(grace=60) == Exited(0)
