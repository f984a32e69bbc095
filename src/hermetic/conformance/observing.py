"""Observations from outside: processes that are alive in an environment, and conditions that come
true later.
"""

import asyncio
import os
import secrets
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from hermetic import Environment, Process

T = TypeVar("T")

LOOK_SECONDS = 0.02

# With builtins alone: every environment has bash, and not every grep finds a text behind a NUL.
LOOK = """
read -r mark
for file in /proc/[0-9]*/cmdline; do
    words=()
    mapfile -d '' words 2>/dev/null <"$file"
    if [[ "${words[*]}" == *"$mark"* ]]; then echo "$file"; fi
done 2>/dev/null
"""


def scale(n: int) -> int:
    """`n` with HERMETIC_FULL=1, else a tenth of it."""
    return n if os.environ.get("HERMETIC_FULL", "") not in ("", "0") else max(1, n // 10)


def new_mark() -> str:
    """A number of seconds that no other command line has, for `sleep MARK`."""
    return f"{600 + secrets.randbelow(300)}.{secrets.randbelow(10**9):09}"


async def alive(env: Environment, mark: str) -> list[int]:
    """Pids in the environment of the processes with the mark in their command line."""
    # The mark goes in by standard input, so that it is not in the command line of the search
    # itself.
    seen = await env.run(["bash", "-c", LOOK], stdin=mark)
    assert seen.exit_code == 0, seen
    return [int(line.split("/")[2]) for line in seen.output.splitlines()]


async def output_of(process: Process, seconds: float = 10) -> bytes:
    """The whole output of a process, after its end."""
    await process.wait(seconds)
    return (await process.read()).data


async def eventually(
    look: Callable[[], Awaitable[T]], is_right: Callable[[T], object] = bool, seconds: float = 10
) -> None:
    """Returns once the observation is right, by default true; fails the test when that takes too
    long.
    """
    try:
        async with asyncio.timeout(seconds):
            while not is_right(await look()):  # noqa: ASYNC110 - a process has no event to wait for
                await asyncio.sleep(LOOK_SECONDS)
    except TimeoutError:
        raise AssertionError(f"did not come true within {seconds:g} s") from None


async def need(env: Environment, program: str) -> None:
    """Skips the test where the environment does not have a program."""
    if (await env.run(["sh", "-c", 'command -v "$0"', program])).exit_code != 0:
        pytest.skip(f"the environment has no {program}")
