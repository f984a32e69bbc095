"""Output log of a job: bytes by offset, with a bounded head and tail, and a counted gap between
them.
"""

from __future__ import annotations

import os
from time import CLOCK_BOOTTIME, clock_gettime

from ..limits import (
    FOLLOW_HOLD,
    FOLLOW_PACE,
    LOG_HEAD,
    LOG_MARK_SECONDS,
    LOG_MARKS,
    SECRET_LENGTH,
    SECRETS,
    SPOOL,
    SPOOL_FALLBACK,
)
from .unnamed import open_unnamed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    class Holder(Protocol):
        """A reader that a program may have to wait for. It has all bytes before `offset`."""

        offset: int


class Masking:
    """Replaces known secrets, also across two writes."""

    def __init__(self) -> None:
        self.secrets: list[bytes] = []
        self.carry = b""  # the last raw bytes: a secret may have begun in them
        self.stored = b""  # the same bytes as stored

    def add(self, secret: bytes) -> None:
        if len(secret) >= SECRET_LENGTH and secret not in self.secrets:
            self.secrets = [*self.secrets, secret][-SECRETS:]

    def mask(self, data: bytes) -> tuple[bytes, bytes]:
        """`(before, data)`: the replacement of the bytes stored last, and the bytes to store."""
        joined = self.carry + data
        masked = joined
        for secret in self.secrets:
            masked = masked.replace(secret, b"*" * len(secret))
        # Bytes that an earlier secret has masked stay masked in the second pass.
        masked = bytes(map(masked_byte, joined, masked, self.stored)) + masked[len(self.stored) :]
        split, keep = len(self.carry), max(map(len, self.secrets)) - 1
        before = masked[:split] if masked[:split] != self.stored else b""
        self.carry, self.stored = joined[-keep:], masked[-keep:]
        return before, masked[split:]


def masked_byte(plain: int, now: int, then: int) -> int:
    """One byte, masked if either of two passes masked it."""
    return now if now != plain else then


class Ring:
    """Ring buffer of a stream's newest bytes in an unnamed file. A full disk makes it smaller."""

    def __init__(self, folder: str | None, cap: int) -> None:
        self.cap = cap
        self.size = 0  # bytes ever written
        self.memory: bytearray | None = None
        self.trouble = ""  # why less is kept than the capacity
        try:
            self.fd: int | None = open_unnamed(folder)
        except OSError as error:
            self.fd = None
            self.trouble = os.strerror(error.errno or 0) if folder is not None else ""
            self._use_memory()

    def write(self, data: bytes | memoryview) -> None:
        at = self.size % self.cap
        if self.fd is not None and len(data) <= self.cap - at and self._put(data, at) == len(data):
            self.size += len(data)  # nearly always: one write
            return
        self._write_in_parts(memoryview(data))

    def overwrite(self, offset: int, data: bytes) -> None:
        """Overwrites bytes that were written before. Bytes that fell out are skipped."""
        size, self.size = self.size, max(offset, self.start)
        self._write_in_parts(memoryview(data)[self.size - offset :])
        self.size = size

    def _write_in_parts(self, view: memoryview) -> None:
        if len(view) > self.cap:
            self.size += len(view) - self.cap
            view = view[-self.cap :]
        while view:
            at = self.size % self.cap
            part = view[: self.cap - at]
            written = self._put(part, at)
            self.size += written
            view = view[written:]

    def _put(self, part: bytes | memoryview, at: int) -> int:
        if self.memory is not None:
            self.memory[at : at + len(part)] = part
            return len(part)
        assert self.fd is not None, "the ring is closed"
        try:
            return os.pwrite(self.fd, part, at)
        except OSError as error:
            self.trouble = os.strerror(error.errno or 0)
            # The file grows only in the first round, so the kept bytes are in order from its start.
            if self.size < self.cap and self.size >= SPOOL_FALLBACK:
                self.cap = self.size
            else:
                self._use_memory()
            return 0

    def _use_memory(self) -> None:
        """Switches to a short tail in memory after a failed write.

        The file's bytes count as fallen out.
        """
        self.close()
        self.cap = SPOOL_FALLBACK
        self.memory = bytearray(self.cap)
        self.lost = self.size

    lost = 0  # bytes at the start that are gone though the ring is not full

    @property
    def start(self) -> int:
        return max(self.lost, self.size - self.cap, 0)

    def read(self, offset: int, limit: int) -> bytes:
        """Bytes from `offset`, which must not be before `start`."""
        parts = []
        limit = min(limit, self.size - offset)
        while limit > 0:
            at = offset % self.cap
            count = min(limit, self.cap - at)
            if self.memory is not None:
                part = bytes(self.memory[at : at + count])
            else:
                assert self.fd is not None, "the ring is closed"
                part = os.pread(self.fd, count, at)
            if not part:
                break
            parts.append(part)
            offset += len(part)
            limit -= len(part)
        return b"".join(parts)

    def close(self) -> None:
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None


class TimeMarks:
    """Moments of a log, with the offset that it had reached then.

    Where there are too many, the closest are merged.
    """

    def __init__(self) -> None:
        self.times: list[float] = []
        self.offsets: list[int] = []

    def add(self, moment: float, offset: int) -> None:
        self.times.append(moment)
        self.offsets.append(offset)
        if len(self.times) > LOG_MARKS:
            times = self.times
            _, closest = min((times[at + 1] - times[at - 1], at) for at in range(1, len(times) - 1))
            del times[closest], self.offsets[closest]

    def offset_before(self, moment: float) -> int:
        """The last known offset that the log had reached before that moment."""
        at = next((at for at in range(len(self.times), 0, -1) if self.times[at - 1] < moment), 0)
        return self.offsets[at - 1] if at else 0


def now() -> float:
    """Seconds of a clock that also runs while the machine sleeps, and that never jumps."""
    return clock_gettime(CLOCK_BOOTTIME)


class OutputLog:
    """Append-only log, bounded by LOG_HEAD in memory and by the spool's capacity on disk."""

    ring: Ring | None = None
    total = 0
    is_closed = False
    is_cleared = False
    newest: bytes | memoryview = b""  # what is being appended, for listeners that read it at once
    masking: Masking | None = None
    marks: TimeMarks | None = None
    last = 0.0  # when the newest bytes came
    mark_due = 0.0
    # Tuples: most logs have none of these, and a list takes memory while it is empty.
    listeners: tuple[Callable[[], None], ...] = ()  # called after every append
    # readers that must miss nothing: the slowest holds the program
    holders: tuple[Holder, ...] = ()
    # viewers of a terminal: the program does not outrun the fastest
    pacers: tuple[Holder, ...] = ()
    when_released: tuple[Callable[[], None], ...] = ()  # called once when they have caught up

    def __init__(self, spool_folder: str | None, spool_bytes: int = SPOOL) -> None:
        self.folder, self.spool_bytes = spool_folder, spool_bytes
        self.head = bytearray()

    def mask(self, secret: bytes) -> None:
        """Stores this secret as asterisks of the same length from now on: offsets stay valid."""
        if SECRET_LENGTH <= len(secret) and self.masking is None:
            self.masking = Masking()
        if self.masking is not None:
            self.masking.add(secret)

    def append(self, data: bytes | memoryview) -> None:
        """Appends bytes; a closed or cleared log drops them. The owner of a view may reuse it
        afterwards.
        """
        if self.is_closed or self.is_cleared:
            return
        if self.masking is not None:
            before, data = self.masking.mask(bytes(data))
            self._overwrite(self.total - len(before), before)
        moment = now()
        if moment >= self.mark_due:
            self._mark(moment)
        self.last, newest = moment, data
        self.total += len(data)
        if self.ring is None:
            room = LOG_HEAD - len(self.head)
            if len(data) <= room:
                self.head += data
                data = b""
            else:
                self.head += data[:room]
                data = data[room:]
                self.ring = Ring(self.folder, self.spool_bytes)
        if data and self.ring is not None:
            self.ring.write(data)
        if self.listeners:
            self.newest = newest
            try:
                for listener in self.listeners:
                    listener()
            finally:
                self.newest = b""  # its owner reuses it

    def _mark(self, moment: float) -> None:
        """Remembers when the bytes before the next ones were complete."""
        self.mark_due = moment + LOG_MARK_SECONDS
        if self.total:
            self.marks = self.marks or TimeMarks()
            self.marks.add(self.last, self.total)

    def offset_since(self, age: float) -> int:
        """Where the output of the last `age` seconds begins.

        At most a little older output comes before it.
        """
        moment = now() - age
        if self.last < moment:
            return self.total
        return self.marks.offset_before(moment) if self.marks is not None else 0

    def _overwrite(self, offset: int, data: bytes) -> None:
        """Overwrites stored bytes."""
        room = max(0, len(self.head) - offset)
        self.head[offset : offset + len(data[:room])] = data[:room]
        if self.ring is not None and data[room:]:
            self.ring.overwrite(offset + room - len(self.head), data[room:])

    def is_held(self) -> bool:
        """Whether the program has to wait for its readers."""
        if (
            self.holders
            and self.total - min(holder.offset for holder in self.holders) > FOLLOW_HOLD
        ):
            return True
        return (
            bool(self.pacers)
            and self.total - max(pacer.offset for pacer in self.pacers) > FOLLOW_PACE
        )

    def release(self) -> None:
        """Resumes paused drains after a holder has advanced or gone."""
        if self.when_released and not self.is_held():
            callbacks, self.when_released = self.when_released, ()
            for callback in callbacks:
                callback()

    @property
    def hole(self) -> tuple[int, int]:
        """The range `(start, end)` that fell out; empty if start == end."""
        if self.ring is None:
            return self.total, self.total
        return len(self.head), len(self.head) + self.ring.start

    @property
    def trouble(self) -> str:
        """Why bytes fell out below the spool's capacity; empty if none did."""
        start, end = self.hole
        return self.ring.trouble if self.ring is not None and start != end else ""

    @property
    def spooled_bytes(self) -> int:
        return min(self.ring.size, self.ring.cap) if self.ring is not None else 0

    def read(self, offset: int, limit: int) -> tuple[int, bytes]:
        """`(start, bytes)` from `offset`, or from the end of the hole if `offset` is inside it."""
        if self.is_closed:
            return offset, b""
        if self.newest and offset == self.total - len(self.newest):
            return offset, bytes(self.newest[:limit])
        head = len(self.head)
        if offset < head:
            data = bytes(self.head[offset : offset + limit])
            rest = limit - len(data)
            if rest > 0 and self.ring is not None and self.ring.start == 0:
                data += self.ring.read(0, rest)
            return offset, data
        if self.ring is None:
            return self.total, b""
        start = min(max(offset, self.hole[1]), self.total)
        return start, self.ring.read(start - head, limit)

    def excerpt(self, limit: int) -> tuple[bytes, bytes]:
        """`(head, tail)` of at most `limit` bytes together: all, or 40 % from the start and 60 %
        from the end.
        """
        if self.ring is None and self.total <= limit and not self.is_closed:
            return bytes(self.head), b""  # nearly always
        if self.total <= limit and self.hole[0] == self.hole[1]:
            return self.read(0, limit)[1], b""
        first = min(limit * 2 // 5, self.hole[0])
        last = limit - first
        hole_start, hole_end = self.hole
        start = max(self.total - last, first)
        if hole_start < hole_end:
            # a tail that starts before the hole would not reach the end
            start = max(start, hole_end)
        _, tail = self.read(start, last)
        return self.read(0, first)[1], tail

    def clear(self) -> None:
        """Drops the content of a log that stays: all of it counts as fallen out."""
        if self.ring is not None:
            self.ring.close()
        self.head, self.ring, self.is_cleared = bytearray(), None, True
        for listener in self.listeners:
            listener()

    def close(self) -> None:
        """Drops the content, and notifies the listeners."""
        self.is_closed = True
        if self.ring is not None:
            self.ring.close()
        for listener in self.listeners:
            listener()
