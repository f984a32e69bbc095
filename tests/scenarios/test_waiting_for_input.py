"""Whether a process waits for input is the kernel's word: true for what blocks on its terminal, for
nothing else.
"""

import asyncio
import shlex
import sys

import pytest

import hermetic
from tests.programs import need

WAITING_ON_A_TERMINAL = {
    "cat": "cat",
    "read": "read x",
    "less": "less /etc/services",
    "python": "python3 -q",
    "bash": "bash --norc -i",
    "vim": "vim -u NONE -N",
    # as busybox cat
    "sendfile": f"{shlex.quote(sys.executable)} -c 'import os; os.sendfile(1, 0, None, 9)' | cat",
}
NOT_WAITING = {"top": "top", "sleep": "sleep 1000", "bash": "while :; do :; done"}


async def becomes(process: hermetic.Process, wanted: bool) -> None:
    """Returns when the kernel says so; its word changes when the program gets there."""
    async with asyncio.timeout(30):
        while (await process.status()).waiting_for_input is not wanted:  # noqa: ASYNC110 the kernel sends no word of it
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("program", WAITING_ON_A_TERMINAL)
async def test_a_program_at_its_prompt_waits(program: str) -> None:
    need({"python": "python3", "read": "bash", "sendfile": "cat"}.get(program, program))
    async with hermetic.open("local") as env:
        process = await env.start(WAITING_ON_A_TERMINAL[program], pty=True)
        await becomes(process, True)


@pytest.mark.parametrize("program", ["cat", "read"])
async def test_a_program_that_reads_a_pipe_waits_until_it_is_fed(program: str) -> None:
    async with hermetic.open("local") as env:
        process = await env.start(
            {"cat": "cat >/dev/null; sleep 1000", "read": "read x; sleep 1000"}[program]
        )
        await becomes(process, True)
        await process.submit("something")
        await process.close_input()
        await becomes(process, False)


@pytest.mark.parametrize("program", NOT_WAITING)
async def test_what_refreshes_sleeps_or_computes_does_not_wait(program: str) -> None:
    need(program)
    async with hermetic.open("local") as env:
        process = await env.start(NOT_WAITING[program], pty=True)
        if program == "top":
            await process.wait_for("PID", timeout=20)
        for _ in range(20):
            assert (await process.status()).waiting_for_input is False
            await asyncio.sleep(0.02)


async def test_a_yielded_command_says_that_it_does_not_wait() -> None:
    async with hermetic.open("local") as env:
        result = await env.run("sleep 1000", timeout=0.1, on_timeout="yield")
        assert result.waiting_for_input is False
        assert result.process is not None
        assert isinstance(result.ending, hermetic.Yielded)
