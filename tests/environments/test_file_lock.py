"""Lock files between tasks of one process."""

import asyncio
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
