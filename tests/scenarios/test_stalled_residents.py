"""A resident that is stopped or traced: the caller's own clock ends its calls, and the host can end
the environment.
"""

import asyncio
import json
import os
import random
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import hermetic
from hermetic import Cancelled, Exited, Lost, TimedOut, Unreachable
from hermetic.contract.limits import GRACE, GREETING, OVERDUE, STALL
from hermetic.environments.unix_socket import listeners
from hermetic.fleet.garbage import collect
from hermetic.registry.host_process import ended
from hermetic.registry.records import Records, runtime_root
from hermetic.session.keeping import link_of
from tests.boxes import appears
from tests.boxes import opened as opened_box
from tests.cli.program import hermetic as program
from tests.environments.engines import ask, need_engine
from tests.environments.sshd import running as sshd_running
from tests.programs import need, need_variable
from tests.scenarios.living import is_alive, with_argument
from tests.sizes import at_full_size, scale
from tests.tracing import TRACER, held

TASK = "stalls"
BOUND = OVERDUE + STALL + 2  # seconds from a call's own time to its answer, on a quiet machine
SLACK = 20.0  # seconds, on a busy one


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A resident counts as stalled sooner than the limits say."""
    shorter = {"fleet.reaching.STALL": 2.0, "link.link.OVERDUE": 0.5, "link.link.GREETING": 1.0}
    for name, seconds in (shorter | {"link.connection.GREETING": 1.0}).items():
        monkeypatch.setattr(f"hermetic.{name}", seconds)


def resident() -> int:
    record = Records(runtime_root()).of_task(TASK)
    assert record is not None
    return record.pid


@asynccontextmanager
async def opened(**options: Any) -> AsyncIterator[hermetic.Environment]:
    environment = await hermetic.open("local", task=TASK, login=False, **options)
    try:
        yield environment
    finally:
        await environment.close(remove=True)


async def test_the_callers_clock_ends_a_call_and_the_next_caller_is_told(tmp_path: Path) -> None:
    async with opened(cwd=str(tmp_path)) as env:
        await env.run("true")
        os.kill(resident(), signal.SIGSTOP)
        began = time.monotonic()
        result = await env.run("echo x >> ran", timeout=1)
        assert time.monotonic() - began < 1 + GRACE + BOUND + SLACK
        assert isinstance(result.ending, Lost)
        assert "does not answer" in str(result.ending)
        assert Records(runtime_root()).stalled_since(env.id) is not None
        began = time.monotonic()
        with pytest.raises(Unreachable, match="nothing was sent") as caught:
            await env.run("echo y >> ran", timeout=1)
        assert time.monotonic() - began < GREETING + SLACK
        assert caught.value.state == "stalled"
        os.kill(resident(), signal.SIGCONT)
        assert (await env.run("echo back")).output == "back\n"
        assert Records(runtime_root()).stalled_since(env.id) is None
        # The lost command ran once, not at all, or was ended between opening the file and writing.
        assert not (tmp_path / "ran").exists() or (tmp_path / "ran").read_text() in ("", "x\n")


@pytest.mark.usefixtures("quick")
async def test_cancelling_and_interrupting_answer_though_the_resident_does_not() -> None:
    async with opened() as env:
        cancel = asyncio.Event()
        told = asyncio.ensure_future(env.run("sleep 600", cancel=cancel))
        cancelled = asyncio.ensure_future(env.run("sleep 600"))
        asked = [asyncio.ensure_future(env.info()), asyncio.ensure_future(env.start("sleep 600"))]
        await asyncio.wait(asked)
        os.kill(resident(), signal.SIGSTOP)
        asked = [
            asyncio.ensure_future(env.info()),
            asyncio.ensure_future(env.read_file("/etc/hosts")),
        ]
        cancel.set()
        cancelled.cancel()
        async with asyncio.timeout(GRACE + BOUND + SLACK):
            assert isinstance((await told).ending, Lost)
            with pytest.raises(asyncio.CancelledError):
                await cancelled
            for one in asked:
                with pytest.raises(Unreachable):
                    await one
        os.kill(resident(), signal.SIGCONT)
        assert (await env.run("echo back")).output == "back\n"


@pytest.mark.usefixtures("quick")
async def test_a_call_without_a_clock_waits_for_the_resident() -> None:
    async with opened() as env:
        running = asyncio.ensure_future(env.run("sleep 1; echo done"))
        await env.info()
        os.kill(resident(), signal.SIGSTOP)
        with pytest.raises(Unreachable):
            await env.info()
        assert not running.done()
        os.kill(resident(), signal.SIGCONT)
        assert (await running).output == "done\n"


@pytest.mark.usefixtures("quick")
async def test_an_environment_that_is_stalled_is_ended_from_outside() -> None:
    odd = f"77{os.getpid()}.25"
    env = await hermetic.open("local", task=TASK, login=False)
    info = await env.info()
    await env.start(f"setsid sleep {odd}")
    assert info.guardian is not None
    for pid in (info.pid, info.guardian):
        os.kill(pid, signal.SIGSTOP)
    async with asyncio.timeout(BOUND + 60):
        await env.close(remove=True)
    assert not is_alive(info.pid)
    assert not is_alive(info.guardian)
    assert with_argument(odd) == []
    assert os.listdir(runtime_root()) == []


async def test_rm_ends_a_traced_environment_and_says_what_it_did() -> None:
    env = await hermetic.open("local", task=TASK, login=False)
    pid = resident()
    with held(pid):
        done = await asyncio.to_thread(program, "rm", TASK)
        assert (done.returncode, done.stderr) == (0, b"")
        assert done.stdout.decode() == f"{TASK}: it was stalled; sent SIGKILL to process {pid}\n"
        assert not is_alive(pid)
    await env.close()
    assert [name for name in os.listdir(runtime_root()) if name != "janitor"] == []


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("kind", ["docker", "sandbox"])
async def test_a_command_that_traces_the_first_process_hangs_no_caller(
    kind: str, tmp_path: Path
) -> None:
    """Whether the kernel lets it or not: the next call answers, and the environment can be ended."""
    if kind == "docker":
        need_engine(kind)
        options: dict[str, Any] = {"image": need_variable("IMAGE_BASE")}
    else:
        need("bwrap")
        options = {"workspace": str(tmp_path), "login": False}
    env = await hermetic.open(kind, **options)
    try:
        tracer = await env.start(["python3", "-c", TRACER, "1"])
        # held before it could be printed, or not allowed to
        with suppress(TimeoutError, EOFError, Unreachable):
            await tracer.wait_for("held", timeout=5)
        async with asyncio.timeout(1 + BOUND + SLACK):
            result = await env.run("echo fine", timeout=1)
        assert isinstance(result.ending, Lost) or result.output == "fine\n"
    finally:
        async with asyncio.timeout(100):
            await env.close(remove=True)


async def test_a_guardian_ends_a_resident_that_stays_stopped_though_no_caller_looks() -> None:
    env = await hermetic.open("local", task=TASK, login=False, unattended=1)
    info = await env.info()
    await env.start("sleep 600")
    await env.close()
    os.kill(info.pid, signal.SIGSTOP)
    assert info.guardian is not None
    async with asyncio.timeout(60):
        await ended(info.pid)
        await ended(info.guardian)
    assert os.listdir(runtime_root()) == []


@pytest.mark.usefixtures("quick")
async def test_rm_ends_a_stalled_sandbox(tmp_path: Path) -> None:
    need("bwrap")
    env = await hermetic.open("sandbox", task=TASK, workspace=str(tmp_path), login=False)
    record = Records(runtime_root()).of_task(TASK)
    assert record is not None
    inside = json.loads(record.place["kept"])["processes"][0]["pid"]
    os.kill(inside, signal.SIGSTOP)
    assert isinstance((await env.run("true", timeout=1)).ending, Lost)
    done = await asyncio.to_thread(program, "rm", TASK)
    assert done.stdout.decode() == f"{TASK}: it was stalled; killed the sandbox's processes\n", (
        done.stderr
    )
    assert not is_alive(inside)
    await env.close()


@pytest.mark.usefixtures("quick")
async def test_rm_ends_a_stalled_resident_on_another_machine(tmp_path: Path) -> None:
    with sshd_running(tmp_path) as sshd:
        env = await hermetic.open("ssh", task=TASK, **sshd.options)
        record = Records(runtime_root()).of_task(TASK)
        assert record is not None
        os.kill(record.pid, signal.SIGSTOP)
        done = await asyncio.to_thread(program, "rm", TASK)
        ended_both = f"ended process {record.pid} and {record.guardian} there"
        assert f"{TASK}: it was stalled; {ended_both}, and removed " in done.stdout.decode(), (
            done.stderr
        )
        assert not is_alive(record.pid)
        assert not os.access(record.place["directory"], os.F_OK)
        await env.close()


@pytest.mark.usefixtures("quick")
async def test_a_tool_answers_in_time_and_so_does_its_interruption(tmp_path: Path) -> None:
    async with opened_box(tmp_path) as box:
        await box.terminal("true", task=TASK)
        running = asyncio.ensure_future(
            box.terminal("touch begun; sleep 600", task=TASK, timeout=500)
        )
        await appears(tmp_path / "begun")
        os.kill(resident(), signal.SIGSTOP)
        try:
            box.toolbox.interrupt(TASK)
            async with asyncio.timeout(BOUND + SLACK):
                assert (await running)["status"] in ("error", "interrupted")
            async with asyncio.timeout(GREETING + SLACK):
                assert "stalled" in (await box.terminal("echo x", task=TASK, timeout=1))["error"]
        finally:
            os.kill(resident(), signal.SIGCONT)
        assert (await box.terminal("echo back", task=TASK))["output"] == "back\n"


async def test_rm_kills_the_container_of_a_stalled_resident() -> None:
    need_engine("docker")
    env = await hermetic.open("docker", task=TASK, image=need_variable("IMAGE_BASE"))
    record = Records(runtime_root()).of_task(TASK)
    assert record is not None
    name = record.place["container"]
    ask("docker", ["kill", "--signal", "STOP", name])
    done = await asyncio.to_thread(program, "rm", TASK)
    assert done.stdout.decode() == f"{TASK}: it was stalled; killed and removed container {name}\n"
    assert done.returncode == 0
    assert ask("docker", ["ps", "--all", "--quiet", "--filter", f"name={name}"]) == ""
    await env.close()


@pytest.mark.usefixtures("quick")
async def test_one_that_died_while_it_was_stalled_is_gone_for_its_callers() -> None:
    env = await hermetic.open("local", task=TASK, login=False)
    try:
        pid = resident()
        os.kill(pid, signal.SIGSTOP)
        assert isinstance((await env.run("true", timeout=0.5)).ending, Lost)
        os.kill(pid, signal.SIGKILL)
        async with asyncio.timeout(60):
            await ended(pid)
            while not link_of(env).is_over:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        with pytest.raises(hermetic.EnvironmentUnavailable, match="is gone"):
            await env.run("true")
    finally:
        await env.close(remove=True)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["local", *at_full_size("docker")])
async def test_one_that_does_not_answer_for_as_long_as_it_may_be_unattended_is_ended(
    kind: str,
) -> None:
    """The janitor looks then, though the caller that noticed it is gone."""
    options: dict[str, Any] = {"login": False}
    if kind == "docker":
        need_engine(kind)
        options = {"image": need_variable("IMAGE_BASE")}
    env = await hermetic.open(kind, task=TASK, lease=1, unattended=15, **options)
    (pid,) = await listeners(runtime_root() / env.id)
    os.kill(pid, signal.SIGSTOP)
    await env.close()
    done = await asyncio.to_thread(program, "ps")
    assert done.returncode == 0
    assert b"stalled" in done.stderr
    async with asyncio.timeout(100):
        await ended(pid)
        while [name for name in os.listdir(runtime_root()) if name != "janitor"]:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


@pytest.mark.usefixtures("quick")
async def test_gc_leaves_one_that_stalls_for_longer_than_its_lease() -> None:
    """A caller is attached, or a process runs: the lease does not count."""
    async with opened(lease=0.1) as env:
        await env.run("X=kept")
        os.kill(resident(), signal.SIGSTOP)
        assert await collect(Records(runtime_root())) == []
        async with asyncio.timeout(60):
            while Records(runtime_root()).stalled_for(env.id) < 0.2:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert await collect(Records(runtime_root())) == []
        since = Records(runtime_root()).stalled_since(env.id)
        assert since is not None
        os.kill(resident(), signal.SIGCONT)
        assert (await env.run("echo $X")).output == "kept\n"


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
async def test_every_call_answers_within_its_bound_whenever_the_resident_is_stopped(
    tmp_path: Path,
) -> None:
    """Stops of random length at random moments.

    Nothing runs twice, and nothing that is told as done is missing.
    """
    chance = random.Random(7)
    async with opened(cwd=str(tmp_path)) as env:
        pid = resident()
        over = asyncio.Event()

        async def stop_now_and_then() -> None:
            while not over.is_set():
                await asyncio.sleep(chance.expovariate(8))
                os.kill(pid, signal.SIGSTOP)
                try:
                    await asyncio.sleep(chance.choice((0.01, 0.1, 0.5, 2.0, 5.0)))
                finally:
                    os.kill(pid, signal.SIGCONT)

        async def call(number: int) -> None:
            timeout = chance.choice((0.2, 1.0, 5.0))
            text = chance.choice(("", "sleep 0.3; ", "sleep 30; "))
            began = time.monotonic()
            try:
                result = await env.run(
                    f"echo {number} >> ran; {text}echo {number} >> done", timeout=timeout
                )
            except Unreachable:
                ending = None
            else:
                ending = result.ending
            assert time.monotonic() - began < timeout + GREETING + GRACE + BOUND + SLACK
            assert ending is None or isinstance(ending, Exited | TimedOut | Lost | Cancelled)
            endings[number] = ending

        endings: dict[int, object] = {}
        stopping = asyncio.ensure_future(stop_now_and_then())
        try:
            for start in range(0, max(12, scale(120)), 6):
                await asyncio.gather(*map(call, range(start, start + 6)))
        finally:
            over.set()
            await stopping
        await env.run("true")
        ran, done = ((tmp_path / name).read_text().split() for name in ("ran", "done"))
        assert len(ran) == len(set(ran))
        assert {str(number) for number, ending in endings.items() if ending == Exited(0)} <= set(
            done
        )
        assert {str(number) for number, ending in endings.items() if ending is None}.isdisjoint(ran)
