"""Chaos: whatever is killed, stopped, removed or exhausted, no byte is lost, nothing leaks, no
session stays stuck, and no environment ends without proof that it is gone.

A round opens an environment, keeps it busy from several sides, injects one fault at a random
moment, and then looks. A failure names its round; the same round draws the same moments.
"""

import asyncio
import contextlib
import itertools
import json
import os
import random
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import hermetic
from hermetic.contract.limits import CLIENTS
from tests.environments.engines import ask, need_engine
from tests.environments.sandboxes import kept_of
from tests.programs import need, need_variable
from tests.scenarios.living import with_argument
from tests.sizes import is_full

ROUNDS = 300  # at full size, all kinds together
SECONDS = 20.0  # by default
AT_ONCE = 2
# within which every call has to answer, whatever happens; a loaded machine needs a few
BOUND = 60.0

LINES = 3000
PRINT = 'for (; i < n; i++) print "line " (0 + i); fflush()'
# no shell, not even before it begins
PRINTER = [
    "awk",
    f'BEGIN {{ n = {LINES}; {PRINT}; system("sleep 0.2"); n = {2 * LINES}; {PRINT} }}',
]
PRINTED = "".join(f"line {i}\n" for i in range(2 * LINES)).encode()

# Attaches to a task and runs commands in it until it is killed.
CALLER = """
import asyncio, sys, hermetic
async def main():
    env = await hermetic.attach(sys.argv[1])
    print("ready", flush=True)
    while True:
        await env.run("X=$((X + 1)); echo $X")
asyncio.run(main())
"""

# Opens a task with two descriptors to spare; says which error it got.
STARVED = """
import asyncio, json, os, resource, sys, hermetic
async def main():
    hermetic.open, hermetic.ExecutionError
    open_now = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_now + 2, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    try:
        await hermetic.open(sys.argv[1], task=sys.argv[2], **json.loads(sys.argv[3]))
    except hermetic.ExecutionError as error:
        print(type(error).__name__)
asyncio.run(main())
"""


class Scene(NamedTuple):
    """What a fault acts on."""

    kind: str
    env: hermetic.Environment
    resident: int  # its pid as this machine counts
    dice: random.Random
    options: dict[str, Any]


Fault = Callable[[Scene], Awaitable[None]]


async def kill_every_shell(scene: Scene) -> None:
    """Three times in a row, so that the shells that take over are hit too."""
    for _ in range(3):
        for pid in _below(scene.resident):
            if _name(pid) == "bash":
                _signal(pid, signal.SIGKILL)
        await asyncio.sleep(scene.dice.uniform(0, 0.05))


async def stop_every_shell(scene: Scene) -> None:
    shells = [pid for pid in _below(scene.resident) if _name(pid) == "bash"]
    for pid in shells:
        _signal(pid, signal.SIGSTOP)
    await asyncio.sleep(scene.dice.choice((0.1, 0.5, 7.0)))
    for pid in shells:
        _signal(pid, signal.SIGCONT)


async def stop_the_resident(scene: Scene) -> None:
    """For a moment, or for longer than a connection may take to be made."""
    _signal(scene.resident, signal.SIGSTOP)
    await asyncio.sleep(scene.dice.choice((0.1, 0.5, 7.0)))
    _signal(scene.resident, signal.SIGCONT)


async def pause_the_container(scene: Scene) -> None:
    name = _container(scene)
    await _engine("pause", name)
    await asyncio.sleep(scene.dice.choice((0.1, 0.5, 7.0)))
    await _engine("unpause", name)


async def open_while_it_is_stopped(scene: Scene) -> None:
    """Another caller opens the task and gets the same environment, or an error of ours; never a new
    environment.
    """
    _signal(scene.resident, signal.SIGSTOP)
    other = asyncio.create_task(_open_again(scene))
    await asyncio.sleep(scene.dice.choice((0.5, 7.0)))
    _signal(scene.resident, signal.SIGCONT)
    await other


async def kill_a_caller(scene: Scene) -> None:
    """One that is attached and runs commands; some of them are stopped for a while before."""
    assert scene.env.task is not None
    caller = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CALLER, scene.env.task, stdout=asyncio.subprocess.PIPE
    )
    assert caller.stdout is not None
    assert await caller.stdout.readline() == b"ready\n"
    await asyncio.sleep(scene.dice.uniform(0, 0.2))
    if scene.dice.random() < 0.5:
        caller.send_signal(signal.SIGSTOP)
        await asyncio.sleep(scene.dice.choice((0.1, 0.5, 7.0)))
    caller.kill()
    await caller.wait()


async def attach_too_many(scene: Scene) -> None:
    """All connections taken: the next caller waits for one, and the environment goes on."""
    assert scene.env.task is not None
    attached = [await hermetic.attach(scene.env.task) for _ in range(CLIENTS - 1)]
    try:
        waiting = asyncio.create_task(_open_again(scene))
        await asyncio.sleep(scene.dice.uniform(0, 1))
        assert not waiting.done()
        await attached.pop().close()
        await waiting
    finally:
        for one in attached:
            await one.close()


async def starve_an_opener(scene: Scene) -> None:
    """A caller that has hardly a descriptor left opens the task."""
    assert scene.env.task is not None
    await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", STARVED, scene.kind, scene.env.task, json.dumps(scene.options)],
        capture_output=True,
        check=False,
    )


async def starve_the_resident(scene: Scene) -> None:
    """No descriptor can be opened in it for a while."""
    before = resource.prlimit(scene.resident, resource.RLIMIT_NOFILE)
    resource.prlimit(scene.resident, resource.RLIMIT_NOFILE, (3, before[1]))
    await asyncio.sleep(scene.dice.uniform(0.05, 0.5))
    resource.prlimit(scene.resident, resource.RLIMIT_NOFILE, before)


async def fill_its_disk(scene: Scene) -> None:
    """No file that it writes can grow for a while."""
    before = resource.prlimit(scene.resident, resource.RLIMIT_FSIZE)
    resource.prlimit(scene.resident, resource.RLIMIT_FSIZE, (4096, before[1]))
    await asyncio.sleep(scene.dice.uniform(0.05, 0.5))
    resource.prlimit(scene.resident, resource.RLIMIT_FSIZE, before)


async def fill_its_spool(scene: Scene) -> None:
    """Nothing can be written to the disk under its spool, a small one."""
    await scene.env.run("head -c 9M /dev/zero > /var/tmp/fill")
    await asyncio.sleep(scene.dice.uniform(0.05, 0.5))
    await scene.env.run("rm /var/tmp/fill")


async def remove_its_directory(scene: Scene) -> None:
    """As a cleaner of temporary directories would."""
    shutil.rmtree(Path(os.environ["HERMETIC_RUNTIME_DIR"], scene.env.id), ignore_errors=True)
    await asyncio.sleep(scene.dice.uniform(0, 0.1))


async def kill_the_guardian(scene: Scene) -> None:
    guardian = (await scene.env.info()).guardian
    assert guardian is not None
    _signal(guardian, signal.SIGKILL)


async def stop_the_guardian(scene: Scene) -> None:
    guardian = (await scene.env.info()).guardian
    assert guardian is not None
    _signal(guardian, signal.SIGSTOP)
    await asyncio.sleep(scene.dice.choice((0.1, 0.5, 7.0)))
    _signal(guardian, signal.SIGCONT)


async def kill_the_watchdog(scene: Scene) -> None:
    """A sandbox ends with it, at the latest when the task is opened again."""
    _signal(kept_of(scene.env).processes[1].pid, signal.SIGKILL)


async def kill_the_resident(scene: Scene) -> None:
    _signal(scene.resident, signal.SIGKILL)


async def stop_the_engine(scene: Scene) -> None:
    """An engine that hangs concerns no environment that lives; another caller still attaches."""
    engine = _listener(need_variable("DOCKER_HOST").removeprefix("unix://"))
    _signal(engine, signal.SIGSTOP)
    try:
        await _open_again(scene)
        await asyncio.sleep(scene.dice.uniform(0, 1))
    finally:
        _signal(engine, signal.SIGCONT)


async def kill_the_container(scene: Scene) -> None:
    await _engine("kill", _container(scene))


async def restart_the_container(scene: Scene) -> None:
    await _engine("restart", "--time", "0", _container(scene))


# Kind, fault, and whether the environment is gone after it.
FAULTS: tuple[tuple[str, Fault, bool], ...] = (
    *(
        (kind, fault, False)
        for kind in ("local", "sandbox", "docker")
        for fault in (
            kill_every_shell,
            stop_every_shell,
            stop_the_resident,
            open_while_it_is_stopped,
            kill_a_caller,
            attach_too_many,
            starve_an_opener,
            starve_the_resident,
            fill_its_disk,
            remove_its_directory,
        )
    ),
    ("local", kill_the_guardian, False),
    ("local", stop_the_guardian, False),
    ("local", kill_the_resident, True),
    ("sandbox", kill_the_watchdog, True),
    ("sandbox", kill_the_resident, True),
    ("docker", pause_the_container, False),
    ("docker", fill_its_spool, False),
    ("docker", stop_the_engine, False),
    ("docker", kill_the_container, True),
    ("docker", restart_the_container, True),
    ("docker", kill_the_resident, True),
)


@pytest.mark.slow
async def test_whatever_happens_nothing_is_lost_left_or_stuck() -> None:
    need("bwrap")
    need_engine("docker")
    # Shuffled once, so that the first few are of every kind.
    order = random.Random(1).sample(FAULTS, len(FAULTS))
    rounds = iter(range(ROUNDS)) if is_full() else _until(time.monotonic() + SECONDS)
    async with asyncio.TaskGroup() as group:
        done = [group.create_task(_go_through(rounds, order)) for _ in range(AT_ONCE)]
    print(f"{sum(task.result() for task in done)} rounds of chaos")


def _until(deadline: float) -> Iterator[int]:
    return itertools.takewhile(lambda _: time.monotonic() < deadline, itertools.count())


async def _go_through(rounds: Iterator[int], order: Sequence[tuple[str, Fault, bool]]) -> int:
    """Rounds one after the other, shared with others that do the same; how many."""
    count = 0
    for number in rounds:
        kind, fault, is_gone = order[number % len(order)]
        try:
            async with asyncio.timeout(3 * BOUND):
                await _round(kind, fault, is_gone, random.Random(number))
        except Exception as error:
            error.add_note(f"round {number}: {kind}, {fault.__name__}")
            raise
        count += 1
    return count


async def _round(kind: str, fault: Fault, is_gone: bool, dice: random.Random) -> None:
    odd = f"9{os.getpid()}.{dice.randrange(1 << 40)}"
    task = f"chaos-{odd}"
    options = _options(kind)
    env = await hermetic.open(kind, task=task, **options)
    try:
        before = await env.info()
        scene = Scene(kind, env, _listener(env._record.socket), dice, options)
        await env.run(f"kept={odd}; sleep {odd} & (setsid sleep {odd} &)")
        printer = await env.start(PRINTER)
        callers = [asyncio.create_task(_keep_busy(env, dice.random(), is_gone)) for _ in range(3)]
        await asyncio.sleep(dice.uniform(0, 0.3))
        await fault(scene)
        async with asyncio.timeout(BOUND):
            await asyncio.gather(*callers)
        if is_gone:
            await _look_after_the_end(env, printer, options, before.resident)
        else:
            await _look(env, printer, before.resident)
    finally:
        await _end(env, task)
    async with asyncio.timeout(BOUND):
        while with_argument(odd):  # noqa: ASYNC110 (not our children: no event tells)
            await asyncio.sleep(0.05)


async def _keep_busy(env: hermetic.Environment, wait: float, is_gone: bool) -> None:
    """Commands of every sort; each ends in time, or the environment is gone."""
    await asyncio.sleep(wait / 4)
    for command in (
        "echo one",
        "X=$((X + 1)); echo $X",
        "sleep 0.1; echo two",
        "exit 3",
        "echo three | cat",
        "echo four",
    ):
        try:
            async with asyncio.timeout(BOUND):
                result = await env.run(command, timeout=BOUND / 2)
            assert not isinstance(result.ending, hermetic.TimedOut), (command, result)
        except hermetic.EnvironmentUnavailable:
            if not is_gone:
                raise
            return


async def _look(env: hermetic.Environment, printer: hermetic.Process, resident: str) -> None:
    """The same environment goes on: its default session answers, and every byte is there."""
    async with asyncio.timeout(BOUND):
        result = await env.run("echo alive")
        assert (result.output, result.exit_code) == ("alive\n", 0), result
        await env.run("again=1")
        assert (await env.run("echo $again")).output == "1\n"
        assert await printer.wait(timeout=BOUND) == hermetic.Exited(0)
        data = b""
        while len(data) < len(PRINTED):
            chunk = await printer.read(len(data), wait=10)
            assert chunk.start == len(data)
            assert chunk.data, "the log ends early"
            data += chunk.data
        assert data == PRINTED
        assert (await env.info()).resident == resident


async def _look_after_the_end(
    env: hermetic.Environment, printer: hermetic.Process, options: dict[str, Any], resident: str
) -> None:
    """It is gone and says so; the next open of the task gives another one that works."""
    async with asyncio.timeout(BOUND):
        with contextlib.suppress(hermetic.EnvironmentUnavailable):
            await printer.wait(timeout=BOUND)
        with pytest.raises(hermetic.EnvironmentUnavailable):
            await env.info()
        await env.close()
        again = await hermetic.open(env.kind, task=env.task, **options)
        assert (await again.info()).resident != resident
        assert (await again.run("echo alive")).output == "alive\n"
        await again.close()


async def _end(env: hermetic.Environment, task: str) -> None:
    async with asyncio.timeout(BOUND):
        with contextlib.suppress(hermetic.EnvironmentUnavailable):
            await env.close(remove=True)
        with contextlib.suppress(hermetic.EnvironmentUnavailable):
            await (await hermetic.attach(task)).close(remove=True)


async def _open_again(scene: Scene) -> None:
    """Opens the task once more: the same environment, or an error that is ours."""
    resident = scene.env._record.resident
    try:
        async with asyncio.timeout(BOUND):
            other = await hermetic.open(scene.kind, task=scene.env.task, **scene.options)
    except hermetic.EnvironmentUnavailable:
        return
    assert (await other.info()).resident == resident, (
        "an environment was replaced without proof that it is gone"
    )
    await other.close()


def _options(kind: str) -> dict[str, Any]:
    if kind == "docker":
        return {
            "image": need_variable("IMAGE_BASE"),
            "extra_args": ["--tmpfs", "/var/tmp:size=4m,mode=1777"],
        }
    return {"login": False} if kind == "local" else {}


def _listener(path: str) -> int:
    """The process that listens on a Unix socket, by its pid as this machine counts."""
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(path)
        pid, _, _ = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return int(pid)


def _container(scene: Scene) -> str:
    return str(scene.env._record.place["container"])


async def _engine(*words: str) -> None:
    with contextlib.suppress(subprocess.CalledProcessError):
        await asyncio.to_thread(ask, "docker", words)


def _below(pid: int) -> list[int]:
    try:
        children = [
            int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        ]
    except OSError:
        return []
    return [pid for child in children for pid in (child, *_below(child))]


def _name(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
