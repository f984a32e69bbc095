"""Lock files between tasks of one process."""

import asyncio
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from hermetic.registry import file_lock


async def test_waiting_for_a_lock_leaves_threads_to_its_holder(tmp_path: Path) -> None:
    async def wait() -> None:
        async with file_lock.locked(tmp_path / "lock"):
            pass

    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(1))
    async with file_lock.locked(tmp_path / "lock"):
        waiting = asyncio.create_task(wait())
        await asyncio.sleep(0)
        assert await asyncio.wait_for(asyncio.to_thread(lambda: 7), 30) == 7
    await waiting


WAITER = """
import asyncio, pathlib, sys
from hermetic.registry.file_lock import locked
async def wait():
    async with asyncio.timeout(0.2), locked(pathlib.Path(sys.argv[1])):
        pass
asyncio.run(wait())
"""


async def test_a_program_that_waits_no_more_ends_before_the_holder(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    async with file_lock.locked(path):
        program = await asyncio.create_subprocess_exec(
            sys.executable, "-c", WAITER, str(path), stderr=subprocess.PIPE
        )
        _, stderr = await asyncio.wait_for(program.communicate(), 30)
    assert b"TimeoutError" in stderr
