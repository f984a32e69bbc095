"""Programs that start residents: what is left of one that does not."""

import asyncio
from pathlib import Path

import pytest

from hermetic.contract.errors import EnvironmentUnavailable
from hermetic.environments.starting import start_resident
from hermetic.registry.host_process import ended

HANGS = 'echo $$ > "$1"; exec sleep 1000'


async def test_one_that_would_stay_but_is_never_ready_is_ended(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentUnavailable, match="not ready within 1 s"):
        await start_resident(
            ["sh", "-c", HANGS, "sh", str(tmp_path / "pid")], b"", seconds=1, afterwards="stays"
        )
    async with asyncio.timeout(20):
        await ended(int((tmp_path / "pid").read_text()))


async def test_one_that_would_stay_is_ended_with_a_cancelled_start(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    argv = ["sh", "-c", HANGS, "sh", str(file)]
    starting = asyncio.create_task(start_resident(argv, b"", seconds=100, afterwards="stays"))
    async with asyncio.timeout(20):
        while not (file.exists() and file.read_text()):  # noqa: ASYNC110 - the program says nothing else
            await asyncio.sleep(0.01)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    async with asyncio.timeout(20):
        await ended(int(file.read_text()))
