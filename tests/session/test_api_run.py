"""`run`, from the caller's side: every option, every ending, bad input."""

import asyncio
import hashlib
import math
import os
import time
from pathlib import Path
from typing import Any

import pytest

import hermetic
from hermetic import Cancelled, Exited, InvalidArgument, Result, TimedOut, Yielded
from tests.scenarios.living import begin


async def test_a_session_keeps_its_state_and_a_result_says_what_happened(tmp_path: Path) -> None:
    async with hermetic.open("local", cwd=tmp_path) as env:
        first = await env.run("mkdir sub; cd sub; export A=1; B=2")
        assert (first.ending, first.exit_code, first.output, first.cwd) == (
            Exited(0),
            0,
            "",
            str(tmp_path / "sub"),
        )
        second = await env.run('echo "$A $B"; pwd; exit 3')
        assert second.output == f"1 2\n{tmp_path}/sub\n"
        assert second.exit_code == 3
        assert second.total_bytes == len(second.data)
        assert not second.truncated
        assert second.duration > 0


async def test_sessions_are_apart() -> None:
    async with hermetic.open("local") as env:
        other = env.session("b")
        await asyncio.gather(env.run("X=1"), other.run("X=2; cd /"))
        assert (await env.run("echo $X")).output == "1\n"
        assert (await other.run("echo $X; pwd")).output == "2\n/\n"
        await other.close()
        assert (await other.run("echo $X")).output == "\n"


async def test_cwd_and_env_hold_for_one_command(tmp_path: Path) -> None:
    async with hermetic.open("local") as env:
        before = (await env.run("pwd")).output
        there = await env.run("pwd; echo $V", cwd=str(tmp_path), env={"V": "a b"})
        assert there.output == f"{tmp_path}\na b\n"
        assert (await env.run("pwd; echo $V")).output == before + "\n"


async def test_an_argv_runs_without_a_shell() -> None:
    async with hermetic.open("local") as env:
        result = await env.run(["printf", "%s|", "a b", "$HOME", "*", ""])
        assert result.output == "a b|$HOME|*||"


@pytest.mark.parametrize("size", [0, 1, 70_000, 5_000_000])
async def test_stdin_of_any_size_arrives_whole(size: int) -> None:
    data = os.urandom(size)
    async with hermetic.open("local") as env:
        result = await env.run("sha256sum", stdin=data)
        assert result.output.split()[0] == hashlib.sha256(data).hexdigest()
        assert (await env.run(["sha256sum"], stdin=data)).output == result.output


async def test_stdin_is_null_unless_given_and_text_is_utf_8() -> None:
    async with hermetic.open("local") as env:
        assert (await env.run("cat | wc -c")).output.strip() == "0"
        assert (await env.run("cat", stdin="grün")).data == "grün".encode()


async def test_separate_keeps_stderr_apart() -> None:
    async with hermetic.open("local") as env:
        result = await env.run("echo out; echo err >&2; echo out2", separate=True)
        assert (result.output, result.stderr) == ("out\nout2\n", "err\n")
        assert result.stderr_bytes == 4
        merged = await env.run("echo out; echo err >&2; echo out2")
        assert (merged.output, merged.stderr) == ("out\nerr\nout2\n", None)


@pytest.mark.parametrize(
    ("lines", "limit"),
    [
        (20_000, None),
        pytest.param(200_000, None, marks=pytest.mark.full),
        (1000, 300),
        (1000, 0),
        (100_000, 400_000),
    ],
)
async def test_long_output_is_head_and_tail_with_exact_counts(
    lines: int, limit: int | None
) -> None:
    whole = "".join(f"{number} äöü\n" for number in range(1, lines + 1)).encode()
    most = 1 << 20 if limit is None else limit
    async with hermetic.open("local") as env:
        result = await env.run(f"for i in {{1..{lines}}}; do echo $i äöü; done", limit=limit)
        assert result.total_bytes == len(whole)
        assert len(result.data) <= most
        assert result.truncated == (len(whole) > most)
        if result.omitted is None:
            assert result.data == whole
        else:
            start, end = result.omitted
            assert result.data == whole[:start] + whole[end:]
            assert len(result.data) > most - 8
            result.data.decode()
            rest = await env.read_log(result.log, start, limit=end - start)
            assert rest.data == whole[start : start + len(rest.data)]


async def test_output_comes_live_and_complete() -> None:
    async with hermetic.open("local") as env:
        came: list[bytes] = []
        first = asyncio.Event()

        def take(data: bytes) -> None:
            came.append(data)
            first.set()

        running = asyncio.ensure_future(
            env.run("echo one; sleep 0.3; echo two", on_output=take, cwd="/")
        )
        async with asyncio.timeout(10):
            await first.wait()
        result = await running
        assert b"".join(came) == result.data
        assert came[0] == b"one\n"


async def test_much_live_output_arrives_in_order() -> None:
    async with hermetic.open("local") as env:
        digest = hashlib.sha256()
        result = await env.run("seq 1 2000000", on_output=digest.update)
        whole = "".join(f"{number}\n" for number in range(1, 2_000_001)).encode()
        assert result.total_bytes == len(whole)
        assert digest.digest() == hashlib.sha256(whole).digest()


async def test_an_error_in_on_output_ends_the_command_and_is_raised() -> None:
    def refuse(data: bytes) -> None:
        raise RuntimeError("enough")

    async with hermetic.open("local") as env:
        began = time.monotonic()
        with pytest.raises(RuntimeError, match="enough"):
            await env.run("echo x; sleep 600", on_output=refuse)
        assert time.monotonic() - began < 10
        assert (await env.run("echo fine")).output == "fine\n"


async def test_a_timeout_ends_the_tree_and_keeps_what_came() -> None:
    async with hermetic.open("local") as env:
        await env.run(":")  # a shell that still starts would take of the time
        result = await env.run("echo before; sleep 600 & sleep 600", timeout=1)
        assert (result.ending, result.exit_code, result.output) == (TimedOut(1), 124, "before\n")
        assert (await env.run("echo $?; pgrep -P $$ -x sleep")).output == "0\n"


async def test_a_yielded_command_goes_on_as_a_process() -> None:
    async with hermetic.open("local") as env:
        await env.run(":")
        result = await env.run(
            "echo one; sleep 1; echo two; exit 7", timeout=0.1, on_timeout="yield"
        )
        assert isinstance(result.ending, Yielded)
        assert result.exit_code is None
        process = result.process
        assert process is not None
        assert process.id == result.ending.process_id
        assert await process.wait(10) == Exited(7)
        assert (await process.read()).data == b"one\ntwo\n"


async def test_cancelling_ends_the_command_first() -> None:
    async with hermetic.open("local") as env:
        running = await begin(env, "echo $BASHPID; sleep 600")
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        ended = [
            process
            for process in await env.processes()
            if process.command.startswith("echo $BASHPID")
        ]
        assert [process.ending for process in ended] == [Cancelled()]
        assert (await env.run("echo fine")).output == "fine\n"


async def test_cancelling_twice_still_waits_for_the_end() -> None:
    async with hermetic.open("local") as env:
        running = await begin(env, "trap '' TERM; echo up; while :; do sleep 1; done")
        running.cancel()
        await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert all(process.state == "ended" for process in await env.processes())


async def test_an_asyncio_timeout_around_run_works() -> None:
    async with hermetic.open("local") as env:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await env.run("sleep 600", on_output=lambda _: None)
        assert all(process.state == "ended" for process in await env.processes())


BAD: list[tuple[Any, dict[str, Any], str]] = [
    ("true", {"timeout": 0}, "timeout"),
    ("true", {"timeout": -1}, "timeout"),
    ("true", {"timeout": math.nan}, "timeout"),
    ("true", {"timeout": math.inf}, "timeout"),
    ("true", {"timeout": "5"}, "timeout"),
    ("true", {"timeout": True}, "timeout"),
    ("true", {"on_timeout": "explode"}, "on_timeout"),
    ("true", {"limit": -1}, "limit"),
    ("echo \0", {}, "command"),
    ([], {}, "command"),
    ([""], {}, "command"),
    (["echo", "a\0b"], {}, "command"),
    (b"true", {}, "command"),
    ("x" * 70_000_000, {}, "command"),
    ("echo \ud800", {}, "command"),
    ("true", {"env": {"A=B": "c"}}, "env"),
    ("true", {"env": {"A": 1}}, "env"),
    ("true", {"env": {"A": "x" * 100_000}}, "env"),
    (5, {}, "command"),
    (None, {}, "command"),
    ({"echo"}, {}, "command"),
    ([1], {}, "command"),
    ("true", {"timeout": 10**400}, "timeout"),
    ("true", {"timeout": 10**5000}, "timeout"),
    ("true", {"env": [1]}, "env"),
    ("true", {"env": {"A-B": "c"}}, "env"),
    ("true", {"env": {"A": "\udcff"}}, "env"),
    ("true", {"stdin": 5}, "stdin"),
    ("true", {"on_output": 5}, "on_output"),
    ("true", {"on_output": asyncio.sleep}, "on_output"),
    ("true", {"cwd": 5}, "cwd"),
    ("true", {"cwd": ""}, "cwd"),
    ("true", {"cwd": "\ud800"}, "cwd"),
    ("true", {"cwd": "/no/such/place"}, "cwd"),
    ("true", {"cwd": "/etc/passwd"}, "cwd"),
]


async def test_bad_input_is_named_and_starts_nothing() -> None:
    async with hermetic.open("local") as env:
        for command, options, argument in BAD:
            with pytest.raises(InvalidArgument) as caught:
                await env.run(command, **options)
            assert caught.value.argument == argument, (options, str(caught.value))
        assert (await env.run("echo fine")).output == "fine\n"
        assert [process.command for process in await env.processes()] == ["echo fine"]


@pytest.mark.parametrize("size", [1_000_000, 3_000_000])
async def test_a_command_may_be_millions_of_characters_long(size: int) -> None:
    async with hermetic.open("local") as env:
        result: Result = await env.run(f"cat; echo {'x' * size} | wc -c", stdin=b"i" * size)
        assert result.total_bytes == size + len(f"{size + 1}\n")
        assert result.output.endswith(f"i{size + 1}\n")


async def test_many_commands_at_once_each_get_their_own_answer() -> None:
    async with hermetic.open("local") as env:
        results = await asyncio.gather(*(env.run(f"echo {number}") for number in range(50)))
        assert [result.output for result in results] == [f"{number}\n" for number in range(50)]


async def test_input_that_nobody_came_to_use_is_let_go(tmp_path: Path) -> None:
    large = "x" * 1_500_000
    async with asyncio.timeout(60), hermetic.open("local", cwd=tmp_path, login=False) as env:
        for turn in range(300):
            running = asyncio.ensure_future(
                env.run("cat", stdin=large, cwd="/does/not/exist" if turn % 2 else None)
            )
            if turn % 2:
                with pytest.raises(InvalidArgument):
                    await running
            else:
                await asyncio.sleep(0.001 * (turn % 5))
                running.cancel()
                await asyncio.wait([running])  # on a busy machine it may have ended before
                assert running.cancelled() or running.result().exit_code == 0
        assert len((await env.run("wc -c", stdin=large)).output) > 1


async def test_many_large_inputs_at_once(tmp_path: Path) -> None:
    async with asyncio.timeout(60), hermetic.open("local", cwd=tmp_path, login=False) as env:
        results = await asyncio.gather(
            *(env.run("wc -c", stdin="x" * (2_000_000 + turn)) for turn in range(40))
        )
        assert [int(result.output) for result in results] == [
            2_000_000 + turn for turn in range(40)
        ]
