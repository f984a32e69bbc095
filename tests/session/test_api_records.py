"""Records that are damaged or changed: no second environment beside a living one, and nothing of
others is removed.
"""

import asyncio
import errno
import os
import signal
from pathlib import Path
from typing import Any

import msgspec
import pytest

import hermetic
from hermetic import Unreachable
from hermetic.environments.docker import Docker
from hermetic.environments.ssh import Ssh
from hermetic.environments.unix_socket import listeners
from hermetic.registry.host_process import ended
from hermetic.registry.records import RECORD, Records, runtime_root
from tests.cli.program import hermetic as program
from tests.environments.engines import ask, need_engine
from tests.programs import need_variable
from tests.scenarios.living import is_alive
from tests.sizes import at_full_size


def damage(task: str) -> int:
    """Overwrites the task's record; the resident's pid."""
    records = Records(runtime_root())
    record = records.of_task(task)
    assert record is not None
    (records.root / record.id / RECORD).write_text("{half")
    return record.pid


@pytest.mark.parametrize("kind", ["local", "docker"])
async def test_a_damaged_record_of_a_living_environment_gives_no_second_one(kind: str) -> None:
    options: dict[str, Any] = {}
    if kind == "docker":
        need_engine(kind)
        options = {"image": need_variable("IMAGE_BASE")}
    async with hermetic.open(kind, task="harmed", **options) as env:
        await env.run("X=1")
        damage("harmed")
        (pid,) = await listeners(runtime_root() / env.id)
        for attempt in (
            hermetic.open(kind, task="harmed", **options),
            hermetic.attach("harmed"),
            hermetic.attach(env.id),
        ):
            with pytest.raises(Unreachable, match="hermetic rm") as caught:
                await attempt
            assert caught.value.state == "damaged"
        assert (await env.run("echo $X")).output == "1\n"
        assert program("gc").returncode == 0
        assert f"hermetic rm {env.id}" in program("envs").stderr.decode()
        assert (await env.run("echo $X")).output == "1\n"
        done = program("rm", "harmed")
        assert done.stdout.decode() == f"harmed: its record was damaged; ended process {pid}\n", (
            done.stderr
        )
        await ended(pid)
    assert not is_alive(pid)
    async with hermetic.open(kind, task="harmed", **options) as new:
        assert (await new.run('echo "[$X]"')).output == "[]\n"
        await new.close(remove=True)
    assert os.listdir(runtime_root()) in ([], ["janitor"])


@pytest.mark.parametrize("kind", ["local", *at_full_size("docker")])
async def test_a_missing_record_of_a_living_environment_gives_no_second_one(kind: str) -> None:
    """Its resident writes it again where it has seen it; else the environment is damaged."""
    options: dict[str, Any] = {}
    if kind == "docker":
        need_engine(kind)
        options = {"image": need_variable("IMAGE_BASE")}
    env = await hermetic.open(kind, task="missing", **options)
    try:
        await env.run("X=1")
        path = runtime_root() / env.id / RECORD
        path.unlink()
        try:
            async with hermetic.open(kind, task="missing", **options) as again:
                assert (await again.run("echo $X")).output == "1\n"
        except Unreachable as error:
            assert error.state == "damaged"  # noqa: PT017
            assert "it is missing" in str(error)  # noqa: PT017
        assert (await env.run("echo $X")).output == "1\n"
        path.unlink(missing_ok=True)
        (pid,) = await listeners(runtime_root() / env.id)
        done = program("rm", "missing")
        assert done.returncode == 0, done.stderr
        await ended(pid)
    finally:
        await env.close()


async def test_a_record_that_is_a_directory_is_damaged() -> None:
    async with hermetic.open("local", task="folder", login=False) as env:
        path = runtime_root() / env.id / RECORD
        path.unlink()
        path.mkdir()
        with pytest.raises(Unreachable, match="hermetic rm") as caught:
            await hermetic.open("local", task="folder", login=False)
        assert caught.value.state == "damaged"
        for words in (["ps"], ["envs"], ["rm", "folder"]):
            done = program(*words)
            assert done.returncode == 0, done.stderr


async def test_a_damaged_record_of_an_environment_that_is_gone_makes_room() -> None:
    env = await hermetic.open("local", task="harmed", login=False)
    info = await env.info()
    for pid in (info.guardian, info.pid):  # the guardian would take the directory away
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await ended(pid)
    await env.close()
    damage("harmed")
    async with hermetic.open("local", task="harmed", login=False) as new:
        assert (await new.run("echo new")).output == "new\n"
        await new.close(remove=True)


async def test_a_full_disk_under_the_records_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Records, record: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Records, "write", full)
    with pytest.raises(hermetic.EnvironmentUnavailable, match="HERMETIC_RUNTIME_DIR") as caught:
        await hermetic.open("local", login=False)
    assert str(runtime_root()) in str(caught.value)


async def test_gc_says_what_could_not_be_asked() -> None:
    async with hermetic.open("local", task="held", login=False) as env:
        pid = (await env.info()).pid
        os.kill(pid, signal.SIGSTOP)
        try:
            done = await asyncio.to_thread(program, "gc")
        finally:
            os.kill(pid, signal.SIGCONT)
        assert done.returncode == 0
        assert b"hermetic rm held" in done.stderr
        await env.close(remove=True)


async def test_rm_of_a_changed_record_removes_nothing_that_is_not_its_own(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "work").write_text("mine")
    records = Records(runtime_root())
    for change in (
        {"spool": str(precious)},
        {"directory": str(precious)},
        {"spool": str(precious), "pid": 1 << 22},
    ):
        env = await hermetic.open("local", task="changed", login=False)
        record = records.of_task("changed")
        assert record is not None
        given = msgspec.to_builtins(record) | change
        (records.root / record.id / RECORD).write_bytes(msgspec.json.encode(given))
        assert program("rm", "changed").returncode == 0
        assert not is_alive(record.pid)
        await env.close()
    assert (precious / "work").read_text() == "mine"


async def test_rm_of_a_changed_record_removes_no_other_container() -> None:
    need_engine("docker")
    image = need_variable("IMAGE_BASE")
    records = Records(runtime_root())
    async with hermetic.open("docker", task="other", image=image) as other:
        victim = records.of_task("other")
        env = await hermetic.open("docker", task="changed", image=image)
        record = records.of_task("changed")
        assert record is not None
        assert victim is not None
        given = msgspec.structs.replace(
            record, place=record.place | {"container": victim.place["container"]}
        )
        with pytest.raises(Unreachable, match="not made for it"):
            await Docker(record.options).remove(given)
        assert (await other.run("echo here")).output == "here\n"
        await env.close(remove=True)
        await other.close(remove=True)
    assert (
        ask("docker", ["ps", "--all", "--quiet", "--filter", f"name={record.place['container']}"])
        == ""
    )


async def test_nothing_of_others_is_removed_on_another_machine() -> None:
    ssh = Ssh({"host": "nowhere.invalid"})
    records = Records(runtime_root())
    async with hermetic.open("local", task="there", login=False) as env:
        record = records.of_task("there")
        assert record is not None
        for place, resident in (
            ({"directory": "/srv", "spool": ""}, "srv"),
            ({"directory": "/a/b", "spool": ""}, "x"),
        ):
            with pytest.raises(Unreachable, match="not made for it"):
                await ssh.remove(msgspec.structs.replace(record, place=place, resident=resident))
        await env.close(remove=True)
