"""Many background processes print while foreground commands run: nothing is lost, and nobody has to
wait.
"""

import asyncio
import hashlib
from pathlib import Path

import pytest

from tests.boxes import Box, opened_in
from tests.environments.engines import need_engine
from tests.programs import need_variable
from tests.sizes import at_full_size, scale

LINES = 1000
TEXT = "a line of some length, number"


def expected(number: int) -> str:
    """The hash of what the process with this number prints."""
    return hashlib.sha256(
        "".join(f"{TEXT} {line} of {number}\n" for line in range(LINES)).encode()
    ).hexdigest()


async def printed(box: Box, id: str) -> tuple[int, str]:
    """The exit code of a process, and the hash of its output as it came by cursor."""
    found, cursor = hashlib.sha256(), 0
    while True:
        answer = await box.process("poll", id, cursor=cursor)
        assert "dropped_bytes" not in answer
        found.update(answer["output"].encode())
        cursor = answer["cursor"]
        if answer["status"] == "exited" and not answer["output"]:
            return answer["exit_code"], found.hexdigest()
        if not answer["output"]:
            await box.process("wait_for", id, data="\n", timeout=5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["local", *at_full_size("docker")])
async def test_nothing_is_lost(kind: str, tmp_path: Path) -> None:
    place: dict[str, object] = {"login": False}
    if kind == "docker":
        need_engine("docker")
        place |= {"image": need_variable("IMAGE_BASE"), "pids": 2048}
    count, commands = scale(200), scale(50)
    async with asyncio.timeout(500), opened_in(kind, place) as box:

        async def background(number: int) -> tuple[int, str]:
            command = f"for ((i = 0; i < {LINES}; i++)); do echo {TEXT} $i of {number}; done; exit {number % 100}"
            started = await box.terminal(command, background=True)
            assert started["error"] is None, started
            return await printed(box, started["session_id"])

        async def foreground(number: int) -> tuple[str, int]:
            answer = await box.terminal(f"echo {number}; seq 1 100 | tail -1; exit {number}")
            return answer["output"], answer["exit_code"]

        starting = [asyncio.ensure_future(background(number)) for number in range(count)]
        running = [asyncio.ensure_future(foreground(number)) for number in range(commands)]
        assert await asyncio.gather(*running) == [
            (f"{number}\n100\n", number) for number in range(commands)
        ]
        found = await asyncio.gather(*starting)
        assert found == [(number % 100, expected(number)) for number in range(count)]
