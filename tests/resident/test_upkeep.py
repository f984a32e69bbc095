"""The resident's own bookkeeping fails: what runs goes on, and the resident is reachable again."""

import asyncio
import contextlib
import errno
import os
import resource
import shutil
import signal
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import hermetic
from hermetic import ExecutionError, Exited
from hermetic.environments.unix_socket import listeners
from hermetic.registry.records import Records
from hermetic.resident.life import upkeep
from hermetic.resident.life.guardian import hold, is_held, remove_held
from hermetic.resident.life.main import ErrorLog
from hermetic.resident.shells.session import Session
from tests.environments.engines import PODMAN, need_engine
from tests.programs import need, need_variable
from tests.scenarios.living import begin, shells_below

PATIENCE_SECONDS = 60


def directory_of(task: str) -> Path:
    """The directory of a task's environment on this machine."""
    records = Path(os.environ["HERMETIC_RUNTIME_DIR"]).glob("*/env.json")
    [found] = [path.parent for path in records if f'"{task}"' in path.read_text()]
    return found


async def settled(environment: hermetic.Environment, directory: Path) -> None:
    """Returns when there is a standby, and each shell has its channel open: what a cleaner finds
    has been idle.
    """
    resident = (await environment.info()).pid
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            shells = shells_below(resident)
            if len(shells) > 1 and all(waits_in(directory, pid) for pid in shells):
                return
            await asyncio.sleep(0.02)


def waits_in(directory: Path, pid: int) -> bool:
    try:
        return any(
            os.readlink(entry).startswith(f"{directory}/")
            for entry in Path(f"/proc/{pid}/fd").iterdir()
        )
    except OSError:
        return False


async def until(path: Path) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not path.exists():  # noqa: ASYNC110, ASYNC240 (no event tells)
            await asyncio.sleep(0.05)


async def test_a_resident_whose_directory_is_removed_goes_on_and_is_found_again() -> None:
    task = f"cleaned-{os.getpid()}"
    environment = await hermetic.open("local", task=task, login=False)
    try:
        directory, pid = directory_of(task), (await environment.info()).pid
        await environment.run("export KEPT=1")
        await settled(environment, directory)
        gate = directory.parent / f"{task}.gate"
        busy = await begin(
            environment.session("busy"),
            f"echo up; until [ -e {gate} ]; do sleep 0.05; done; exit 7",
        )
        shutil.rmtree(directory)
        assert (await environment.run("echo $KEPT")).output == "1\n"
        assert (await environment.run("exit 3")).exit_code == 3
        assert (await environment.run("echo $KEPT; export MORE=2")).output == "1\n"
        assert (await environment.session("new").run("echo new")).output == "new\n"
        gate.touch()
        assert (await busy).ending == Exited(7)
        gate.unlink()
        await until(directory / "env.json")
        await until(directory / "s")
        async with hermetic.attach(task) as again:
            assert (await again.info()).pid == pid
            assert (await again.run("echo $KEPT $MORE")).output == "1 2\n"
            parallel = await asyncio.gather(
                *(again.run(f"echo {number}; sleep 0.1") for number in range(3))
            )
            assert [result.output for result in parallel] == ["0\n", "1\n", "2\n"]
    finally:
        await environment.close(remove=True)
    assert not directory.exists()


async def test_names_that_a_cleaner_removes_are_made_anew() -> None:
    """The directory stays, and old files in it go: the socket, the channels of idle shells, the
    record.
    """
    task = f"aged-{os.getpid()}"
    environment = await hermetic.open("local", task=task, login=False)
    try:
        directory = directory_of(task)
        await environment.run("export KEPT=1")
        await settled(environment, directory)
        for path in directory.iterdir():
            path.unlink()
        await until(directory / "env.json")
        await until(directory / "s")
        async with hermetic.attach(task) as again:
            for _ in range(3):
                assert (await again.run("echo $KEPT; MORE=2")).output == "1\n"
    finally:
        await environment.close(remove=True)
    assert not directory.exists()


async def test_a_directory_that_another_resident_has_is_left_to_it() -> None:
    task = f"taken-{os.getpid()}"
    first = await hermetic.open("local", task=task, login=False)
    directory = directory_of(task)
    pid = (await first.info()).pid
    os.kill(pid, signal.SIGSTOP)  # else it may make its directory anew before the second one does
    try:
        shutil.rmtree(directory)
        second = await hermetic.open("local", task=task, login=False)
    finally:
        os.kill(pid, signal.SIGCONT)
    try:
        assert (await second.info()).pid != pid
        await second.run("export BY=second")
        for _ in range(3):
            assert (await first.run("echo fine; MORE=1")).output == "fine\n"
            assert (await second.run("echo $BY; MORE=1")).output == "second\n"
        await first.close(remove=True)
        async with hermetic.attach(task) as found:
            assert (await found.run("echo $BY")).output == "second\n"
    finally:
        await first.close(remove=True)
        await second.close(remove=True)
    assert not directory.exists()


@contextlib.contextmanager
def no_descriptors(pid: int) -> Iterator[None]:
    """A process that can open nothing more."""
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def tried(work: Awaitable[object]) -> None:
    """It ends, well or with an error of ours; never does it hang."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        with contextlib.suppress(ExecutionError):
            await work


async def test_out_of_descriptors_and_back_sessions_work_again() -> None:
    async with hermetic.open("local", login=False) as environment:
        info = await environment.info()
        await environment.run("export KEPT=1")
        other = environment.session("other")
        await other.run("export KEPT=2")
        long = await environment.start("echo up; sleep 1000")
        await long.wait_for("up", timeout=PATIENCE_SECONDS)
        with no_descriptors(info.pid):
            await tried(environment.run("true"))
            await tried(environment.run("export SET=1"))
            await tried(environment.run("exit 3"))
            await asyncio.gather(*(tried(other.run("export SET=1; sleep 0.1")) for _ in range(3)))
            await tried(environment.session("new").run("echo new"))
            await tried(environment.start("echo started"))
        async with asyncio.timeout(PATIENCE_SECONDS):
            for session in (environment, other, environment.session("new")):
                result = await session.run("NEXT=here; echo fine")
                assert result.output == "fine\n", result
                assert (await session.run("echo $NEXT")).output == "here\n"
            assert await long.kill(grace=0.5) is not None
        assert (await environment.info()).pid == info.pid


async def test_a_caller_that_no_descriptor_is_left_for_waits_and_costs_nothing() -> None:
    task = f"full-{os.getpid()}"
    environment = await hermetic.open("local", task=task, login=False)
    try:
        pid = (await environment.info()).pid
        with no_descriptors(pid):
            waiting = asyncio.ensure_future(hermetic.attach(task)._opened())
            before = processor_seconds(pid)
            await asyncio.sleep(1)  # a stretch of time to measure in
            assert processor_seconds(pid) - before < 0.5
        async with asyncio.timeout(PATIENCE_SECONDS), await waiting as again:
            assert (await again.run("echo fine")).output == "fine\n"
    finally:
        await environment.close(remove=True)


def test_what_cannot_be_written_to_the_error_log_is_lost(tmp_path: Path) -> None:
    log = ErrorLog(str(tmp_path / "removed" / "log"))
    try:
        raise ValueError("ours")
    except ValueError:
        log.write()
    (tmp_path / "removed").mkdir()
    try:
        raise ValueError("ours")
    except ValueError:
        log.write()
    assert "ValueError: ours" in (tmp_path / "removed" / "log").read_text()


async def all_wait(directory: Path) -> None:
    """The same of two sessions in a container or sandbox, where the channels have another path."""
    record = Records(directory.parent).read(directory.name)
    assert record is not None
    (resident,) = await listeners(directory)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            shells = shells_below(resident)
            if len(shells) >= 4 and all(has_open(pid, f"/{record.resident}-") for pid in shells):
                return
            await asyncio.sleep(0.02)


def has_open(pid: int, name: str) -> bool:
    try:
        return any(name in os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False


@pytest.mark.parametrize("kind", ["docker", PODMAN, "sandbox"])
async def test_a_directory_that_cannot_be_made_anew_costs_no_session(
    kind: str, tmp_path: Path
) -> None:
    """It is mounted from this host: once it is removed here, nothing can be made in it there."""
    task = f"unmade-{os.getpid()}"
    if kind == "sandbox":
        need("bwrap")
        options: dict[str, Any] = {"workspace": str(tmp_path)}
    else:
        need_engine(kind)
        options = {"image": need_variable("IMAGE_BASE")}
    environment = await hermetic.open(kind, task=task, **options)
    try:
        await environment.run("export KEPT=1")
        other = environment.session("other")
        await other.run("OTHER=2")
        await all_wait(directory_of(task))
        shutil.rmtree(directory_of(task))
        for number in range(5):
            result = await environment.run("echo $KEPT $MORE; MORE=$((MORE + 1))")
            assert isinstance(result.ending, Exited), result
            assert result.output == (f"1 {number}\n" if number else "1\n")
        assert (await other.run("exit 3")).ending == Exited(3)
        assert (await environment.session("new").run("echo new")).output == "new\n"
        results = await asyncio.gather(
            *(environment.run(f"echo {number}; sleep 0.1") for number in range(3))
        )
        assert [result.output for result in results] == ["0\n", "1\n", "2\n"]
    finally:
        await environment.close(remove=True)


@pytest.mark.parametrize("kind", [errno.EMFILE, errno.ENOENT])
def test_the_reason_that_a_command_has_no_standby_is_remembered(kind: int) -> None:
    """The note of the next command names it."""

    class Quota:
        def check(self) -> None:
            raise OSError(kind, os.strerror(kind))

    session: Any = SimpleNamespace(
        resident=SimpleNamespace(quota=Quota()), shortage="", has_standby=False
    )
    primary: Any = None
    Session._order_standby(session, primary)
    assert not session.has_standby
    assert session.shortage == os.strerror(kind)


def test_where_no_directory_can_be_made_the_resident_ends_once_nothing_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that is lost then says why, and callers open another environment."""
    monkeypatch.setattr(upkeep, "OTHER_BASES", (str(tmp_path / "none"),))
    base = tmp_path / "base"
    (base / "own").mkdir(parents=True)
    later: list[Callable[[], None]] = []
    running: list[str] = []
    ends: list[float] = []
    resident: Any = SimpleNamespace(
        directory=str(base / "own"),
        channel_directory=str(base / "own"),
        id="e-1",
        sessions={},
        running=lambda: running,
    )
    loop = SimpleNamespace(call_later=lambda seconds, call: later.append(call))
    life: Any = SimpleNamespace(
        loop=loop, ending=False, guardian=None, end=lambda grace, done: ends.append(grace)
    )
    server: Any = None
    kept = upkeep.Upkeep(resident, life, server)
    shutil.rmtree(base / "own")
    base.chmod(0o777)  # not ours alone: nothing is made anew there
    later.clear()
    for runs in (["job"], []):
        running[:] = runs
        with pytest.raises(OSError, match="no other can be made"):
            kept.regain()
        later.pop()()
        assert bool(ends) is not bool(runs)


def test_a_guardian_removes_no_later_directory_of_the_same_task(tmp_path: Path) -> None:
    directory = tmp_path / "t-1"
    for _ in range(20):  # a file system may give the number of a removed directory to the next one
        directory.mkdir()
        (directory / "s").touch()
        held = hold(str(directory))
        assert held is not None
        assert is_held(held, str(directory))
        shutil.rmtree(directory)
        directory.mkdir()
        assert not is_held(held, str(directory))
        remove_held(held, str(directory))
        assert directory.exists()
        os.close(held)
        directory.rmdir()


def test_a_guardian_removes_its_own_directory(tmp_path: Path) -> None:
    directory = tmp_path / "t-1"
    directory.mkdir()
    (directory / "s").touch()
    held = hold(str(directory))
    assert held is not None
    remove_held(held, str(directory))
    os.close(held)
    assert not directory.exists()
