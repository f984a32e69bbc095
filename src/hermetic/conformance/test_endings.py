"""Timeout, cancel and kill end the whole tree, leave nothing alive, and touch nothing else."""

import asyncio
import time

import pytest

from hermetic import Environment, Session, Signalled, TimedOut
from hermetic.conformance.observing import alive, eventually, new_mark
from hermetic.conformance.poisons import TREES

# A quarter of a second is promised, and a quarter of grace; tenfold slack.
WORST_SECONDS = 5.0


def planted(name: str, mark: str) -> str:
    """The text of a tree that prints `ready` first."""
    return f"echo ready; {TREES[name].replace('MARK', mark)}"


@pytest.mark.parametrize("tree", TREES)
async def test_a_timeout_leaves_nothing_alive(env: Environment, shell: Session, tree: str) -> None:
    mark = new_mark()
    await shell.run("v=kept")
    began = time.perf_counter()
    result = await shell.run(planted(tree, mark), timeout=0.4)
    took = time.perf_counter() - began
    assert (result.ending, result.exit_code) == (TimedOut(0.4), 124)
    assert result.output.startswith("ready\n")
    assert await alive(env, mark) == []
    assert took < 0.4 + WORST_SECONDS
    assert (await shell.run("echo $v")).output == "kept\n"


@pytest.mark.parametrize("tree", TREES)
async def test_cancelling_leaves_nothing_alive(env: Environment, shell: Session, tree: str) -> None:
    mark = new_mark()
    await shell.run("v=kept")
    ready = asyncio.Event()
    running = asyncio.create_task(shell.run(planted(tree, mark), on_output=lambda _: ready.set()))
    await ready.wait()
    await eventually(lambda: alive(env, mark))
    began = time.perf_counter()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    took = time.perf_counter() - began
    assert await alive(env, mark) == []
    assert took < WORST_SECONDS
    assert (await shell.run("echo $v")).output == "kept\n"


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("pty", [False, True], ids=["pipes", "terminal"])
async def test_killing_a_process_leaves_nothing_alive(
    env: Environment, shell: Session, tree: str, pty: bool
) -> None:
    mark = new_mark()
    process = await shell.start(planted(tree, mark), pty=pty)
    await process.wait_for("ready", timeout=10)
    await eventually(lambda: alive(env, mark))
    began = time.perf_counter()
    ending = await process.kill()
    took = time.perf_counter() - began
    assert await alive(env, mark) == []
    assert took < WORST_SECONDS
    assert ending is not None
    assert (await process.status()).state == "ended"


async def test_earlier_jobs_of_the_session_are_not_touched(
    env: Environment, shell: Session
) -> None:
    earlier, own = new_mark(), new_mark()
    # as nohup does, where there is none
    deaf = f"(trap '' HUP; exec sleep {earlier}) >/dev/null 2>&1 &"
    await shell.run(f"sleep {earlier} & (setsid sleep {earlier} &); {deaf}")
    await eventually(lambda: alive(env, earlier), lambda pids: len(pids) == 3)
    await shell.run(f"sleep {own} & setsid sleep {own} & sleep {own}", timeout=0.3)
    assert await alive(env, own) == []
    assert len(await alive(env, earlier)) == 3
    running = asyncio.create_task(shell.run(f"sleep {own}"))
    await eventually(lambda: alive(env, own))
    running.cancel()
    await asyncio.wait([running])
    assert len(await alive(env, earlier)) == 3
    await env.run(f"kill {' '.join(map(str, await alive(env, earlier)))}")


async def test_other_sessions_and_processes_are_not_touched(
    env: Environment, shell: Session
) -> None:
    other, own = new_mark(), new_mark()
    process = await env.start(f"sleep {other} & sleep {other}")
    second = env.session(f"{shell.name}-b")
    parallel = asyncio.create_task(
        second.run(f"setsid sleep {other} & sleep 1; echo undisturbed; kill $!")
    )
    await eventually(lambda: alive(env, other), lambda pids: len(pids) == 4)
    for _ in range(3):
        await shell.run(f"setsid sleep {own} & sleep {own}", timeout=0.1)
    assert await alive(env, own) == []
    assert (await parallel).output == "undisturbed\n"
    assert (await process.status()).state == "running"
    await process.kill()
    await second.close()


async def test_a_timeout_keeps_the_output_so_far(shell: Session) -> None:
    await shell.run(":")  # a shell that still starts would take of the time
    began = time.monotonic()
    result = await shell.run("echo before; sleep 60; echo after", timeout=0.5)
    assert result.output == "before\n"
    assert 0.5 <= time.monotonic() - began < 10
    assert result.duration < 10


async def test_a_command_may_clean_up_when_told_to_end(shell: Session) -> None:
    await shell.run(":")  # a shell that still starts would take of the time
    text = "bash -c 'trap \"echo cleaned; exit\" TERM; echo up; sleep 1000 & wait'"
    result = await shell.run(text, timeout=1)
    assert result.output.startswith("up\n")
    assert result.output.endswith("cleaned\n")


async def test_without_grace_it_ends_at_once(env: Environment, shell: Session) -> None:
    mark = new_mark()
    process = await shell.start(
        f"trap 'echo cleaned' TERM; echo ready; while :; do sleep 0.02; done # {mark}"
    )
    await process.wait_for("ready", timeout=10)
    assert await process.kill(grace=0) == Signalled(9)
    assert (await process.read()).data == b"ready\n"
    assert await alive(env, mark) == []


async def test_a_cancelled_command_that_waits_for_a_shell_never_runs(
    shell: Session, directory: str
) -> None:
    running = asyncio.create_task(shell.run(f"touch '{directory}/made'"))
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait([running])
    assert (await shell.run("echo usable")).output == "usable\n"


async def test_twenty_timeouts_in_a_row_leave_the_session_as_it_was(
    env: Environment, shell: Session
) -> None:
    mark = new_mark()
    await shell.run("v=1; f() { echo f; }; cd /tmp")
    for _ in range(20):
        assert (await shell.run(f"v=2; cd /; sleep {mark}", timeout=0.02)).exit_code == 124
    assert await alive(env, mark) == []
    assert (await shell.run("f; echo $v $PWD")).output == "f\n1 /tmp\n"


async def test_a_timeout_that_is_not_reached_changes_nothing(shell: Session) -> None:
    assert (await shell.run("v=1; echo in time", timeout=30)).output == "in time\n"
    assert (await shell.run("echo $v")).output == "1\n"


async def test_a_timeout_while_others_run_ends_only_its_own(
    env: Environment, shell: Session
) -> None:
    mark = new_mark()
    results = await asyncio.gather(
        shell.run("sleep 0.8; echo first"),
        shell.run(f"setsid sleep {mark} & sleep {mark}", timeout=0.3),
        shell.run("sleep 0.6; echo third"),
    )
    assert [result.exit_code for result in results] == [0, 124, 0]
    assert [results[0].output, results[2].output] == ["first\n", "third\n"]
    assert await alive(env, mark) == []
