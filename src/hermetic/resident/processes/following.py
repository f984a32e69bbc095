"""Followers of a growing log, limited by credit: a slow follower costs no memory and sees every gap."""

from __future__ import annotations

from ..life.resident import Refusal
from ..limits import FOLLOW_PIECE
from ..wire import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..life.server import Request
    from .job import Job
    from .output_log import OutputLog


class Follow:
    """Sends a log from an offset as it grows, within the credit. The log is the buffer.

    A follower with `hold` makes the program wait before unsent output would fall out of the log.
    """

    def __init__(self, request: Request, job: Job, log: OutputLog, offset: int, credit: int, hold: bool) -> None:
        self.request, self.job, self.log = request, job, log
        self.offset, self.credit = offset, credit
        if hold:
            log.holders.append(self)
        request.on_credit = self._on_credit
        request.on_room = self.advance
        request.abandoned = self._stop
        log.listeners.append(self.advance)
        job.when_ended(self.advance)
        self.advance()

    def _on_credit(self, count: int) -> None:
        self.credit += count
        self.advance()

    def advance(self) -> None:
        if self.request.answered or self.request.client.closed:
            return
        if self.log.is_closed:
            self._stop()
            message = "process %s was forgotten" % self.job.id
            self.request.refuse(Refusal("UnknownProcess", message, process=self.job.id))
            return
        while self.credit > 0 and self.request.client.has_room:
            start, data = self.log.read(self.offset, min(self.credit, FOLLOW_PIECE, frames.FRAME_BODY))
            if not data:
                break
            self.offset = start + len(data)
            self.credit -= len(data)
            self.request.event({"start": start}, data)
            if self.request.client.closed:
                return
        self.log.release()
        if self.job.has_ended and self.offset >= self.log.total:
            self._stop()
            self.request.reply({"end": self.offset, "ending": self.job.ending})

    def _stop(self) -> None:
        if self.advance in self.log.listeners:
            self.log.listeners.remove(self.advance)
        if self in self.log.holders:
            self.log.holders.remove(self)
            self.log.release()


def wait_for_log(
    request: Request,
    job: Job,
    log: OutputLog,
    offset: int,
    seconds: float,
    answer: Callable[[], tuple[frames.Fields, bytes]],
) -> None:
    """Answers at the first byte after `offset`, at the job's end, or after `seconds`."""

    def look() -> None:
        if log.total > offset or job.has_ended:
            finish()

    def stop() -> None:
        timer.cancel()
        if look in log.listeners:
            log.listeners.remove(look)

    def finish() -> None:
        stop()
        request.reply_when_room(answer)

    timer = request.client.loop.call_later(seconds, finish)
    log.listeners.append(look)
    job.when_ended(look)
    request.abandoned = stop
