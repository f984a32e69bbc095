"""Requests about jobs: list, wait, write, signal, end, and read or follow their output."""

from __future__ import annotations

import os

from ..life.server import Request
from ..limits import COMMAND_LISTED, FOLLOW_PIECE, INLINE_OUTPUT, KILL_GRACE, LISTED, TERMINAL
from ..wire import fields as take
from ..wire import frames
from ..wire.fields import Field, Refusal
from .process import Process
from .readers import programs_of, readers_of
from .stdin_writer import InputClosed
from .waiting import waits_for_input

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..life.loop import Timer
    from ..wire.frames import Fields
    from .job import Job
    from .output_log import OutputLog


def is_waiting(job: Job) -> bool | None:
    """Whether a job waits for input; None if the kernel does not show it."""
    if job.has_ended or not isinstance(job, Process) or not job.input_open:
        return False
    return None if job.input_identity is None else waits_for_input(job.members(), job.input_identity)


class ProcessRequest(Request):
    process = Field(take.text)

    @property
    def job(self) -> Job:
        return self.resident.job(self.process)

    def reply_status(self, job: Job) -> None:
        """Replies with a job's state; for an ended job also with the number of processes that it left running."""
        if not job.has_ended:
            self.reply({"process": job.describe(), "waiting": is_waiting(job)})
            return

        def answer(left: dict[int, int]) -> None:
            self.reply({"process": dict(job.describe(), left=left.get(job.number, 0)), "waiting": False})

        self.resident.count_leftovers(answer)


class ListJobs(Request):
    def serve(self) -> None:
        self.resident.count_leftovers(self._reply_list)

    def _reply_list(self, left: dict[int, int]) -> None:
        jobs = self.resident.jobs
        infos = [
            dict(
                job.describe(),
                command=job.text[:COMMAND_LISTED].decode("utf-8", "replace"),
                left=left.get(job.number, 0),
            )
            for job in jobs.values()
        ]
        body = frames.pack(infos[-LISTED:])
        while len(body) > frames.FRAME_BODY:  # long directories
            infos = infos[len(infos) // 4 :]
            body = frames.pack(infos[-LISTED:])
        self.reply({"processes": len(jobs)}, body)


class Status(ProcessRequest):
    def serve(self) -> None:
        self.reply_status(self.job)


class Wait(ProcessRequest):
    def serve(self) -> None:
        job = self.job
        job.when_ended(lambda: self.reply({"process": job.describe()}))


class Write(ProcessRequest):
    secret = Field(take.flag)

    def serve(self) -> None:
        job = self.job

        def taken(error: InputClosed | None) -> None:
            if error is None:
                self.reply({})
            else:
                self.refuse(input_closed(job))

        if not isinstance(job, Process) or not job.input_open:
            raise input_closed(job)
        if self.secret:
            for log in job.logs():
                log.mask(self.body.rstrip(b"\r\n"))
        try:
            job.write(self.body, taken)
        except InputClosed as error:
            raise input_closed(job) from error


def input_closed(job: Job) -> Refusal:
    why = "has ended" if job.has_ended else "reads no input: it was started without it, or it was closed"
    return Refusal("InputClosed", "process %s %s" % (job.id, why), process=job.id)


class CloseInput(ProcessRequest):
    def serve(self) -> None:
        job = self.job
        if isinstance(job, Process) and job.input_open:
            job.close_input()
        self.reply({})


class Tag(ProcessRequest):
    tag = Field(take.tag)
    claimed = Field(take.flag)

    def serve(self) -> None:
        job, tag, was = self.job, self.tag, self.fields.get("was")
        claimed = not self.claimed or job.claim(self.client)
        done = claimed and was in (None, job.tag)
        if done:
            job.tag = tag
        self.reply({"done": done, "claimed": claimed, "tag": job.tag})


class Claim(ProcessRequest):
    """Answers when this client reports on the job: at once, or when the client that does has left."""

    def serve(self) -> None:
        job = self.job
        if job.claim(self.client):
            self.reply({"process": job.describe()})
        elif job.claimant is not None:

            def left() -> None:
                self.client.serve(self)

            waiting_for = job.claimant.when_closed
            waiting_for.append(left)
            self.abandoned = lambda: waiting_for.remove(left)


class Resize(ProcessRequest):
    rows = Field(take.number, 24, 1, TERMINAL)
    cols = Field(take.number, 80, 1, TERMINAL)

    def serve(self) -> None:
        job, rows, cols = self.job, self.rows, self.cols
        if not isinstance(job, Process) or not job.pty:
            message = "process %s has no terminal: start it with pty=True" % job.id
            raise Refusal("Unsupported", message, capability="pty")
        if job.input_open:
            job.resize(rows, cols)
        self.reply({})


class Signal(ProcessRequest):
    signal = Field(take.number, 15, 1, 64)
    tree = Field(take.flag, True)

    def serve(self) -> None:
        job, number, tree = self.job, self.signal, self.tree
        if tree or not job.has_ended:  # processes that it left behind may be alive
            for pid in job.members() if tree else filter(None, [job.pid]):
                try:
                    os.kill(pid, number)
                except (ProcessLookupError, PermissionError):
                    pass
        self.reply({})


class Kill(ProcessRequest):
    grace = Field(take.seconds, KILL_GRACE)

    def serve(self) -> None:
        job, grace = self.job, self.grace
        if job.has_ended:  # processes that it left behind may be alive
            job.end_members(grace, lambda _: self.reply_status(job))
            return
        job.end(grace, None)
        job.when_ended(lambda: self.reply({"process": job.describe()}))


class Forget(ProcessRequest):
    def serve(self) -> None:
        job = self.job
        if not job.has_ended:
            raise take.invalid("process", "process %s still runs: kill it first" % job.id)
        self.resident.forget(job)
        self.reply({})


class Readers(ProcessRequest):
    """The programs that read a process's input now."""

    def serve(self) -> None:
        job = self.job
        if job.has_ended or not isinstance(job, Process) or not job.input_open or job.input_identity is None:
            self.reply({"readers": [], "programs": []})
            return
        terminal = job.writer.fd if job.pty and job.writer is not None else None
        members = job.members()
        readers = [
            {"pid": pid, "program": program, "argv": [os.fsdecode(word) for word in argv]}
            for pid, program, argv in readers_of(members, job.input_identity, terminal)
        ]
        self.reply({"programs": programs_of(members), "readers": readers})


class LogRequest(Request):
    """A request about one log: a job's id, with `/err` for a separate stderr."""

    job: Job
    log: OutputLog
    offset = 0

    def find_log(self) -> None:
        name = take.text(self.fields, "log")
        self.job = self.resident.job(name[:-4] if name.endswith("/err") else name)
        log = self.job.err if name.endswith("/err") else self.job.out
        if log is None:
            message = "process %s has no stderr of its own: run it with separate=True" % self.job.id
            raise Refusal("UnknownProcess", message, process=self.job.id)
        self.log = log
        self.offset = take.number(self.fields, "offset")


class Read(LogRequest):
    """Reads from an offset. With `wait` it answers at the first byte after it, at the job's end, or after that time."""

    limit = Field(take.number, INLINE_OUTPUT, 1)
    timer: Timer

    def serve(self) -> None:
        self.find_log()
        wait = take.seconds(self.fields, "wait")
        if wait is None or self.log.total > self.offset or self.job.has_ended:
            self.reply_when_room(self._result)
            return
        self.timer = self.client.loop.call_later(wait, self._reply_now)
        self.log.listeners.append(self._look)
        self.job.when_ended(self._look)
        self.abandoned = self._stop

    def _result(self) -> tuple[Fields, bytes]:
        start, data = self.log.read(self.offset, min(self.limit, frames.FRAME_BODY))
        end, total = start + len(data), self.log.total
        return {"start": start, "end": end, "total": total, "ended": self.job.has_ended and end >= total}, data

    def _look(self) -> None:
        if self.log.total > self.offset or self.job.has_ended:
            self._reply_now()

    def _reply_now(self) -> None:
        self._stop()
        self.reply_when_room(self._result)

    def _stop(self) -> None:
        self.timer.cancel()
        if self._look in self.log.listeners:
            self.log.listeners.remove(self._look)


class Follow(LogRequest):
    """Sends a log from an offset as it grows, within the credit. The log is the buffer.

    A follower with `hold` makes the program wait before unsent output would fall out of the log.
    """

    credit = 0

    def serve(self) -> None:
        self.find_log()
        self.credit = take.number(self.fields, "credit")
        if take.flag(self.fields, "hold"):
            self.log.holders.append(self)
        self.on_credit, self.on_room, self.abandoned = self._add_credit, self._advance, self._stop
        self.log.listeners.append(self._advance)
        self.job.when_ended(self._advance)
        self._advance()

    def _add_credit(self, count: int) -> None:
        self.credit += count
        self._advance()

    def _advance(self) -> None:
        if self.answered or self.client.closed:
            return
        if self.log.is_closed:
            self._stop()
            message = "process %s was forgotten" % self.job.id
            self.refuse(Refusal("UnknownProcess", message, process=self.job.id))
            return
        while self.credit > 0 and self.client.has_room:
            start, data = self.log.read(self.offset, min(self.credit, FOLLOW_PIECE, frames.FRAME_BODY))
            if not data:
                break
            self.offset = start + len(data)
            self.credit -= len(data)
            self.event({"start": start}, data)
            if self.client.closed:
                return
        self.log.release()
        if self.job.has_ended and self.offset >= self.log.total:
            self._stop()
            self.reply({"end": self.offset, "ending": self.job.ending})

    def _stop(self) -> None:
        if self._advance in self.log.listeners:
            self.log.listeners.remove(self._advance)
        if self in self.log.holders:
            self.log.holders.remove(self)
            self.log.release()
