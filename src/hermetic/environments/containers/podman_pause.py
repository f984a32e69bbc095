"""Rootless podman's pause process: a client leaves one behind that keeps its user namespace alive."""

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def no_new_pause(environ: Mapping[str, str]) -> Iterator[None]:
    """Ends a pause process that began in the block, unless containers or other clients share its namespace."""
    files = [] if os.geteuid() == 0 else _pid_files(environ)
    before = {file: _pid(file) for file in files}
    try:
        yield
    finally:
        for file in files:
            pid = _pid(file)
            if pid is not None and pid != before[file] and not _is_shared(pid):
                with suppress(OSError):  # another client was quicker
                    os.kill(pid, signal.SIGKILL)
                    file.unlink()


def _pid_files(environ: Mapping[str, str]) -> list[Path]:
    """Possible pid files of podman's pause process."""
    uid = os.geteuid()
    homes = [environ.get("XDG_RUNTIME_DIR", ""), f"/run/user/{uid}", f"/tmp/podman-run-{uid}", f"/tmp/run-{uid}"]
    return [Path(home, "libpod", "tmp", "pause.pid") for home in dict.fromkeys(filter(None, homes))]


def _pid(file: Path) -> int | None:
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None


def _is_shared(pid: int) -> bool:
    """Whether another process is in the pause process' user namespace; True if that is not known."""
    namespaces = {other: _namespace(other) for other in os.listdir("/proc") if other.isdigit()}
    own = namespaces.pop(str(pid), None)
    return own is None or own in namespaces.values() or own == _namespace("self")


def _namespace(pid: str) -> str | None:
    try:
        return os.readlink(f"/proc/{pid}/ns/user")
    except OSError:
        return None
