"""What a test looks at from outside: who is alive in the environment, and conditions that come true by and by."""

import asyncio
import os
import secrets
from collections.abc import Awaitable, Callable

import pytest

import hermetic

LOOK_SECONDS = 0.02

# With builtins alone: every place has bash, and not every grep finds a text behind a NUL.
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
    """A number of seconds that no other command line has: `sleep MARK` can be told from any other."""
    return f"{600 + secrets.randbelow(300)}.{secrets.randbelow(10**9):09}"


async def alive(environment: hermetic.Environment, mark: str) -> list[int]:
    """Pids in the environment of the processes with the mark in their command line."""
    # The mark goes in by standard input: the one who looks does not have it in his own command line.
    seen = await environment.run(["bash", "-c", LOOK], stdin=mark)
    assert seen.exit_code == 0, seen
    return [int(line.split("/")[2]) for line in seen.output.splitlines()]


async def eventually(check: Callable[[], Awaitable[bool]], seconds: float = 10) -> None:
    """Returns once the check says yes; fails the test when that takes too long."""
    try:
        async with asyncio.timeout(seconds):
            while not await check():  # noqa: ASYNC110 - what is looked at has no event to wait for
                await asyncio.sleep(LOOK_SECONDS)
    except TimeoutError:
        raise AssertionError(f"did not come true within {seconds:g} s") from None


async def need(environment: hermetic.Environment, program: str) -> None:
    """Skips the test where the environment does not have a program."""
    if (await environment.run(["sh", "-c", 'command -v "$0"', program])).exit_code != 0:
        pytest.skip(f"the environment has no {program}")
