"""The physical limits: what the same work costs with nothing of ours in it."""

import os
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks.measuring import MILLI, WrongResult

BASH = next((path for path in ("/bin/bash", "/usr/bin/bash") if os.path.exists(path)), "bash")
FRESH_BASH = "fresh bash -c true"
READ_BYTES = 1 << 16


def run_program(
    argv: Sequence[str], *, env: Mapping[str, str] | None = None, quiet: bool = False
) -> None:
    """Starts a program by posix_spawn and waits for it.

    Raises WrongResult unless it exits with 0.
    """
    actions = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)] if quiet else []
    pid = os.posix_spawnp(
        argv[0], list(argv), os.environ if env is None else env, file_actions=actions
    )
    if code := os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
        raise WrongResult(f"{argv} ended with {code}")


def fresh_bash() -> None:
    """The yardstick U: a bash that starts, does nothing and ends."""
    run_program([BASH, "-c", "true"])


def kill_a_group() -> list[float]:
    """Milliseconds from killing a process group to the end of its leader."""
    ours, theirs = os.pipe()
    pid = os.posix_spawn(
        BASH,
        [BASH, "-c", "sleep 600 & echo; exec sleep 600"],
        os.environ,
        file_actions=[(os.POSIX_SPAWN_DUP2, theirs, 1)],
        setsid=True,
    )
    os.close(theirs)
    os.read(ours, 1)
    started = time.perf_counter()
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    taken = (time.perf_counter() - started) * MILLI
    os.close(ours)
    return [taken]


def starts_per_second(start: Callable[[], None], callers: int, seconds: float) -> float:
    """How many programs several threads start and see ended in a second."""
    counts = [0] * callers
    until = time.perf_counter() + seconds

    def call(number: int) -> None:
        while time.perf_counter() < until:
            start()
            counts[number] += 1

    threads = [threading.Thread(target=call, args=(number,)) for number in range(callers)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.perf_counter() - started)


def read_through_a_pipe(path: Path) -> int:
    """Bytes of a file that `cat` writes into a pipe and we read."""
    ours, theirs = os.pipe()
    try:
        pid = os.posix_spawnp(
            "cat", ["cat", str(path)], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, theirs, 1)]
        )
    finally:
        os.close(theirs)
    total = 0
    while data := os.read(ours, READ_BYTES):
        total += len(data)
    os.close(ours)
    os.waitpid(pid, 0)
    return total
