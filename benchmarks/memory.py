"""What /proc says of a process: its memory, its peak, its threads."""

import contextlib
from pathlib import Path

KIB = 1024
MIB = 1024 * KIB


def status(pid: int, field: str) -> int:
    """A number from /proc/PID/status; sizes in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == field:
            words = value.split()
            return int(words[0]) * (KIB if words[1:] == ["kB"] else 1)
    raise LookupError(f"/proc/{pid}/status has no {field}")


class Peak:
    """How far the memory of some processes rises from now on."""

    def __init__(self, *pids: int) -> None:
        self._pids = pids
        for pid in pids:
            # Sets VmHWM back to what is used now; where that is not allowed, an earlier peak hides
            # smaller ones.
            with contextlib.suppress(OSError):
                Path(f"/proc/{pid}/clear_refs").write_text("5")
        self._before = [status(pid, "VmRSS") for pid in pids]

    def growth_bytes(self) -> int:
        """The sum of every process's highest memory since, over what it had then."""
        return sum(
            max(0, status(pid, "VmHWM") - before)
            for pid, before in zip(self._pids, self._before, strict=True)
        )
