"""The resident's memory is closed to what it runs: no command can trace it, hold it or read it."""

import asyncio
import contextlib
import json
import os
import platform
import signal
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import hermetic
from tests.environments.engines import PODMAN, need_engine
from tests.environments.ordinary_user import OrdinaryUser
from tests.environments.sandboxes import sandbox
from tests.programs import need_root, need_variable
from tests.scenarios.living import begin
from tests.tracing import held

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="there is no holder for this machine yet"
)

SECRET = "correct-horse-battery-staple"
# Tries to seize and to read a process, and reads its memory for a text; prints what worked.
ATTACK = r"""
import ctypes, os, sys
pid, wanted = int(sys.argv[1]), sys.argv[2].encode()
libc = ctypes.CDLL(None, use_errno=True)
for name, request in (("seize", 0x4206), ("attach", 16)):
    if libc.ptrace(request, pid, None, None) == 0:
        print(name, flush=True)
        os._exit(0)
try:
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            start, end = (int(part, 16) for part in line.split()[0].split("-"))
            try:
                memory.seek(start)
                print("found" if wanted[::-1] in memory.read(end - start) else "read")
            except (OSError, OverflowError, ValueError):
                pass
except OSError as error:
    print(error.strerror)
try:
    print("descriptor", os.readlink(f"/proc/{pid}/fd/0"))
except OSError:
    pass
"""


@pytest.fixture(params=["docker", PODMAN, "sandbox"])
def kind(request: pytest.FixtureRequest) -> str:
    """A kind whose commands have no rights over other processes."""
    return str(request.param)


@asynccontextmanager
async def opened(kind: str, directory: Path) -> AsyncIterator[hermetic.Environment]:
    if kind == "sandbox":
        async with sandbox(directory) as env:
            yield env
        return
    need_engine(kind)
    options: dict[str, Any] = {"image": need_variable("IMAGE_BASE"), "login": False}
    async with hermetic.open(kind, **options) as env:
        yield env


async def test_no_command_traces_or_reads_the_resident(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as environment:
        assert (await environment.info()).weak == ()
        process = await environment.start("read -rs x; echo ready; sleep 100", pty=True)
        await process.write_secret(SECRET)
        await process.wait_for("ready", timeout=60)
        # The text is given backwards: it must not be found in the memory of the attacker's own
        # shell.
        said = await environment.run(["python3", "-c", ATTACK, "1", SECRET[::-1]])
        assert said.output == "Permission denied\n"
        holder = (
            await environment.run("cat /proc/*/comm 2> /dev/null | grep -c hermetic-holder")
        ).output
        assert holder == "1\n"


JOURNEY = """
import asyncio, json, sys
import hermetic

async def main():
    attack, backwards = sys.argv[1:]
    async with hermetic.open("local", login=False) as env:
        process = await env.start("read -rs x; echo ready; sleep 100", pty=True)
        await process.write_secret(backwards[::-1])
        await process.wait_for("ready", timeout=60)
        info = await env.info()
        said = [(await env.run([sys.executable, "-c", attack, str(pid), backwards])).output
                for pid in (info.pid, info.guardian)]
        print(json.dumps(said))

asyncio.run(main())
"""


def test_on_this_machine_neither_resident_nor_guardian_is_read_by_their_own_user() -> None:
    need_root("only root can run something as another user")
    with tempfile.TemporaryDirectory(prefix="hm-", dir="/tmp") as home:
        user = OrdinaryUser(need_variable("APPTAINER_USER"), Path(home))
        said = user.run(JOURNEY, ATTACK, SECRET[::-1], XDG_RUNTIME_DIR=home)
    assert json.loads(said) == ["Permission denied\n"] * 2


async def test_the_holder_has_no_memory_and_can_do_nothing(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as environment:
        find = "for p in /proc/[0-9]*; do [[ $(< $p/comm) == hermetic-holder ]] && echo ${p#/proc/}; done 2> /dev/null"
        pid = (await environment.run(find)).output.strip()
        # One page of code, besides the kernel's own at the top.
        seen = await environment.run(
            f"grep -vc vsyscall /proc/{pid}/maps; grep Seccomp: /proc/{pid}/status"
        )
        assert seen.output.split() == ["1", "Seccomp:", "2"]
        # Killed, it is replaced, and so are the shells that knew it.
        for _ in range(3):
            await environment.run(f"kill -9 {pid}")
            assert (
                await environment.run("echo works; head -c 100000 /dev/zero | wc -c")
            ).output == "works\n100000\n"
            pid = (await environment.run(find)).output.strip()
            assert pid
        said = await environment.run(["python3", "-c", ATTACK, "1", SECRET[::-1]])
        assert said.output == "Permission denied\n"


async def test_a_debugger_of_ones_own_processes_works(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as environment:
        await environment.run("sleep 100 & echo $! > /tmp/pid")
        said = await environment.run(
            'python3 -c "$0" $(cat /tmp/pid) x'.replace("$0", "$CODE"), env={"CODE": ATTACK}
        )
        assert said.output == "seize\n"


def holder_of(pid: int) -> int:
    """The holder of a resident on this machine."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    [holder] = [
        int(one) for one in children if Path(f"/proc/{one}/comm").read_text() == "hermetic-holder\n"
    ]
    return holder


async def test_the_holder_ends_with_its_resident(tmp_path: Path) -> None:
    async with hermetic.open("local", cwd=str(tmp_path), login=False) as env:
        pid = (await env.info()).pid
        holder = holder_of(pid)
        handle = os.pidfd_open(holder)
        os.kill(pid, signal.SIGKILL)
        try:
            over = asyncio.Event()
            asyncio.get_running_loop().add_reader(handle, over.set)
            async with asyncio.timeout(30):
                await over.wait()
        finally:
            asyncio.get_running_loop().remove_reader(handle)
            os.close(handle)


async def replaced_holder(pid: int, old: int) -> None:
    """Returns once a resident has replaced its killed holder."""
    async with asyncio.timeout(30):
        while True:
            with contextlib.suppress(OSError, ValueError):
                if holder_of(pid) != old:
                    return
            await asyncio.sleep(0.01)


async def test_a_running_command_goes_on_when_the_holder_is_killed(tmp_path: Path) -> None:
    go = tmp_path / "go"
    os.mkfifo(go)
    async with hermetic.open("local", cwd=str(tmp_path), login=False) as env:
        pid = (await env.info()).pid
        running = await begin(env, "echo begun; read < go; echo after; (exit 7)")
        holder = holder_of(pid)
        os.kill(holder, signal.SIGKILL)
        await replaced_holder(pid, holder)
        go.write_text("\n")
        result = await running
        assert (result.output, result.ending) == ("begun\nafter\n", hermetic.Exited(7))
        assert (await env.run("echo works")).output == "works\n"


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("touch begun", {}),
        ("echo begun >> begun", {}),
        ("echo $X >> begun", {"env": {"X": "begun"}}),
        ("trap : USR1; echo begun >> begun", {}),
    ],
    ids=["plain", "short", "with options", "exact"],
)
async def test_a_command_that_cannot_begin_for_want_of_the_holder_runs_once(
    text: str, options: dict[str, Any], tmp_path: Path
) -> None:
    async with hermetic.open("local", cwd=str(tmp_path), login=False) as env:
        pid = (await env.info()).pid
        shell = int((await env.run("echo $BASHPID")).output)
        await env.run("true")
        with held(shell):
            running = asyncio.create_task(env.run(text, **options))
            async with asyncio.timeout(30):
                while not any(info.state == "running" for info in await env.processes()):  # noqa: ASYNC110 (it cannot tell)
                    await asyncio.sleep(0.01)
            holder = holder_of(pid)
            os.kill(holder, signal.SIGKILL)
            await replaced_holder(pid, holder)
        result = await running
        assert result.ending == hermetic.Exited(0), result
        assert len((tmp_path / "begun").read_text().split()) == (text != "touch begun")
        assert any("login state" in note for note in result.notes), result.notes
