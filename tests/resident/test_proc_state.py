"""What the kernel tells of a shell that waits for an order, tried on a real bash."""

import asyncio
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import hermetic
from hermetic.resident.shells.proc_state import has_null_stdin


@contextmanager
def shell_at_its_channel(tmp_path: Path, before: str = "") -> Iterator[tuple[int, int]]:
    """The pid of a bash that reads an order from a FIFO, as every idle shell of a session does, and
    our end of that.
    """
    path = tmp_path / "channel"
    os.mkfifo(path)
    channel = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    script = f"{before}\nbuiltin mapfile -t -d '' -n 1 word <'{path}'"
    bash = subprocess.Popen(
        ["bash", "-c", script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    )
    try:
        while not at_channel(bash.pid, path):
            assert bash.poll() is None
        yield bash.pid, channel
        os.write(channel, b"\0")
        bash.communicate(timeout=20)
    finally:
        bash.kill()
        bash.communicate()
        os.close(channel)


def at_channel(pid: int, path: Path) -> bool:
    try:
        return os.readlink(f"/proc/{pid}/fd/0") == str(path)
    except FileNotFoundError:  # it has closed its own input, and not opened the channel yet
        return False


def test_the_null_device_is_seen_behind_the_channel_that_a_shell_reads_from(tmp_path: Path) -> None:
    with shell_at_its_channel(tmp_path) as (pid, channel):
        assert has_null_stdin(pid, channel)


@pytest.mark.parametrize(
    "before",
    [
        "exec </dev/zero",
        "exec 10</dev/null </dev/zero",
        "exec {mine}</dev/null </dev/zero",
        "coproc cat; exec </dev/zero",
        "exec 0>/dev/null",
        "exec 0<&-",
    ],
    ids=[
        "another input",
        "and a user's own descriptor",
        "of a number that bash chose",
        "beside a coprocess",
        "that cannot be read",
        "that is closed",
    ],
)
def test_another_input_is_seen_behind_it_too(tmp_path: Path, before: str) -> None:
    with shell_at_its_channel(tmp_path, before) as (pid, channel):
        assert not has_null_stdin(pid, channel)


def test_a_shell_between_two_orders_is_taken_by_its_word(tmp_path: Path) -> None:
    with open(os.devnull) as null, subprocess.Popen(["sleep", "60"], stdin=null) as program:
        channel = os.open(tmp_path, os.O_RDONLY)
        assert has_null_stdin(program.pid, channel)
        os.close(channel)
        program.kill()


def test_nobody_has_no_input(tmp_path: Path) -> None:
    assert not has_null_stdin(2**22 + 1, 0)


async def test_every_command_reads_the_end_at_once_whatever_the_one_before_made_of_its_input() -> (
    None
):
    changes = (
        "exec </etc/passwd",
        "f() { exec </etc/passwd; }; f",
        "exec 0>/dev/null",
        "exec 0<&-",
        "exec {a}<&0",
    )
    async with asyncio.timeout(60), hermetic.open("local", login=False) as env:
        for change in changes:
            for command in ("true", change, "cat", "true", "cat", "exit 3", "cat"):
                result = await env.run(command)
                assert (result.output, result.exit_code) == ("", 3 if command == "exit 3" else 0), (
                    change,
                    command,
                )


async def test_a_command_of_a_settled_session_keeps_the_input_that_its_shell_has() -> None:
    """A redirection that changes nothing costs as much as a short command; bash puts aside what it
    redirects.
    """
    async with asyncio.timeout(30), hermetic.open("local", login=False) as env:
        shell = (await env.run("echo $BASHPID")).output.strip()
        put_aside = set[str]()
        # output and errors; a third where the session has not settled yet
        while put_aside != {"10", "11"}:
            told = await env.run(f"ls /proc/{shell}/fd")
            put_aside = {number for number in told.output.split() if int(number) >= 10}
            assert put_aside <= {"10", "11", "12"}
