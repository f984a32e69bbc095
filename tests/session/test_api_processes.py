"""`start` and `Process`, from the caller's side."""

import asyncio
import hashlib
import os
import sys
from typing import Any

import pytest

import hermetic
from hermetic import (
    Exited,
    InputClosed,
    InvalidArgument,
    Signalled,
    UnknownProcess,
    Unsupported,
)


async def test_a_process_reads_input_prints_and_ends() -> None:
    async with hermetic.open("local") as env:
        process = await env.start("while read -r line; do echo got:$line; done; exit 4")
        assert isinstance(process.pid, int)
        assert (await process.status()).state == "running"
        await process.submit("one")
        await process.wait_for("got:one", timeout=10)
        await process.write("two\nthree\n")
        await process.close_input()
        assert await process.wait(10) == Exited(4)
        chunk = await process.read()
        assert chunk.data == b"got:one\ngot:two\ngot:three\n"
        assert (chunk.start, chunk.end, chunk.ended) == (0, 26, True)
        assert (await process.status()).ending == Exited(4)


async def test_a_process_starts_with_the_sessions_directory_and_variables() -> None:
    async with hermetic.open("local") as env:
        await env.run("cd /; export A=1; B=2")
        process = await env.start("pwd; echo $A$B$C", env={"C": "3"})
        await process.wait(10)
        assert (await process.read()).data == b"/\n13\n"


async def test_reads_wait_for_the_first_byte_or_the_end() -> None:
    async with hermetic.open("local") as env:
        process = await env.start("read x; echo $x; read y")
        assert (await process.read()).data == b""
        nothing = await process.read(wait=0.05)
        assert (nothing.data, nothing.ended) == (b"", False)
        waiting = asyncio.ensure_future(process.read(wait=10))
        await asyncio.sleep(0)
        await process.submit("hello")
        assert (await waiting).data == b"hello\n"
        at_end = asyncio.ensure_future(process.read(6, wait=10))
        await asyncio.sleep(0)
        await process.submit("")
        async with asyncio.timeout(5):
            assert (await at_end).ended


async def test_a_long_log_is_read_by_offset_and_limit() -> None:
    async with hermetic.open("local") as env:
        process = await env.start("seq 1 500000")
        await process.wait(20)
        whole = "".join(f"{number}\n" for number in range(1, 500_001)).encode()
        assert (await process.read(limit=10)).data == whole[:10]
        assert (await process.read()).data == whole[: 1 << 20]
        everything = await process.read(limit=1 << 24)
        assert everything.data == whole
        assert everything.ended
        middle = await env.read_log(process.id, 1_234_567, limit=1000)
        assert middle.data == whole[1_234_567:1_235_567]
        assert (await process.read(len(whole))).ended


async def test_input_of_any_size_is_taken_without_a_deadlock() -> None:
    data = os.urandom(5_000_000)
    async with hermetic.open("local") as env:
        process = await env.start("sha256sum")
        await process.write(data)
        await process.close_input()
        await process.wait(20)
        assert (await process.read()).data.split()[0].decode() == hashlib.sha256(data).hexdigest()
        given = await env.start(["sha256sum"], stdin=data)
        await given.wait(20)
        assert (await given.read()).data.split()[0].decode() == hashlib.sha256(data).hexdigest()


async def test_signals_and_kills_reach_the_process() -> None:
    async with hermetic.open("local") as env:
        process = await env.start("trap 'echo usr1' USR1; echo ready; while :; do sleep 0.05; done")
        await process.wait_for("ready", timeout=10)
        await process.signal("USR1", tree=False)
        await process.wait_for("usr1", timeout=10)
        assert await process.kill() == Signalled(15)
        stubborn = await env.start("trap '' TERM; echo ready; while :; do sleep 0.05; done")
        await stubborn.wait_for("ready", timeout=10)
        assert await stubborn.kill(grace=0.05) == Signalled(9)


async def test_waiting_raises_and_leaves_the_process_alone() -> None:
    async with hermetic.open("local") as env:
        process = await env.start("sleep 600")
        with pytest.raises(TimeoutError, match="still runs"):
            await process.wait(0.05)
        with pytest.raises(TimeoutError, match="did not appear"):
            await process.wait_for("never", timeout=0.05)
        assert (await process.status()).state == "running"


async def test_a_timeout_of_zero_looks_once() -> None:
    async with hermetic.open("local") as env:
        process = await env.start("echo first; read x", pty=True)
        await process.wait_for("first", timeout=10)
        with pytest.raises(TimeoutError, match="still runs"):
            await process.wait(0)
        with pytest.raises(TimeoutError, match="did not appear"):
            await process.wait_for("first", timeout=0)
        with pytest.raises(TimeoutError, match="did not appear"):
            await process.wait_for("second", timeout=0, on="screen")
        assert await process.wait_for("first", timeout=0, on="screen") == (0, 5)
        again = await env.process(process.id)
        assert await again.wait_for("first", timeout=0) == (0, 5)
        await process.submit("")
        assert await process.wait(10) == Exited(0)
        assert await process.wait(0) == await process.wait(timeout=0) == Exited(0)


async def test_wait_for_searches_on_from_the_last_match() -> None:
    async with hermetic.open("local") as env:
        process = await env.start("echo a1 a2; read x; echo a3")
        assert await process.wait_for(r"a\d", timeout=10, pattern=True) == (0, 2)
        assert await process.wait_for("a", timeout=10) == (3, 4)
        await process.submit("")
        assert await process.wait_for(r"a\d$", timeout=10, pattern=True) == (6, 8)
        with pytest.raises(EOFError, match="did not appear"):
            await process.wait_for("a", timeout=10)


async def test_a_terminal_takes_keys_and_shows_a_screen() -> None:
    async with hermetic.open("local") as env:
        process = await env.start(
            [sys.executable, "-c", TERMINAL_PROGRAM], pty=True, rows=10, cols=40
        )
        await process.wait_for("10 40 ready", timeout=20)
        await process.resize(12, 50)
        await process.keys("x up")
        await process.wait_for("'x\\x1b[A'", timeout=20)
        start, end = await process.wait_for("corner", timeout=20, on="screen")
        lines = (await process.screen()).split("\n")
        assert len(lines) == 12
        assert lines[4][9:15] == "corner"
        assert end - start == 6
        await process.keys("q")
        assert await process.wait(10) == Exited(0)


TERMINAL_PROGRAM = """
import os, sys, tty
size = os.get_terminal_size()
tty.setraw(0)
print(size.lines, size.columns, "ready", end="\\r\\n", flush=True)
data = b""
while len(data) < 4:
    data += os.read(0, 10)
print(repr(data.decode()), end="\\r\\n")
print("\\x1b[2J\\x1b[>4;2m\\x1b[5;10Hcorner", end="", flush=True)
os.read(0, 1)
"""


async def test_control_c_ends_what_runs_in_a_terminal() -> None:
    async with hermetic.open("local") as env:
        process = await env.start("echo ready; sleep 600", pty=True)
        await process.wait_for("ready", timeout=10)
        await process.keys("ctrl-c")
        assert (await process.wait(10)).exit_code == 130


async def test_a_process_is_found_again_by_its_id() -> None:
    async with hermetic.open("local") as env:
        process = await env.start("sleep 600", id="server")
        assert (await env.process("server")).pid == process.pid
        assert (await env.start("echo another", id="server")).pid == process.pid
        listed = {info.id: info for info in await env.processes()}
        assert listed["server"].state == "running"
        assert listed["server"].command == "sleep 600"


async def test_events_tell_of_starts_and_ends() -> None:
    async with hermetic.open("local") as env, env.events() as events:
        process = await env.start("exit 5", id="short")
        await process.wait(10)
        async with asyncio.timeout(10):
            seen = [await anext(events), await anext(events)]
        assert [(event.event, event.process and event.process.id) for event in seen] == [
            ("started", "short"),
            ("ended", "short"),
        ]
        last = seen[1].process
        assert last is not None
        assert last.ending == Exited(5)


async def test_what_is_unknown_or_closed_is_a_typed_error() -> None:
    async with hermetic.open("local") as env:
        with pytest.raises(UnknownProcess) as unknown:
            await env.process("nobody")
        assert unknown.value.process_id == "nobody"
        with pytest.raises(UnknownProcess):
            await env.read_log("nobody")
        process = await env.start("cat", stdin="null")
        await process.wait(10)
        with pytest.raises(InputClosed, match=r"start it anew with start\(…, stdin=") as closed:
            await process.write("x")
        assert closed.value.process_id == process.id
        plain = await env.start("sleep 600")
        with pytest.raises(Unsupported):
            await plain.resize(10, 10)


BAD: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("start", ("true",), {"id": "a b"}),
    ("start", ("true",), {"id": "x" * 65}),
    ("start", ("true",), {"pty": True, "rows": 0}),
    ("start", ("",), {"cwd": "/etc/passwd"}),
    ("process", ("a/b",), {}),
    ("read_log", ("x", -1), {}),
    ("read_log", ("x",), {"limit": 0}),
    ("read_log", ("x",), {"wait": -1}),
]


async def test_bad_input_is_an_invalid_argument() -> None:
    async with hermetic.open("local") as env:
        for method, arguments, options in BAD:
            with pytest.raises(InvalidArgument):
                await getattr(env, method)(*arguments, **options)
        process = await env.start("sleep 600")
        for call in (
            process.signal("NOPE"),
            process.signal(0),
            process.keys("nope"),
            process.kill(-1),
        ):
            with pytest.raises(InvalidArgument):
                await call


async def test_a_secret_that_is_too_long_is_refused() -> None:
    async with hermetic.open("local") as env:
        process = await env.start("cat")
        with pytest.raises(
            InvalidArgument, match="the secret has 1048576 bytes, the most is 1048575"
        ):
            await process.write_secret("x" * (1 << 20))
        await process.kill()
