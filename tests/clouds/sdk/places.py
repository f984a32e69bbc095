"""What both stand-ins share: a sandbox is a directory and processes of this machine.

Nothing is isolated: commands run as the caller. For tests on loopback only. In the directory of a
stand-in, `running` has a file for each sandbox that runs, which would be billed.
"""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from cutting import Proxy  # type: ignore[import-not-found, unused-ignore]

SYSTEM = ("/usr/bin", "/bin", "/usr/sbin", "/sbin")
NO_PYTHON = "nopython"  # in the name of an image: one that lacks Python
NO_IMAGE = "noimage"  # in the name of an image: one that cannot be had
CUTS = "cuts"  # in the directory of a stand-in: its content changes when connections are cut
STUCK = "stuck"  # in the directory of a stand-in, names the sandbox that it does not end


class Place:
    """The directory of one sandbox and its processes."""

    def __init__(self, root: Path, id: str, image: str) -> None:
        self.root, self.id = root, id
        self.home = root / "homes" / id
        self.home.mkdir(parents=True)
        path = str(without_python(root)) if NO_PYTHON in image else ":".join(SYSTEM)
        self.mark = f"STANDIN_SANDBOX={id}"
        self.environ = {
            "PATH": path,
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "STANDIN_SANDBOX": id,
        }
        self.begin()

    @property
    def _running(self) -> Path:
        return self.root / "running" / self.id

    def begin(self) -> None:
        """It runs."""
        self._running.parent.mkdir(exist_ok=True)
        self._running.touch()

    def stop(self) -> None:
        """Ends every process in it, also those in sessions of their own; its files stay."""
        while self._processes():
            for pid in self._processes():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self._running.unlink(missing_ok=True)

    def end(self) -> None:
        """Ends it with its files."""
        self.stop()
        shutil.rmtree(self.home, ignore_errors=True)

    def _processes(self) -> list[int]:
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if self.mark.encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                    found.append(int(pid))
        return found


def note_created(root: Path, **wanted: object) -> None:
    """Adds what a sandbox was created with to the file `created`: seconds, cores, MiB."""
    with (root / "created").open("a") as file:
        file.write(json.dumps(wanted) + "\n")


def without_python(root: Path) -> Path:
    """A directory with the programs of this machine except Python."""
    programs = root / NO_PYTHON
    if not programs.exists():
        programs.mkdir()
        for folder in SYSTEM:
            for name in os.listdir(folder):
                if not name.startswith(("python", "pypy")) and not (programs / name).is_symlink():
                    (programs / name).symlink_to(f"{folder}/{name}")
    return programs


@asynccontextmanager
async def published(root: Path, port: int) -> AsyncIterator[int]:
    """The port for clients: that of a proxy where the directory has the file `cuts`."""
    if not (root / CUTS).exists():
        yield port
        return
    async with Proxy("127.0.0.1", port, (root / CUTS).read_bytes) as proxy:
        yield proxy.port


def end_with_input(stop: asyncio.Event) -> None:
    """Sets the event when the standard input ends: the test that started this program has ended."""
    loop = asyncio.get_running_loop()

    def wait() -> None:
        sys.stdin.buffer.read()
        loop.call_soon_threadsafe(stop.set)

    threading.Thread(target=wait, daemon=True).start()
