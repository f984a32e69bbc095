"""Somebody dies by SIGKILL: the resident, or its caller.

Nothing is lost that need not be, and nothing stays.
"""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import hermetic
from hermetic import Lost
from hermetic.registry.host_process import ended as gone
from tests.scenarios.living import begin, is_alive, with_argument
from tests.sizes import scale

CALLER = """
import asyncio, os, sys, hermetic
async def main():
    env = await hermetic.open("local", task=sys.argv[1])
    printer = await env.start("i=0; while ((i < 20000)); do echo line $i; ((i++)); done", id="printer")
    await printer.wait_for("line 50", timeout=20)
    print("ready", flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""


def kill_a_caller(task: str) -> None:
    """A caller opens the task, starts the printer in it, and is killed while that prints."""
    with subprocess.Popen([sys.executable, "-c", CALLER, task], stdout=subprocess.PIPE) as caller:
        assert caller.stdout is not None
        assert caller.stdout.readline() == b"ready\n"
        caller.kill()


def runtime_names() -> list[str]:
    """What lies in the runtime directory."""
    return [path.name for path in Path(os.environ["HERMETIC_RUNTIME_DIR"]).rglob("*")]


@pytest.mark.slow
async def test_a_killed_resident_is_told_at_once_and_leaves_nothing() -> None:
    for turn in range(scale(20)):
        odd = f"7{os.getpid()}.{turn}"
        env = await hermetic.open("local")
        info = await env.info()
        await env.run(
            f"sleep {odd} & (setsid sleep {odd} &) ; env -i setsid bash -c 'sleep {odd} & sleep {odd}' &"
        )
        started = await env.start(f"sleep {odd}")
        running = await begin(env, f"echo here; sleep {odd}")
        assert with_argument(odd) != []
        os.kill(info.pid, signal.SIGKILL)
        async with asyncio.timeout(5):
            result = await running
        assert isinstance(result.ending, Lost)
        assert result.exit_code is None
        with pytest.raises(hermetic.EnvironmentUnavailable):
            await started.status()
        assert info.guardian is not None
        async with asyncio.timeout(20):
            await gone(info.guardian)
        assert with_argument(odd) == []
        await env.close()


@pytest.mark.slow
async def test_a_killed_caller_loses_no_byte() -> None:
    expected = "".join(f"line {i}\n" for i in range(20000)).encode()
    for turn in range(scale(20)):
        task = f"killed-caller-{os.getpid()}-{turn}"
        kill_a_caller(task)
        env = await hermetic.attach(task)
        try:
            printer = await env.process("printer")
            data, ended = b"", False
            async with asyncio.timeout(60):
                while not ended:
                    chunk = await printer.read(len(data), wait=10)
                    assert chunk.start == len(data)
                    data += chunk.data
                    ended = chunk.ended
            assert data == expected
            assert await printer.wait() == hermetic.Exited(0)
        finally:
            await env.close(remove=True)


async def test_a_closed_environment_leaves_no_process_and_no_directory() -> None:
    odd = f"8{os.getpid()}.5"
    env = await hermetic.open("local")
    info = await env.info()
    await env.run(f"nohup sleep {odd} & disown; (setsid sleep {odd} &)")
    await env.start(f"trap '' TERM; sleep {odd}")
    await env.close()
    assert with_argument(odd) == []
    assert not is_alive(info.pid)
    assert not any(info.id in name for name in runtime_names())


async def test_the_guardian_ends_when_the_resident_is_told_to() -> None:
    env = await hermetic.open("local")
    info = await env.info()
    os.kill(info.pid, signal.SIGTERM)
    async with asyncio.timeout(20):
        await gone(info.pid)
        assert info.guardian is not None
        await gone(info.guardian)
    await env.close()


async def test_a_guardian_that_is_killed_is_missed() -> None:
    async with hermetic.open("local") as env:
        info = await env.info()
        assert info.guardian
        os.kill(info.guardian, signal.SIGKILL)
        await gone(info.guardian)
        assert (await env.run("echo fine")).output == "fine\n"
        assert any("guardian" in sentence for sentence in (await env.info()).weak)
