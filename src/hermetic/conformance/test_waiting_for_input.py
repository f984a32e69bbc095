"""Processes that wait for input are recognized from the kernel's state, and no others."""

import asyncio
from typing import Any

import pytest

from hermetic import Environment, Process, Session
from hermetic.conformance.observing import eventually, need

WAITS = {
    "cat": ("cat", False),
    "cat on a terminal": ("cat", True),
    "read": ("read -r line", False),
    "read on a terminal": ("read -r line", True),
    "a reader at the end of a pipeline": ("cat | cat", True),
    "python": ("python3 -q -i", True),
    "bash": ("bash --norc -i", True),
    "less": ("seq 1 500 | less", True),
    "vim": ("vim -u NONE", True),
}
WORKS = {
    "a sleeping program": ("sleep 30", False),
    "a sleeping program on a terminal": ("sleep 30", True),
    "a computing program": ("while :; do :; done", False),
    "a computing program on a terminal": ("while :; do :; done", True),
    "top": ("top -d 1", True),
}


def cases(table: dict[str, tuple[str, bool]]) -> list[Any]:
    """The rows of a table; those on a terminal need one."""
    return [pytest.param(*row, id=name) for name, row in table.items()]


async def need_report(process: Process) -> None:
    """Skips the test where the kernel does not report what a process waits for."""
    try:  # a program that is just being started shows nothing
        await eventually(process.status, lambda status: status.waiting_for_input is not None, 5)
    except AssertionError:
        await process.kill(grace=0)
        pytest.skip("the kernel does not tell here")


@pytest.mark.parametrize(("text", "pty"), cases(WAITS))
async def test_one_that_waits_is_told(
    env: Environment, shell: Session, text: str, pty: bool
) -> None:
    program = text.split("| ")[-1].split()[0]
    if program != "read":
        await need(env, program)
    process = await shell.start(text, pty=pty, env={"TERM": "xterm"})
    await need_report(process)
    await eventually(process.status, lambda status: status.waiting_for_input is True, 20)


@pytest.mark.parametrize(("text", "pty"), cases(WORKS))
async def test_one_that_does_not_is_not(
    env: Environment, shell: Session, text: str, pty: bool
) -> None:
    if text.startswith("top"):
        await need(env, "top")
    process = await shell.start(text, pty=pty, env={"TERM": "xterm"})
    if text.startswith("top"):
        await process.wait_for("PID", timeout=20)
    for _ in range(10):
        assert (await process.status()).waiting_for_input in (False, None)
        await asyncio.sleep(0.03)


async def test_one_that_got_its_input_no_longer_waits(shell: Session) -> None:
    process = await shell.start("read -r line; sleep 30")
    await need_report(process)
    await eventually(process.status, lambda status: status.waiting_for_input is True)
    await process.submit("x")
    await eventually(process.status, lambda status: status.waiting_for_input is False)


async def test_an_ended_process_does_not_wait(shell: Session) -> None:
    process = await shell.start("true")
    await process.wait(10)
    assert (await process.status()).waiting_for_input in (False, None)
