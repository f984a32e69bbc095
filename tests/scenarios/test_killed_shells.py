"""Every shell of a session is killed, at any moment: the next command gets a shell, and a note says
what was lost.
"""

import asyncio
import contextlib
import os
import random
import signal
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import hermetic
from hermetic import Exited, Lost, Signalled
from hermetic.resident.processes.tree import children
from tests.environments.engines import need_engine
from tests.programs import need, need_variable
from tests.scenarios.living import begin, shells_below
from tests.sizes import at_full_size, scale

CALLERS = 3
KILLS = 4
PATIENCE_SECONDS = 20  # for one command, beside whatever else the machine does

# For a container, where nothing but the test's own shells runs: a shell of another name kills each
# bash.
KILL_EACH_BASH = r"""
for entry in /proc/[0-9]*; do
    read -r name 2>/dev/null <"$entry/comm" && [ "$name" = bash ] && kill -9 "${entry#/proc/}" 2>/dev/null
done; :
"""


def kill_all(pids: list[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


Killer = Callable[[], Awaitable[object]]


async def killer_in(environment: hermetic.Environment) -> Killer:
    """Kills every shell below the environment's resident."""
    if environment.kind == "local":
        resident = (await environment.info()).pid

        async def kill_below() -> None:
            kill_all(shells_below(resident))

        return kill_below
    stand_in = await environment.start(
        ["sh", "-c", f"while read -r _; do {KILL_EACH_BASH}\necho done; done"]
    )

    async def kill_inside() -> None:
        await stand_in.submit("")
        await stand_in.wait_for("done", timeout=PATIENCE_SECONDS)

    return kill_inside


def options(kind: str) -> dict[str, Any]:
    if kind == "local":
        return {"login": False}
    need_engine(kind)
    return {"image": need_variable("IMAGE_BASE")}


async def call_on(
    session: hermetic.Session, number: int, over: asyncio.Event
) -> list[hermetic.Result]:
    """One caller: runs short commands until it is over, and gets a result for each."""
    results = []
    while not over.is_set():
        async with asyncio.timeout(PATIENCE_SECONDS):
            results.append(await session.run(f"export BY_{number}=1; echo begun; sleep 0.02"))
    return results


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["local", *at_full_size("docker")])
async def test_after_all_shells_were_killed_the_next_command_gets_one(kind: str) -> None:
    chance = random.Random(12)
    async with hermetic.open(kind, **options(kind)) as environment:
        kill = await killer_in(environment)
        for turn in range(scale(30)):
            session = environment.session(f"turn-{turn}")
            await session.run("export KEPT=1")
            over = asyncio.Event()
            callers = [
                asyncio.create_task(call_on(session, number, over)) for number in range(CALLERS)
            ]
            try:
                for _ in range(KILLS):
                    await asyncio.sleep(chance.random() * 0.15)  # any moment
                    await kill()
            finally:
                over.set()
            results = [result for found in await asyncio.gather(*callers) for result in found]
            endings = {type(result.ending) for result in results}
            assert endings <= {Exited, Signalled}, (
                turn,
                [result for result in results if result.exit_code is None],
            )
            async with asyncio.timeout(PATIENCE_SECONDS):
                after = await session.run("NEXT=here; echo fine")
                last = await session.run("echo $NEXT")
            assert (after.output, last.output) == ("fine\n", "here\n"), (turn, after, last)
            assert not any("another command" in note for note in (*after.notes, *last.notes)), (
                turn,
                after,
                last,
            )
            await session.close()


async def test_a_command_beside_a_busy_one_needs_no_standby() -> None:
    async with hermetic.open("local", login=False) as environment:
        resident = (await environment.info()).pid
        await environment.run("export KEPT=1")
        running = await begin(environment, "echo up; sleep 1000")
        busy = next(info.pid for info in await environment.processes() if info.state == "running")
        # The shells of the resident: what the busy one starts is a bash too, until it runs `sleep`.
        while standbys := set(shells_below(resident)).intersection(children(resident)) - {busy}:
            kill_all([*standbys])
        async with asyncio.timeout(PATIENCE_SECONDS):
            beside = await environment.run("echo beside${KEPT-}")
        assert beside.output == "beside\n"
        assert any("login state" in note for note in beside.notes), beside.notes
        running.cancel()
        await asyncio.wait([running])


async def test_what_was_lost_with_all_shells_is_noted() -> None:
    async with hermetic.open("local", login=False) as environment:
        resident = (await environment.info()).pid
        await environment.run("export KEPT=1")
        with stopped(resident):
            while shells := shells_below(resident):
                kill_all(shells)
        async with asyncio.timeout(PATIENCE_SECONDS):
            after = await environment.run("echo fine${KEPT-}")
        assert after.output == "fine\n"
        assert any(note.startswith("session lost") for note in after.notes), after.notes
        assert not isinstance(after.ending, Lost)


async def test_idle_shells_that_are_stopped_go_on() -> None:
    async with hermetic.open("local", login=False) as environment:
        resident = (await environment.info()).pid
        await environment.run("export KEPT=1")
        for _ in range(3):
            for pid in set(shells_below(resident)).intersection(children(resident)):
                os.kill(pid, signal.SIGSTOP)
            async with asyncio.timeout(PATIENCE_SECONDS):
                after = await environment.run("echo fine$KEPT; exit 3")
            assert after.output == "fine1\n"


async def test_a_command_that_stops_every_process_stops_no_later_one(tmp_path: Path) -> None:
    need("bwrap")
    async with hermetic.open("sandbox", workspace=tmp_path, login=False) as environment:
        await environment.run("export KEPT=1")
        await environment.run("kill -STOP -- -1; exit 3")
        async with asyncio.timeout(PATIENCE_SECONDS):
            after = await environment.run("echo fine$KEPT")
        assert after.output == "fine1\n"


async def test_a_session_that_was_lost_has_no_earlier_state() -> None:
    """Of two failures in a row the note of the second holds: nothing was restored."""
    async with hermetic.open("local", login=False) as environment:
        resident = (await environment.info()).pid
        for text in ("A=1", "B=2", "C=3"):
            await environment.run(text)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(shells_below(resident)) < 3:  # noqa: ASYNC110 (no event tells)
                await asyncio.sleep(0.02)
        with stopped(resident):
            first, _older, *newer = sorted(shells_below(resident))
            kill_all([first, *newer])
        await environment.info()
        with stopped(resident):
            while shells := shells_below(resident):
                kill_all(shells)
        async with asyncio.timeout(PATIENCE_SECONDS):
            after = await environment.run("echo fine$A")
        assert after.output == "fine\n"
        assert [note.partition(":")[0] for note in after.notes] == ["session lost"], after.notes


async def test_a_loss_is_noted_once_by_a_command_that_was_sent_to_the_lost_shell() -> None:
    async with hermetic.open("local", login=False) as environment:
        resident = (await environment.info()).pid
        with stopped(resident):
            kill_all(shells_below(resident))
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not shells_below(resident):  # noqa: ASYNC110 (no event tells)
                await asyncio.sleep(0.02)
        await environment.info()  # the loss has been noted for the next command
        with stopped(resident):
            running = asyncio.create_task(environment.run("echo fine"))
            await asyncio.sleep(0.1)  # the request lies before the resident
            while shells := shells_below(resident):
                kill_all(shells)
        async with asyncio.timeout(PATIENCE_SECONDS):
            after = await running
        assert after.output == "fine\n"
        assert [note.partition(":")[0] for note in after.notes] == ["session lost"], after.notes


@contextlib.contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Holds a resident, so that it orders no standby meanwhile."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
