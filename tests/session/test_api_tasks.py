"""Opening, attaching, replacing and closing: who ends what, and when."""

import asyncio
import gc
import os
import socket
from pathlib import Path
from typing import Any, cast

import pytest

import hermetic
from hermetic import ConfigError, EnvironmentUnavailable, InvalidArgument, Lost
from hermetic.contract.environment import EnvironmentRecord
from hermetic.environments.local import Local
from hermetic.registry.records import Records, runtime_root


def records() -> list[str]:
    return [record.id for record in Records(runtime_root()).all()]


def lives(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def exists(path: str | None) -> bool:
    return path is not None and Path(path).exists()


def variables(pid: int) -> bytes:
    return Path(f"/proc/{pid}/environ").read_bytes()


def leftovers() -> list[str]:
    return os.listdir(runtime_root())


async def test_an_environment_without_a_task_ends_with_its_block() -> None:
    async with hermetic.open("local") as env:
        assert records() == [env.id]
        info = await env.info()
        assert (info.id, info.kind, info.clients, info.lease) == (env.id, "local", 1, 300)
        await env.start("sleep 600")
    assert leftovers() == []
    assert not lives(info.pid)
    await env.close()
    with pytest.raises(EnvironmentUnavailable, match="closed"):
        await env.run("true")


async def test_awaiting_gives_the_environment_itself() -> None:
    env = await hermetic.open("local", lease=7, unattended=8, env={"A": "1"}, login=False)
    info = await env.info()
    assert (info.lease, info.unattended) == (7, 8)
    assert (await env.run("echo $A $PAGER $TERM")).output == "1 cat dumb\n"
    assert env.isolation.shared_paths == ("/",)
    await env.close()


async def test_a_task_outlives_its_block_and_is_attached_to_by_the_next() -> None:
    async with hermetic.open("local", task="t1") as env:
        await env.run("X=1")
        process = await env.start("echo begun; sleep 600", id="p")
    async with hermetic.open("local", task="t1") as again, hermetic.attach("t1") as third:
        assert again.id == third.id == env.id
        assert (await again.run("echo $X")).output == "1\n"
        assert (await third.process("p")).pid == process.pid
        assert (await third.info()).clients == 2
    async with hermetic.attach(env.id) as last:
        await last.close(remove=True)
    assert leftovers() == []
    with pytest.raises(EnvironmentUnavailable, match="no environment 't1' lives here"):
        await hermetic.attach("t1")


async def test_other_options_are_named_unless_replaced(tmp_path: Path) -> None:
    async with hermetic.open("local", task="t2", cwd=tmp_path, lease=50) as env:
        first = await env.info()
        with pytest.raises(ConfigError, match="other options: lease") as caught:
            await hermetic.open("local", task="t2", cwd=tmp_path, lease=60)
        assert caught.value.setting == "lease"
        async with hermetic.open("local", task="t2", cwd=tmp_path) as same:
            assert (await same.info()).pid == first.pid
        async with hermetic.open("local", task="t2", lease=60, replace=True) as new:
            assert (await new.info()).pid != first.pid
            with pytest.raises(EnvironmentUnavailable):
                await env.run("true")
            await new.close(remove=True)
    assert leftovers() == []


async def test_two_openers_of_one_task_share_one_environment() -> None:
    async with asyncio.timeout(60):
        opened = await asyncio.gather(*(hermetic.open("local", task="t3") for _ in range(5)))
    pids = {(await env.info()).pid for env in opened}
    assert len(pids) == 1
    for env in opened[1:]:
        await env.close()
    await opened[0].close(remove=True)


async def test_a_stale_record_makes_room_for_a_new_environment() -> None:
    env = await hermetic.open("local", task="t4")
    info = await env.info()
    os.kill(info.pid, 9)
    with pytest.raises(EnvironmentUnavailable):
        await env.processes()
    await env.close()
    async with hermetic.open("local", task="t4") as new:
        assert (await new.info()).pid != info.pid
        await new.close(remove=True)
    assert leftovers() == []


async def test_credentials_of_the_opener_stay_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "s3cret")
    monkeypatch.setenv("PASSED_TOKEN", "given")
    async with hermetic.open("local", passthrough=["PASSED_TOKEN"]) as env:
        assert (await env.run("echo $MY_TOKEN; echo $PASSED_TOKEN")).output == "\ngiven\n"
        info = await env.info()
        assert b"s3cret" not in variables(info.pid)


async def test_a_failing_start_says_why_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "hermetic.environments.local_resident.BOOT", "import sys; sys.exit('no luck today')"
    )
    with pytest.raises(EnvironmentUnavailable, match=r"(?s)did not start.*no luck today"):
        await hermetic.open("local")
    assert leftovers() == []


@pytest.mark.parametrize("is_cancelled", [False, True], ids=["unreachable", "cancelled"])
async def test_an_opening_that_breaks_off_leaves_nothing(
    is_cancelled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[EnvironmentRecord] = []
    reached = asyncio.Event()

    async def reach(self: Local, record: EnvironmentRecord) -> socket.socket:
        started.append(record)
        reached.set()
        if is_cancelled:
            await asyncio.Event().wait()
        raise ConnectionRefusedError("nobody listens")

    monkeypatch.setattr(Local, "reach", reach)
    opening = asyncio.ensure_future(_opened())
    async with asyncio.timeout(60):
        await reached.wait()
        if is_cancelled:
            opening.cancel()
        with pytest.raises(asyncio.CancelledError if is_cancelled else EnvironmentUnavailable):
            await opening
    (record,) = started
    assert leftovers() == []
    assert not lives(record.pid)
    assert not exists(record.spool)


async def _opened() -> hermetic.Environment:
    return await hermetic.open("local", task="breaks off")


async def test_what_cannot_be_opened_is_named() -> None:
    bad: list[tuple[dict[str, Any], str]] = [
        ({"kind": 5}, "kind"),
        ({"kind": None}, "kind"),
        ({"kind": []}, "kind"),
        ({"kind": "local", "task": 5}, "task"),
        ({"kind": "local", "task": ""}, "task"),
        ({"kind": "local", "env": {"A=B": "x"}}, "env"),
        ({"kind": "local", "lease": 0}, "lease"),
    ]
    for options, setting in bad:
        with pytest.raises(ConfigError) as caught:
            await hermetic.open(**options)
        assert caught.value.setting == setting
    with pytest.raises(InvalidArgument):
        await hermetic.attach(cast(str, 5))
    assert leftovers() == []


@pytest.mark.parametrize("with_output", [False, True], ids=["plain", "live"])
async def test_a_command_whose_environment_is_closed_under_it_is_lost(with_output: bool) -> None:
    env = await hermetic.open("local")
    process = await env.start("sleep 600")
    taken: list[bytes] = []
    options: dict[str, Any] = {"on_output": taken.append} if with_output else {}
    async with env.events() as events, asyncio.timeout(30):
        running = asyncio.ensure_future(env.run("echo begun; sleep 600", **options))
        assert (await anext(events)).event == "started"
        await env.close()
        assert (await running).ending == Lost("the environment was closed")
    with pytest.raises(EnvironmentUnavailable, match="closed"):
        await env.run("true")
    with pytest.raises(EnvironmentUnavailable, match="closed"):
        await process.status()


async def test_events_that_nobody_reads_at_the_close_are_no_complaint() -> None:
    complaints: list[str] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: complaints.append(context["message"])
    )
    env = await hermetic.open("local")
    env.events()
    await env.info()
    await env.close()
    del env
    await asyncio.sleep(0)  # what waited for the events hears of their end
    gc.collect()
    assert complaints == []
