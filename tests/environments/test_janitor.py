"""What a resident leaves on this host is taken away when it ends, though nobody who opened it lives
any more.
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest

import hermetic
from hermetic.contract.environment import EnvironmentRecord
from hermetic.environments import catalog
from hermetic.registry import janitor, janitor_process
from hermetic.registry.host_process import ended as gone
from hermetic.registry.records import Records, runtime_root
from tests.cli.program import eventually
from tests.environments import unguarded as unguarded_kind
from tests.environments.unguarded import KIND
from tests.sizes import scale

ROOT = Path(__file__).parents[2]
UNGUARDED = (unguarded_kind, "Unguarded")  # as the catalog has it

OPENER = f"""
import asyncio, sys, hermetic
from hermetic.environments import catalog
from tests.environments import unguarded
catalog.KINDS["{KIND}"] = (unguarded, "Unguarded")
async def main():
    print("begun", flush=True)
    env = await hermetic.open("{KIND}", lease=float(sys.argv[1]), unattended=float(sys.argv[1]))
    print("open", flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""


@pytest.fixture(autouse=True)
def unguarded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(dict_of_kinds(), KIND, UNGUARDED)


@pytest.fixture(autouse=True)
def nothing_on_this_host(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # on a disk, where others have theirs too
    with TemporaryDirectory(prefix="hm-spool-", dir="/var/tmp") as spool:
        monkeypatch.setenv("HERMETIC_SPOOL_DIR", spool)
        yield
        eventually(lambda: os.listdir(runtime_root()) == os.listdir(spool) == [], seconds=60)


def dict_of_kinds() -> dict[str, tuple[Any, str]]:
    kinds = catalog.KINDS
    assert isinstance(kinds, dict)
    return kinds


def janitors() -> list[int]:
    """The janitors of the test's own runtime directory: nobody else's are below this process."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [int(pid) for pid in children if command(pid).rstrip("\0") == "hermetic-janitor"]


def command(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def opener(lease: float) -> "subprocess.Popen[bytes]":
    words = [sys.executable, "-c", OPENER, str(lease)]
    return subprocess.Popen(
        words, cwd=ROOT, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )


def comm(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


def rss_of(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) << 10


def test_a_killed_caller_leaves_nothing_after_the_lease() -> None:
    for _ in range(scale(20)):
        with opener(lease=0.2) as caller:
            assert caller.stdout is not None
            assert caller.stdout.readline() == b"begun\n"
            assert caller.stdout.readline() == b"open\n"
            assert len(Records(runtime_root()).all()) >= 1
            caller.kill()


def test_a_caller_killed_while_it_opens_leaves_nothing() -> None:
    with opener(lease=0.2) as caller:
        assert caller.stdout is not None
        caller.stdout.readline()
        began = time.monotonic()
        assert caller.stdout.readline() == b"open\n"
        took = time.monotonic() - began
        caller.kill()
    turns = scale(60)
    for turn in range(turns):
        with opener(lease=0.2) as caller:
            assert caller.stdout is not None
            caller.stdout.readline()
            time.sleep(took * turn / turns)  # each opening is cut at another point
            caller.kill()


async def test_one_janitor_serves_many_and_ends_with_the_last() -> None:
    environments = await asyncio.gather(*(hermetic.open(KIND) for _ in range(8)))
    [pid] = janitors()
    assert "hermetic-janitor".startswith(comm(pid))
    assert rss_of(pid) < 16 << 20
    for environment in environments:
        await environment.close()
    async with asyncio.timeout(20):
        await gone(pid)


async def test_a_resident_that_ends_by_itself_leaves_nothing() -> None:
    env = await hermetic.open(KIND, task="ends")
    record = Records(runtime_root()).find("ends")
    assert record is not None
    os.kill(record.pid, signal.SIGTERM)
    eventually(
        lambda: not Path(record.directory).exists() and not Path(record.spool or "").exists()
    )
    await env.close()


async def test_the_next_life_of_a_task_is_not_touched() -> None:
    for _ in range(scale(50)):
        env = await hermetic.open(KIND, task="again")
        record = Records(runtime_root()).find("again")
        assert record is not None
        os.kill(record.pid, signal.SIGTERM)
        await gone(record.pid)
        async with hermetic.open(KIND, task="again") as new:
            assert (await new.run("echo alive")).output == "alive\n"
        await env.close()
        async with hermetic.attach("again") as found:
            assert (await found.run("echo still")).output == "still\n"
            await found.close(remove=True)


async def test_a_killed_janitor_is_replaced() -> None:
    first = await hermetic.open(KIND)
    [pid] = janitors()
    os.kill(pid, signal.SIGKILL)
    async with asyncio.timeout(20):
        await gone(pid)
    async with hermetic.open(KIND, task="later", lease=0.1):
        pass
    eventually(lambda: [record.id for record in Records(runtime_root()).all()] == [first.id])
    await first.close()


async def test_an_opener_that_met_a_janitor_about_to_end_is_heard_by_the_next() -> None:
    """It connects after the last look at who wants to, and before nobody listens any more."""
    records, path = Records(runtime_root()), str(runtime_root() / janitor.NAME)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(path)
        listener.listen()
        opening = asyncio.create_task(open_and_go_away(records))
        await readable(listener)
        os.unlink(path)
    async with asyncio.timeout(20):
        await opening


async def open_and_go_away(records: Records) -> None:
    """As a caller that is killed while it opens."""
    async with janitor.JanitorClient(records, "e-00", is_wanted=True) as client:
        records.make_directory("e-00")
        (records.root / "e-00.lock").touch()
        client.made()


async def readable(listener: socket.socket) -> None:
    """Returns when somebody has connected."""
    there, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_reader(listener, there.set)
    async with asyncio.timeout(20):
        await there.wait()
    loop.remove_reader(listener)


def test_what_an_opener_said_before_it_left_counts_though_it_read_no_reply(tmp_path: Path) -> None:
    outcomes: list[bool] = []

    class Opener(janitor_process.OpenerConnection):
        def closed(self, files: janitor_process.HostFiles, *, is_done: bool) -> None:
            outcomes.append(is_done)
            files.close()

    ours = janitor_process.Janitor(str(tmp_path))
    there, here = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours.listener, here:
        opener = Opener(ours, here)
        ours.wait(here.fileno(), opener.read)
        there.send(b'{"id": "e-00", "spool": "", "check": null}')
        opener.read()  # and replies
        there.send(b"made")
        there.send(b"done")
        there.close()
        while not outcomes:
            opener.read()
    assert outcomes == [True]


async def test_a_failed_start_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.environments.unguarded.BOOT", "raise SystemExit(1)")
    with pytest.raises(hermetic.EnvironmentUnavailable):
        await hermetic.open(KIND)


async def test_without_a_janitor_environments_open_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(janitor, "PROGRAM", Path("/nonexistent"))
    async with hermetic.open(KIND) as env:
        assert (await env.run("echo here")).output == "here\n"


async def test_asking_a_janitor_costs_little() -> None:
    async with hermetic.open(KIND) as env:
        records, took = Records(runtime_root()), []
        record = records.read(env.id)
        assert record is not None
        pid = record.pid
        for _ in range(50):
            began = time.perf_counter()
            async with janitor.JanitorClient(records, env.id, is_wanted=True) as client:
                client.made()
                assert await client.up(pid)
                took.append(time.perf_counter() - began)
        assert median(took) < 0.02  # it is below 1 ms on a quiet machine


def test_checks_that_cannot_look_grow_apart_and_are_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that is gone for good: no check for ever, and the record says so."""
    records, looks = Records(tmp_path), tmp_path / "looks"
    records.make_directory("e-00")
    written = EnvironmentRecord(
        id="e-00",
        kind="ssh",
        task=None,
        options={},
        created=time.time(),
        directory=str(tmp_path / "e-00"),
        spool=None,
        socket="s",
        token=b"\x00\xff",
        resident="e-00.1",
        pid=1,
        guardian=None,
        notes=("weak",),
    )
    records.write(written)
    waited: list[float] = []

    def is_there_after(seconds: float, files: janitor_process.HostFiles) -> bool:
        waited.append(seconds)
        return files.has_directory

    monkeypatch.setattr(janitor_process, "is_there_after", is_there_after)
    monkeypatch.setattr(janitor_process, "watch_removals", lambda root: None)
    files = janitor_process.HostFiles(str(tmp_path), "e-00")
    files.made()
    words = ["/bin/sh", "-c", f"echo look >> {looks}; exit {janitor_process.UNREACHABLE}"]
    files.check = janitor_process.LivenessCheck(0.2, 0.2, words, {})
    janitor_process.check_later(str(tmp_path), files)
    files.close()
    assert looks.read_text().split() == ["look"] * janitor_process.MOST_FAILURES
    assert all(later >= 2 * sooner for sooner, later in pairwise(waited))
    noted = records.read("e-00")
    assert noted is not None
    assert noted.notes[0] == "weak"
    assert "no more is tried; `hermetic gc e-00` looks again" in noted.notes[1]
    assert msgspec.structs.replace(noted, notes=written.notes) == written


def test_checks_of_what_lives_grow_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    def is_there_after(seconds: float, files: janitor_process.HostFiles) -> bool:
        waited.append(seconds)
        return len(waited) < 40

    monkeypatch.setattr(janitor_process, "is_there_after", is_there_after)
    monkeypatch.setattr(janitor_process, "watch_removals", lambda root: None)
    files = janitor_process.HostFiles(str(tmp_path), "e-00")
    files.check = janitor_process.LivenessCheck(0.2, 0.2, ["/bin/true"], {})
    janitor_process.check_later(str(tmp_path), files)
    assert len(waited) == 40
    assert waited[-1] == janitor_process.LONGEST_PAUSE + janitor_process.SLACK_SECONDS
