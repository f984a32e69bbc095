"""Starts of containers that fail, are cancelled or lose their caller leave nothing."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

import hermetic
from hermetic.registry.records import runtime_root
from tests.environments.engines import (
    both_engines,
    containers,
    eventually,
    left_here,
    ours,
    starting,
)
from tests.sizes import is_full, scale

LEASE = 0.3


@both_engines
async def test_a_start_that_fails_says_why_and_leaves_nothing(engine: str, image: str) -> None:
    with pytest.raises(hermetic.EnvironmentUnavailable, match="no-such-option"):
        await hermetic.open(engine, image=image, extra_args=["--no-such-option"])
    with pytest.raises(hermetic.EnvironmentUnavailable):
        await hermetic.open(engine, image="localhost/no-such-image:none")
    with pytest.raises(hermetic.EnvironmentUnavailable):
        await hermetic.open(engine, image=image, user="no-such-user")
    assert ours(engine) == []
    assert list(runtime_root().glob("[et]-*")) == []


async def test_a_start_that_is_cancelled_leaves_nothing(engine: str, image: str) -> None:
    for part in range(8):
        opening = asyncio.ensure_future(_awaited(hermetic.open(engine, image=image)))
        await asyncio.sleep(part * 0.03)
        opening.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await (await opening).close()  # it was faster
    await eventually(lambda: ours(engine) == [])
    assert list(runtime_root().glob("[et]-*")) == []


async def _awaited(opening: Any) -> hermetic.Environment:
    environment: hermetic.Environment = await opening
    return environment


@pytest.mark.slow
async def test_many_opens_and_closes_leave_nothing(engine: str, image: str) -> None:
    for _ in range(100 if is_full() else 3):
        async with hermetic.open(engine, image=image) as env:
            assert (await env.run("echo up")).output == "up\n"
        await eventually(lambda id=env.id: not left_here(id))  # type: ignore[misc]
    assert ours(engine) == []


OPENER = """
import asyncio, sys, hermetic
async def main():
    kind, image, lease = sys.argv[1:]
    print("begun", flush=True)
    env = await hermetic.open(kind, image=image, lease=float(lease), unattended=float(lease))
    await env.start("setsid sleep 600 & sleep 600")
    print(env.id, flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""


@asynccontextmanager
async def opener(engine: str, image: str) -> AsyncIterator[asyncio.StreamReader]:
    """A process that opens an environment and is killed at the end of the block; what it says."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", OPENER, engine, image, str(LEASE), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    await process.stdout.readline()
    yield process.stdout
    process.send_signal(signal.SIGKILL)
    await process.wait()


@both_engines
@pytest.mark.slow
async def test_callers_killed_by_sigkill_leave_nothing_after_the_lease(
    engine: str, image: str
) -> None:
    for _ in range(scale(20)):
        async with opener(engine, image) as said:
            id = (await said.readline()).decode().strip()
            assert containers(engine, f"hermetic.id={id}")
        await eventually(partial(is_gone, engine, id))


def is_gone(engine: str, id: str) -> bool:
    return not left_here(id) and not containers(engine, f"hermetic.id={id}")


@pytest.mark.slow
async def test_callers_killed_while_they_open_leave_nothing(engine: str, image: str) -> None:
    for part in range(scale(60)):
        async with opener(engine, image):
            await asyncio.sleep(part % 6 * 0.06)
    await eventually(lambda: starting(engine) == [])
    await eventually(lambda: ours(engine) == [])
    await eventually(lambda: list(runtime_root().iterdir()) == [])
