"""A forked worker that ends too early has failed, and is gone before anybody is told."""

import subprocess
import sys
from pathlib import Path

import pytest

WORK = """
import fcntl, os, sys, time
from hermetic.resident.files import worker
from hermetic.resident.life.loop import Loop

loop, said = Loop(lambda: said.append(sys.exc_info()[1])), []
path, how = sys.argv[1:]

def half(fd, data):
    os.write(fd, data[:len(data) // 2])

def holds():
    lock = os.open(path, os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    for fd in range(3, 64):
        if fd != lock:
            try:
                os.close(fd)
            except OSError:
                pass
    time.sleep(0.3)
    os._exit(0)

def done(answer):
    said.append(answer)
    loop.stop()

def failed(refusal):
    lock = os.open(path, os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    said.append(refusal.kind)
    loop.stop()

if how == "half":
    worker.write_all = half
loop.call_later(5, loop.stop)
worker.WorkerPool(loop).submit(holds if how == "holds" else lambda: b"x" * 1000, done, failed)
loop.run()
print(said)
"""


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("whole", f"[{b'x' * 1000!r}]"),
        ("half", "['EnvironmentUnavailable']"),
        ("holds", "['EnvironmentUnavailable']"),
    ],
)
def test_a_worker_that_ends_too_early_has_failed_and_holds_nothing(
    how: str, said: str, tmp_path: Path
) -> None:
    argv = [sys.executable, "-c", WORK, str(tmp_path / "lock"), how]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30)
    assert (done.stdout.strip(), done.stderr) == (said, "")
