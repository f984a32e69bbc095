"""The command line as a child process."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from tests.cli.forked import ForkServer

COMMAND = (sys.executable, "-m", "hermetic")
forks: list[ForkServer] = []  # of the session of tests, if it has one


def hermetic(
    *words: str, stdin: bytes | None = None, seconds: float = 60
) -> "subprocess.CompletedProcess[bytes]":
    """Runs it to its end, with this input or none; in a fork, unless at full size.

    An error of ours that reaches the user as a traceback is a failure.
    """
    for server in forks:
        if server.can_run():
            return _reported(server.run(words, stdin, seconds))
    given: dict[str, Any] = {"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}
    return _reported(
        subprocess.run([*COMMAND, *words], capture_output=True, timeout=seconds, **given)
    )


def _reported(done: "subprocess.CompletedProcess[bytes]") -> "subprocess.CompletedProcess[bytes]":
    assert b'/hermetic/cli/dispatch.py", line' not in done.stderr, done.stderr.decode()
    return done


def as_json(*words: str) -> Any:
    """What it prints with --json, read."""
    done = hermetic(*words, "--json")
    assert done.returncode == 0, done.stderr
    return msgspec.json.decode(done.stdout)


@contextmanager
def running(*words: str, **options: Any) -> Iterator["subprocess.Popen[bytes]"]:
    """It, while it runs; ended at the end of the block."""
    given = {
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        **options,
    }
    process = subprocess.Popen([*COMMAND, *words], **given)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        finally:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    stream.close()


def alive(mark: str) -> list[int]:
    """Pids of the programs that have the mark as an argument."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as cmdline:
                words = cmdline.read().split(b"\0")
        except OSError:
            continue
        if mark.encode() in words:
            found.append(int(name))
    return found


def eventually(check: Callable[[], bool], seconds: float = 20) -> None:
    """Returns once the check says yes; fails when that takes too long."""
    deadline = time.monotonic() + seconds
    while True:
        began = time.monotonic()
        if check():
            return
        assert time.monotonic() < deadline, f"did not come true within {seconds:g} s"
        time.sleep(
            max(0.02, 2 * (time.monotonic() - began))
        )  # what takes long to look at is not looked at all the time
