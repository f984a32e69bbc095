"""Holds a process as a debugger does: unlike a stop by a signal, its parent does not see it."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

TRACER = """
import ctypes, os, signal, sys, time
PTRACE_SEIZE, PTRACE_INTERRUPT = 0x4206, 0x4207
libc = ctypes.CDLL(None, use_errno=True)
for request in (PTRACE_SEIZE, PTRACE_INTERRUPT):
    if libc.ptrace(request, int(sys.argv[1]), 0, 0):
        sys.exit(os.strerror(ctypes.get_errno()))
print("held", flush=True)
time.sleep(600)
"""


@contextmanager
def held(pid: int) -> Iterator[None]:
    """For the time of a block a process does nothing; then it goes on."""
    command = [sys.executable, "-c", TRACER, str(pid)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as tracer:
        assert tracer.stdout is not None
        try:
            if tracer.stdout.readline() != "held\n":
                pytest.skip("this user may not trace its own processes")
            yield
        finally:
            tracer.kill()
