"""What killed processes left is taken away; what lives, is being opened, or belongs elsewhere is
not.
"""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import hermetic
from hermetic.cli.command import BAD_USAGE, FAILED
from hermetic.cli.dispatch import main
from hermetic.contract.environment import Abandoned, EnvironmentRecord
from hermetic.contract.errors import Unreachable
from hermetic.environments import catalog
from hermetic.environments.local import Local
from hermetic.fleet.garbage import collect
from hermetic.registry.host_process import ended as gone
from hermetic.registry.janitor import NAME as JANITOR
from hermetic.registry.janitor_process import UNREACHABLE
from hermetic.registry.records import Records, id_for_task, new_id, runtime_root
from tests.cli.program import as_json
from tests.cli.program import hermetic as command
from tests.environments.test_janitor import UNGUARDED, dict_of_kinds, janitors
from tests.environments.unguarded import KIND


@pytest.fixture(autouse=True)
def spool(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with TemporaryDirectory(prefix="hm-spool-", dir="/var/tmp") as directory:
        monkeypatch.setenv("HERMETIC_SPOOL_DIR", directory)
        yield Path(directory)


@pytest.fixture
def records() -> Records:
    return Records(runtime_root())


def names(root: Path) -> list[str]:
    return sorted(os.listdir(root))


def stale(records: Records, spool: Path, *, pid: int, created: float) -> EnvironmentRecord:
    id = new_id()
    directory = records.make_directory(id)
    own = spool / f"{id}.{records.tag}.x"
    own.mkdir()
    record = EnvironmentRecord(
        id=id,
        kind="local",
        task=None,
        options={},
        created=created,
        directory=str(directory),
        spool=str(own),
        socket=str(directory / "s"),
        token=b"t",
        resident="r",
        pid=pid,
        guardian=None,
    )
    records.write(record)
    return record


@contextmanager
def litter(records: Records, spool: Path) -> Iterator[list[Path]]:
    """What openers leave that are killed at the worst moments."""
    id = new_id()
    left = [
        records.root / new_id(),  # no record yet
        records.root / f".{new_id()}.0123",  # moved away, not yet removed
        spool / f"{id}.{records.tag}.0123",
    ]
    for path in left:
        path.mkdir()
        (path / "file").touch()
    lock = records.root / f"{new_id()}.lock"
    lock.touch()
    left.append(lock)
    yield left
    for path in left:
        assert not path.exists()


async def test_what_killed_openers_left_is_taken_away(records: Records, spool: Path) -> None:
    with litter(records, spool):
        removed = await collect(records)
    assert sorted(one.what for one in removed) == ["directory", "directory", "lock", "spool"]
    assert names(records.root) == names(spool) == []
    assert await collect(records) == []


async def test_the_record_of_a_dead_resident_goes_with_all_it_has(
    records: Records, spool: Path
) -> None:
    record = stale(records, spool, pid=2**22, created=time.time())
    [removed] = await collect(records)
    assert (removed.what, removed.name) == ("environment", record.id)
    assert names(records.root) == names(spool) == []


async def test_a_younger_process_with_a_dead_residents_number_is_not_touched(
    records: Records, spool: Path
) -> None:
    async with hermetic.open("local", login=False) as env:
        pid = (await env.info()).pid
        record = stale(records, spool, pid=pid, created=time.time() - 3600)
        assert [one.name for one in await collect(records)] == [record.id]
        assert (await env.run("echo alive")).output == "alive\n"
        assert (await env.info()).pid == pid


async def test_what_lives_is_left_alone(records: Records, spool: Path) -> None:
    async with (
        hermetic.open("local", login=False) as env,
        hermetic.open("local", task="lives", login=False) as other,
    ):
        before = names(records.root), names(spool)
        assert await collect(records) == []
        assert (names(records.root), names(spool)) == before
        assert (await env.run("echo alive")).output == "alive\n"
        await other.close(remove=True)


async def test_what_somebody_is_opening_is_left_alone(records: Records, spool: Path) -> None:
    id = id_for_task("being opened")
    async with records.lock(id):
        records.make_directory(id)
        own = spool / f"{id}.{records.tag}.1"
        own.mkdir()
        assert await collect(records) == []
        assert (records.root / id).exists()
        assert own.exists()
    assert len(await collect(records)) == 2


async def test_a_resident_that_nobody_knows_of_is_left_to_its_lease(records: Records) -> None:
    env = await hermetic.open("local", login=False)
    info = await env.info()
    file = records.root / env.id / "env.json"
    kept = file.read_bytes()
    file.unlink()
    assert await collect(records) == []
    assert (await env.run("echo alive")).output == "alive\n"
    file.write_bytes(kept)
    await env.close()
    await gone(info.pid)


async def test_the_spools_of_other_runtime_directories_are_left_alone(
    records: Records, spool: Path
) -> None:
    foreign = spool / f"{new_id()}.{'0' * 16}.1234"
    foreign.mkdir()
    (spool / "something else").mkdir()
    assert await collect(records) == []
    assert foreign.exists()


async def test_the_socket_of_a_killed_janitor_is_removed(
    records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(dict_of_kinds(), KIND, UNGUARDED)
    async with hermetic.open(KIND) as env:
        [pid] = janitors()
        assert await collect(records) == []
        os.kill(pid, signal.SIGKILL)
        async with asyncio.timeout(20):
            await gone(pid)
        assert [one.name for one in await collect(records)] == [JANITOR]
        assert (await env.run("echo alive")).output == "alive\n"


class Boxes(Local):
    """A kind whose places can be left behind."""

    kind = "boxes"
    left: tuple[str, ...] = ()

    @classmethod
    async def collect(cls, root: str, abandoned: Abandoned) -> list[str]:
        """Takes away every box that is abandoned."""
        assert root == str(runtime_root())
        taken = []
        for id in cls.left:
            async with abandoned(id) as it_is:
                if it_is:
                    taken.append(f"box {id}")
        return taken


async def test_each_kind_takes_away_its_own_places(
    records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(dict_of_kinds(), "boxes", (sys.modules[__name__], "Boxes"))
    opened = await hermetic.open("local", login=False)
    busy, free = new_id(), new_id()
    monkeypatch.setattr(catalog.find("boxes"), "left", (opened.id, busy, free))
    async with records.lock(busy):
        assert [(one.what, one.name) for one in await collect(records)] == [
            ("place", f"box {free}")
        ]
    await opened.close()


def test_the_command_line_collects(records: Records, spool: Path) -> None:
    with litter(records, spool):
        removed = as_json("gc")
    assert len(removed) == 4
    with litter(records, spool):
        done = command("gc")
    assert done.returncode == 0
    assert len(done.stdout.decode().splitlines()) == 4
    assert command("gc").stdout == b""


def test_a_name_without_an_environment_is_refused(records: Records) -> None:
    with hermetic.blocking.open("local", task="living", login=False) as living:
        for name in ("living", living.id, living.id[:5]):
            done = command("gc", name)
            assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        for name in ("livin", new_id()):
            done = command("gc", "living", name)
            assert (done.returncode, done.stdout) == (FAILED, b"")
            assert f"no environment '{name}' is known here".encode() in done.stderr
        living.close(remove=True)


def test_where_a_service_does_not_answer_nothing_is_known_to_be_gone(
    records: Records, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The janitor tries again after such an end, for what a killed opener has created there."""

    async def collect_nothing(root: str, abandoned: Abandoned) -> list[str]:
        raise Unreachable("the service does not answer")

    monkeypatch.setattr(Local, "orphans", True, raising=False)
    monkeypatch.setattr(Local, "collect", collect_nothing, raising=False)
    assert main(["gc", new_id()]) == UNREACHABLE
    assert capfd.readouterr().err == "hermetic: the service does not answer\n"


def test_a_dead_environment_is_collected_by_its_task(records: Records) -> None:
    dead = hermetic.blocking.open("local", task="dead", login=False)
    record = records.read(dead.id)
    dead.close(remove=True)
    assert record is not None
    records.make_directory(record.id)
    records.write(record)
    assert command("gc", "dead", "dead").stdout.split() == [b"environment", b"dead"]
    assert records.all() == []


def test_nothing_is_removed_when_a_name_is_the_start_of_several_ids(
    records: Records, spool: Path
) -> None:
    dead = [stale(records, spool, pid=1 << 30, created=time.time()) for _ in range(2)]
    done = command("gc", dead[0].id, "e-")
    assert (done.returncode, done.stdout) == (BAD_USAGE, b"")
    assert len(records.all()) == len(dead)
    for record in dead:
        assert command("gc", record.id).returncode == 0
    assert records.all() == []


def test_one_that_cannot_be_looked_at_is_left_and_said_so(records: Records) -> None:
    id = new_id()
    directory = records.make_directory(id)
    records.write(
        EnvironmentRecord(
            id=id,
            kind="ssh",
            task=None,
            options={"host": "nowhere.invalid"},
            created=time.time(),
            directory=str(directory),
            spool=None,
            socket="/s",
            token=b"t",
            resident=f"{id}.1",
            pid=1,
            guardian=None,
        )
    )
    done = command("gc", id)
    assert done.returncode == UNREACHABLE, done.stderr
    assert b"nowhere.invalid" in done.stderr
    assert [record.id for record in records.all()] == [id]
    records.discard(id)
