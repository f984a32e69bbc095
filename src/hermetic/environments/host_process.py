"""A process of this machine that is never mistaken for a later one with its number."""

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Self

import msgspec

from hermetic.environments.starting import ended

PATIENCE = 2.0  # seconds for what was told to end; it has nothing left to do then


class HostProcess(msgspec.Struct, frozen=True):
    """A process by its number and its birth: the two together name it for good."""

    pid: int
    born: str  # in clock ticks since the machine started, as the kernel says; "" of one that had ended when we looked

    @classmethod
    def find(cls, pid: int) -> Self | None:
        """The living process with this number."""
        try:
            fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):  # anything else, such as no descriptor left, proves nothing
            return None
        return None if fields[0] in "ZX" else cls(pid, fields[19])

    @classmethod
    def parse(cls, text: str) -> Self:
        """The process that `str` told of."""
        pid, _, born = text.partition(".")
        return cls(int(pid), born)

    def __str__(self) -> str:
        return f"{self.pid}.{self.born}"

    @property
    def is_alive(self) -> bool:
        """False also when something else has its number now."""
        found = HostProcess.find(self.pid)
        return found is not None and found.born == self.born

    async def see_ended(self, patience: float = PATIENCE) -> None:
        """Returns when it has ended: by itself, or because we help, each time a little more."""
        for help_along in self._ways():
            if not self.is_alive:
                return
            help_along()
            with suppress(TimeoutError):
                async with asyncio.timeout(patience):
                    await ended(self.pid)

    def _ways(self) -> Sequence[Callable[[], None]]:
        return (self._wait, partial(self._send, signal.SIGTERM), partial(self._send, signal.SIGKILL))

    def _wait(self) -> None:
        """Nothing but time: it is about to end."""

    def _send(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)
