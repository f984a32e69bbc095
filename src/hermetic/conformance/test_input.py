"""Standard input of a command: all of it, byte by byte, and nothing where none was given."""

import asyncio
import hashlib
import os

import pytest

from hermetic import Session
from hermetic.conformance.observing import scale


async def test_none_is_the_null_device(shell: Session) -> None:
    assert (await shell.run("readlink /proc/self/fd/0")).output == "/dev/null\n"
    assert (await shell.run("cat; read x; echo $?")).output == "1\n"


async def test_an_input_that_a_command_sets_for_good_is_its_own(
    shell: Session, directory: str
) -> None:
    await shell.run(f"echo wrong > '{directory}/in'; take() {{ exec <'{directory}/in'; }}")
    for _ in range(2):
        await shell.run("take")
        assert (await shell.run("cat; echo $?")).output == "0\n"
        assert (await shell.run("cat", timeout=10)).output == ""
    assert (await shell.run("cat", stdin="right")).output == "right"


@pytest.mark.parametrize("stdin", ["", b""])
async def test_empty_input_ends_at_once(shell: Session, stdin: str | bytes) -> None:
    assert (await shell.run("wc -c", stdin=stdin, timeout=10)).output.strip() == "0"


async def test_text_is_given_as_utf_8_and_nothing_is_added(shell: Session) -> None:
    assert (await shell.run("cat", stdin="ß€ no newline")).data == "ß€ no newline".encode()


async def test_bytes_pass_unchanged(shell: Session) -> None:
    data = bytes(range(256)) * 3
    assert (await shell.run("cat", stdin=data)).data == data


async def test_an_argv_gets_input_too(shell: Session) -> None:
    assert (await shell.run(["cat"], stdin="in")).output == "in"


async def test_input_is_for_the_whole_command(shell: Session) -> None:
    assert (
        await shell.run("read a; read b; echo $b $a; cat", stdin="1\n2\n3\n4\n")
    ).output == "2 1\n3\n4\n"


async def test_what_was_not_read_is_gone_for_the_next_command(shell: Session) -> None:
    await shell.run("read a", stdin="1\n2\n")
    assert (await shell.run("cat")).output == ""


async def test_a_command_may_leave_its_input_alone(shell: Session) -> None:
    result = await shell.run("echo done", stdin=b"x" * 3_000_000, timeout=20)
    assert (result.output, result.exit_code) == ("done\n", 0)


async def test_large_input_arrives_whole(shell: Session) -> None:
    data = os.urandom(1 << 20) * scale(100)
    result = await shell.run("sha256sum", stdin=data)
    assert result.output.split()[0] == hashlib.sha256(data).hexdigest()


async def test_input_and_output_flow_at_the_same_time(shell: Session) -> None:
    data = os.urandom(1 << 20) * 4
    assert (await shell.run("cat", stdin=data, limit=len(data))).data == data


async def test_input_of_parallel_commands_is_kept_apart(shell: Session) -> None:
    first, second = (
        shell.run("sleep 0.1; cat", stdin="a" * 300_000),
        shell.run("cat", stdin="b" * 300_000),
    )
    results = await asyncio.gather(first, second)
    assert [set(result.output) for result in results] == [{"a"}, {"b"}]
