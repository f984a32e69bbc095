"""A resident that is killed amid a change of many files leaves all of it or none."""

import asyncio
import contextlib
import os
import signal
import time
from pathlib import Path

import pytest

import hermetic
from hermetic.contract.files import FileChange
from hermetic.environments.starting import ended
from hermetic.session.keeping import record_of
from tests.sizes import scale

FILES = 120
PLACES = {"small": 10, "large": 20_000}  # bytes of each file: what is large is changed by a child of the resident


def prepare(directory: Path, size: int) -> list[FileChange]:
    """Every third file is to be written anew, every third to go, every third to come, in directories old and new."""
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


def state_of(directory: Path, changes: list[FileChange], size: int) -> str:
    """`old` or `new` when all files are so, and no other file is there; what is amiss otherwise."""
    found = {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    old = {one.path: b"old" * size for number, one in enumerate(changes) if number % 3}
    new = {one.path: one.content for one in changes if one.content is not None}
    if found == old:
        return "old"
    return "new" if found == new else f"half: {sorted(set(found) ^ set(old))}"


async def kill_amid(directory: Path, size: int, delay: float | None) -> tuple[str, float]:
    """What the files are like after the resident was killed that long after it was asked; how long it was at it."""
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
async def test_a_resident_that_is_killed_leaves_the_whole_change_or_nothing_of_it(tmp_path: Path, size: int) -> None:
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
