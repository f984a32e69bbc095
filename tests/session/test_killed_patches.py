"""A resident that is killed amid a change of many files: all of it is there in the end, or none."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import hermetic
from hermetic.contract.files import FileChange
from hermetic.registry.host_process import ended
from hermetic.resident.files.journal import CHANGING
from hermetic.resident.wire import frames
from hermetic.session.keeping import record_of
from tests.environments.apptainers import Apptainers, container_of, watchdog_of
from tests.environments.engines import ask, containers, need_engine
from tests.environments.sandboxes import kept_of
from tests.programs import need, need_variable
from tests.sizes import is_full, scale

FILES = 120
# bytes of each file: what is large is changed by a child of the resident
PLACES = {"small": 10, "large": 20_000}


def prepare(directory: Path, size: int) -> list[FileChange]:
    """Every third file is to be written anew, every third to go, every third to come, in
    directories old and new.
    """
    changes = []
    for number in range(FILES):
        folder = directory / f"d{number % 4}" if number % 3 else directory / f"new{number % 8}"
        path = folder / f"f{number}"
        if number % 3:
            folder.mkdir(exist_ok=True)
            path.write_bytes(b"old" * size)
        content = None if number % 3 == 1 else b"new" * size
        changes.append(FileChange(path=str(path), content=content))
    return changes


def moved(changes: list[FileChange], here: Path, inside: str) -> list[FileChange]:
    """The same changes by the paths that a container knows."""
    return [
        FileChange(path=one.path.replace(str(here), inside, 1), content=one.content)
        for one in changes
    ]


def state_of(directory: Path, changes: list[FileChange], size: int) -> str:
    """`old` or `new` when all files are so, and no other file is there; what is amiss otherwise."""
    found = {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    old = {one.path: b"old" * size for number, one in enumerate(changes) if number % 3}
    new = {one.path: one.content for one in changes if one.content is not None}
    if found == old:
        return "old"
    return "new" if found == new else f"half: {sorted(set(found) ^ set(old))}"


async def kill_amid(directory: Path, size: int, delay: float | None) -> tuple[str, float]:
    """What the files are like after the resident was killed that long after it was asked; how long
    it was at it.
    """
    changes = prepare(directory, size)
    async with hermetic.open("local", cwd=str(directory), login=False) as env:
        record = record_of(env)
        assert record.guardian is not None
        began = time.monotonic()
        asked = asyncio.ensure_future(env._files.change(changes, None))
        await asyncio.wait([asked], timeout=delay)
        seconds = time.monotonic() - began
        os.kill(record.pid, signal.SIGKILL)
        with contextlib.suppress(hermetic.ExecutionError):
            await asked
        async with asyncio.timeout(30):
            await ended(record.guardian)
    return state_of(directory, changes, size), seconds


@pytest.mark.parametrize("size", PLACES.values(), ids=PLACES)
async def test_a_resident_that_is_killed_leaves_the_whole_change_or_nothing_of_it(
    tmp_path: Path, size: int
) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    state, longest = await kill_amid(whole, size, None)
    assert state == "new"
    seen = set()
    turns = scale(200)
    for turn in range(turns):
        directory = tmp_path / str(turn)
        directory.mkdir()
        seen.add((await kill_amid(directory, size, longest * (turn + 1) / turns))[0])
    assert seen <= {"old", "new"}
    assert "old" in seen


class Lasting(NamedTuple):
    """An environment whose resident has no guardian, and a directory of it that outlives it."""

    kind: str
    options: dict[str, Any]
    here: Path
    inside: str

    def open(self) -> Any:
        """A new environment there."""
        return hermetic.open(self.kind, login=False, **self.options)


@pytest.fixture
def lasting(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lasting]:
    """One of a kind."""
    here = tmp_path / "project"
    here.mkdir()
    if kind == "sandbox":
        need("bwrap")
        yield Lasting(kind, {"workspace": str(here)}, here, str(here))
    elif kind == "apptainer":
        made = Apptainers(tmp_path / "scratch", monkeypatch)
        overlay = tmp_path / "overlay"
        (overlay / "home").mkdir(parents=True)
        yield Lasting(
            kind, {"image": made.image, "overlay": str(overlay)}, overlay / "home", "/root"
        )
    else:
        need_engine(kind)
        yield Lasting(
            kind, {"image": need_variable("IMAGE_BASE"), "host_cwd": str(here)}, here, "/workspace"
        )


def resident_of(env: hermetic.Environment) -> int:
    """Its process on this machine."""
    kind = record_of(env).kind
    if kind == "sandbox":
        return kept_of(env).processes[0].pid
    if kind == "apptainer":
        return _named("hermetic-reside", below=container_of(watchdog_of(env)))
    (name,) = containers(kind, f"hermetic.id={env.id}")
    return int(ask(kind, ["inspect", "--format", "{{.State.Pid}}", name]))


def _named(name: str, below: int) -> int:
    children = " ".join(path.read_text() for path in Path(f"/proc/{below}/task").glob("*/children"))
    for pid in map(int, children.split()):
        if Path(f"/proc/{pid}/comm").read_text().startswith(name):
            return pid
        with contextlib.suppress(LookupError):
            return _named(name, below=pid)
    raise LookupError(name)


# Every kind, and both ways of a change; at full size every kind with both, and podman.
LEFT = [("docker", "large"), ("sandbox", "small"), ("apptainer", "small")]
LEFT += (
    [
        ("docker", "small"),
        ("podman", "small"),
        ("podman", "large"),
        ("sandbox", "large"),
        ("apptainer", "large"),
    ]
    if is_full()
    else []
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "size"), [(kind, PLACES[size]) for kind, size in LEFT], ids=map("-".join, LEFT)
)
async def test_the_next_environment_there_takes_back_what_a_killed_one_left(
    lasting: Lasting, size: int
) -> None:
    # the journal is the same everywhere; only the way to it differs
    least = 4 if lasting.kind == "sandbox" else 2
    seen, turns, longest = set(), max(least, scale(25)), 0.0
    for turn in range(-1, 10 * turns):
        if turn >= turns and "old" in seen:  # else a kill came late, and another one gets its turn
            break
        directory = lasting.here / f"turn{turn}"
        directory.mkdir()
        changes = prepare(directory, size)
        async with lasting.open() as env:
            pid, began = resident_of(env), time.monotonic()
            asked = asyncio.ensure_future(
                env._files.change(moved(changes, lasting.here, lasting.inside), None)
            )
            await asyncio.wait(
                [asked], timeout=longest * (turn % turns) / turns if longest else None
            )
            longest = longest or time.monotonic() - began
            os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(hermetic.ExecutionError):
                await asked
        async with lasting.open():
            seen.add(state_of(directory, changes, size))
    assert seen <= {"old", "new"}
    assert "old" in seen
    assert [
        path.name for path in lasting.here.iterdir() if path.name.startswith(".hermetic-")
    ] == []


async def test_a_journal_that_came_with_the_files_is_not_obeyed(tmp_path: Path) -> None:
    need("bwrap")
    kept = tmp_path / "kept"
    kept.write_text("kept")
    where = os.stat(tmp_path)
    entry = [
        os.fsencode(tmp_path),
        (where.st_dev, where.st_ino),
        b"kept",
        ".hermetic-a",
        ".hermetic-b",
        True,
    ]
    journal = tmp_path / f"{CHANGING}0123456789abcdef"
    for inode in (0, -1, None):
        journal.write_bytes(frames.pack([inode, [entry], []]))
        async with hermetic.open("sandbox", workspace=str(tmp_path), login=False):
            assert kept.read_text() == "kept"
    assert journal.exists()
