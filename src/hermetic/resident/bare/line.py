"""One bash in a place that has no Python, reached through a program of ours: what it is told and what it says."""

from __future__ import annotations

import os

from ..limits import BARE_COMPLAINT, BARE_STATE
from ..processes.job import Drain, StartOptions
from ..processes.process import spawn
from ..processes.stdin_writer import StdinWriter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..processes.job import Sink
    from .resident import BareResident

OUT, ERR = 0, 1


class Complaints:
    """What the way into the place says for itself: shown only when it failed."""

    def __init__(self) -> None:
        self.total = 0
        self.kept = b""
        self.when_released: list[Callable[[], None]] = []

    def append(self, data: bytes | memoryview) -> None:
        self.total += len(data)
        self.kept = (self.kept + bytes(data))[-BARE_COMPLAINT:]

    def is_held(self) -> bool:
        return False

    def __str__(self) -> str:
        lines = self.kept.decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else ""


class Sieve:
    """Takes what a bash says for itself out of a stream, and lets the rest through to `sink` unchanged.

    Between one token and the next is a record; `told(record)` gets it. What may be the start of a token is held back
    until more has come.
    """

    def __init__(self, sink: Sink, token: bytes, told: Callable[[bytes], None]) -> None:
        self.sink, self.token, self.told = sink, b"\xff" + token, told
        self.total = 0
        self.rest = b""
        self.record: list[bytes] | None = None  # the parts of the one that is coming
        self.record_bytes = 0

    @property
    def when_released(self) -> list[Callable[[], None]]:
        return self.sink.when_released

    def is_held(self) -> bool:
        return self.sink.is_held()

    def append(self, data: bytes | memoryview) -> None:
        self.total += len(data)
        whole = self.rest + bytes(data)
        parts = whole.split(self.token)
        held = _overlap(parts[-1], self.token)
        self.rest = parts[-1][len(parts[-1]) - held :] if held else b""
        parts[-1] = parts[-1][: len(parts[-1]) - held]
        whole_records = []
        for at, part in enumerate(parts):
            if at:
                whole_records += self._turn()
            if self.record is None:
                if part:
                    self.sink.append(part)
            elif self.record_bytes <= BARE_STATE:
                self.record.append(part)
                self.record_bytes += len(part)
        for record in whole_records:  # last: whoever is told may read on
            self.told(record)

    def _turn(self) -> list[bytes]:
        """A token: a record begins, or the one that came is whole."""
        if self.record is None:
            self.record = []
            return []
        record = b"".join(self.record) if self.record_bytes <= BARE_STATE else b"?"
        self.record, self.record_bytes = None, 0
        return [record]

    def end(self) -> None:
        """Nothing more comes: what was held back was no token."""
        rest, self.rest = self.rest, b""
        if rest and self.record is None:
            self.sink.append(rest)


def _overlap(data: bytes, token: bytes) -> int:
    """How many bytes at the end of `data` are the beginning of `token`."""
    at = data.rfind(token[:1], max(0, len(data) - len(token) + 1))
    return len(data) - at if at >= 0 and token.startswith(data[at:]) else 0


class Line:
    """Started by its constructor. `told(stream, record)` as records come, `ended()` once when nothing more can."""

    def __init__(
        self,
        resident: BareResident,
        order: bytes,
        token: bytes,
        out: Sink,
        err: Sink,
        told: Callable[[int, bytes], None],
        ended: Callable[[], None],
        program: list[str] | None = None,
    ) -> None:
        self.resident, self.ended = resident, ended
        self.status: int | None = None
        self.sieves = [
            Sieve(out, token, lambda record: told(OUT, record)),
            Sieve(err, token, lambda record: told(ERR, record)),
        ]
        (read_in, write_in), (read_out, write_out), (read_err, write_err) = pipes = [
            os.pipe2(os.O_CLOEXEC) for _ in range(3)
        ]
        try:
            options = StartOptions()
            options.argv, options.environ = program or resident.arm, resident.arm_environ
            self.pid = spawn(resident, options, 0, (read_in, write_out, write_err))
        except OSError:
            for fd in (fd for pair in pipes for fd in pair):
                os.close(fd)
            raise
        for fd in (read_in, write_out, write_err):
            os.close(fd)
        self.drains = []
        for stream, fd in enumerate((read_out, read_err)):
            os.set_blocking(fd, False)
            self.drains.append(Drain(resident.loop, fd, self.sieves[stream]))
        for drain in self.drains:
            drain.listen()
        resident.loop.on_exit(self.pid, self._exited)
        self.feed = StdinWriter(resident.loop, write_in)
        self.feed.write(order)

    def _exited(self, status: int) -> None:
        self.status = status
        self.feed.drop()
        for stream in (OUT, ERR):
            self.drains[stream].flush()
            self.sieves[stream].end()
        self.ended()
