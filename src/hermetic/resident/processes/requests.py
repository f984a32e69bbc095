"""Requests about jobs: list, wait, write, signal, end, and read or follow their output."""

from __future__ import annotations

import os

from ..limits import COMMAND_LISTED, FOLLOW_PIECE, INLINE_OUTPUT, KILL_GRACE, LISTED
from ..wire import frames
from ..wire.fields import Refusal, invalid
from .control import check_driver, record_input
from .process import Process
from .stdin_writer import InputClosed
from .waiting import programs_of, readers_of, waits_for_input

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..life.resident import Resident
    from ..life.server import Request
    from ..wire.frames import Fields
    from .job import Job
    from .output_log import OutputLog


def is_waiting(job: Job) -> bool | None:
    """Whether a job waits for input; None if the kernel does not show it."""
    if job.has_ended or not isinstance(job, Process) or not job.input_open:
        return False
    return (
        None if job.input_identity is None else waits_for_input(job.members(), job.input_identity)
    )


def reply_status(resident: Resident, request: Request, job: Job) -> None:
    """Replies with a job's state; for an ended job also with the number of processes that it left
    running.
    """
    if not job.has_ended:
        request.reply({"process": job.describe(), "waiting": is_waiting(job)})
        return

    def answer(left: dict[int, int]) -> None:
        request.reply(
            {"process": dict(job.describe(), left=left.get(job.number, 0)), "waiting": False}
        )

    resident.count_leftovers(answer)


def list_jobs(resident: Resident, request: Request) -> None:
    def answer(left: dict[int, int]) -> None:
        jobs = [*resident.jobs.values()]
        infos = [
            dict(
                job.describe(),
                command=job.text[:COMMAND_LISTED].decode("utf-8", "replace"),
                left=left.get(job.number, 0),
            )
            for job in jobs[-LISTED:]
        ]
        while len(body := frames.pack(infos)) > frames.FRAME_BODY:  # long directories
            infos = infos[-(-len(infos) // 4) :]
        request.reply({"processes": len(jobs)}, body)

    resident.count_leftovers(answer)


def status(resident: Resident, request: Request, process: str = "") -> None:
    reply_status(resident, request, resident.job(process))


def wait(resident: Resident, request: Request, process: str = "") -> None:
    job = resident.job(process)

    def ended() -> None:
        request.reply({"process": job.describe()})

    request.abandoned = lambda: job.stop_awaiting(ended)
    job.when_ended(ended)


def write(
    resident: Resident,
    request: Request,
    process: str = "",
    secret: bool = False,
    key: str = "",
    by: str = "",
) -> None:
    job = resident.job(process)
    check_driver(job, key)

    def taken(error: InputClosed | None) -> None:
        if error is None:
            request.reply({})
        else:
            request.refuse(input_closed(job))

    if not isinstance(job, Process) or not job.input_open:
        raise input_closed(job)
    if secret:
        for log in job.logs():
            log.mask(request.body.rstrip(b"\r\n"))
    record_input(job, key, by, len(request.body), secret)
    try:
        job.write(request.body, taken)
    except InputClosed as error:
        raise input_closed(job) from error


def input_closed(job: Job) -> Refusal:
    why = (
        "has ended"
        if job.has_ended
        else "reads no input: it was started without it, or it was closed"
    )
    return Refusal("InputClosed", "process %s %s" % (job.id, why), process=job.id)


def close_input(resident: Resident, request: Request, process: str = "", key: str = "") -> None:
    job = resident.job(process)
    check_driver(job, key)
    if isinstance(job, Process) and job.input_open:
        job.close_input()
    request.reply({})


def tag(
    resident: Resident,
    request: Request,
    process: str = "",
    tag: str = "",
    was: object = None,
    claimed: bool = False,
) -> None:
    job = resident.job(process)
    is_claimed = not claimed or job.claim(request.client)
    done = is_claimed and was in (None, job.tag)
    if done:
        job.tag = tag
    request.reply({"done": done, "claimed": is_claimed, "tag": job.tag})


def claim(resident: Resident, request: Request, process: str = "") -> None:
    """Answers when this client reports on the job: at once, or when the client that does has left."""
    job = resident.job(process)
    if job.claim(request.client):
        request.reply({"process": job.describe()})
    elif job.claimant is not None:

        def left() -> None:
            request.client.serve(request)

        waiting_for = job.claimant.when_closed
        waiting_for.append(left)

        def abandon() -> None:
            if left in waiting_for:  # else that client is leaving now
                waiting_for.remove(left)

        request.abandoned = abandon


def resize(
    resident: Resident,
    request: Request,
    process: str = "",
    rows: int = 24,
    cols: int = 80,
    key: str = "",
) -> None:
    job = resident.job(process)
    check_driver(job, key)
    if not isinstance(job, Process) or not job.pty:
        message = "process %s has no terminal: start it with pty=True" % job.id
        raise Refusal("Unsupported", message, capability="pty")
    if job.input_open:
        job.resize(rows, cols)
        resident.on_change("resized", job)
    request.reply({})


def signal(
    resident: Resident, request: Request, process: str = "", signal: int = 15, tree: bool = True
) -> None:
    job = resident.job(process)
    # Processes that it left behind may be alive. The number of its own is free once it has ended.
    own = [job.pid] if job.pid and job.own_ending is None else []
    for pid in job.members() if tree else own:
        try:
            os.kill(pid, signal)
        except (ProcessLookupError, PermissionError):
            pass
    request.reply({})


def kill(
    resident: Resident, request: Request, process: str = "", grace: float = KILL_GRACE
) -> None:
    job = resident.job(process)
    if job.has_ended:  # processes that it left behind may be alive
        job.end_members(grace, lambda _: reply_status(resident, request, job))
        return
    job.end(grace, None)
    job.when_ended(lambda: request.reply({"process": job.describe()}))


def forget(resident: Resident, request: Request, process: str = "") -> None:
    job = resident.job(process)
    if not job.has_ended:
        raise invalid("process", "process %s still runs: kill it first" % job.id)
    resident.forget(job)
    request.reply({})


def readers(resident: Resident, request: Request, process: str = "") -> None:
    """Replies with the programs that read a process's input now."""
    job = resident.job(process)
    if (
        job.has_ended
        or not isinstance(job, Process)
        or not job.input_open
        or job.input_identity is None
    ):
        request.reply({"readers": [], "programs": []})
        return
    terminal = job.writer.fd if job.pty and job.writer is not None else None
    members = job.members()
    found = [
        {"pid": pid, "program": program, "argv": [os.fsdecode(word) for word in argv]}
        for pid, program, argv in readers_of(members, job.input_identity, terminal)
    ]
    request.reply({"programs": programs_of(members), "readers": found})


class LogReader:
    """A reader of one log: of a job's id, with `/err` for a separate stderr."""

    def __init__(
        self, resident: Resident, request: Request, log: str = "", offset: int = 0
    ) -> None:
        self.request, self.offset = request, offset
        self.job = job = resident.job(log[:-4] if log.endswith("/err") else log)
        found = job.err if log.endswith("/err") else job.out
        if found is None:
            message = "process %s has no stderr of its own: run it with separate=True" % job.id
            raise Refusal("UnknownProcess", message, process=job.id)
        self.log: OutputLog = found

    def listen(self) -> None:
        """Calls `look` when the log grows or its job ends, until `stop`."""
        self.log.listeners += (self.look,)
        self.request.abandoned = self.stop
        self.job.when_ended(self.look)

    def look(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        self.log.listeners = tuple(
            listener for listener in self.log.listeners if listener != self.look
        )
        self.job.stop_awaiting(self.look)


def since(resident: Resident, request: Request, log: str = "", age: float = 0.0) -> None:
    """Replies with the offset at which the output of the last `age` seconds begins."""
    request.reply({"offset": LogReader(resident, request, log).log.offset_since(age)})


class Read(LogReader):
    """Reads from an offset.

    With `wait` it answers at the first byte after it, at the job's end, or after that time.
    """

    def __init__(
        self,
        resident: Resident,
        request: Request,
        limit: int = INLINE_OUTPUT,
        wait: float | None = None,
        **log: Any,
    ) -> None:
        super().__init__(resident, request, **log)
        self.limit, self.timer = limit, None
        if wait is not None and self.log.total <= self.offset and not self.job.has_ended:
            self.timer = request.client.loop.call_later(wait, self._reply)
            self.listen()
        else:
            request.reply_when_room(self._result)

    def _result(self) -> tuple[Fields, bytes]:
        start, data = self.log.read(self.offset, min(self.limit, frames.FRAME_BODY))
        end, total = start + len(data), self.log.total
        return {
            "start": start,
            "end": end,
            "total": total,
            "ended": self.job.has_ended and end >= total,
        }, data

    def look(self) -> None:
        if self.log.total > self.offset or self.job.has_ended:
            self._reply()

    def _reply(self) -> None:
        self.stop()
        self.request.reply_when_room(self._result)

    def stop(self) -> None:
        super().stop()
        if self.timer is not None:
            self.timer.cancel()


class Follow(LogReader):
    """Sends a log from an offset as it grows, within the credit. The log is the buffer.

    A follower with `hold` makes the program wait before unsent output would fall out of the log. Of
    those with `pace` the fastest makes it wait, and sooner: what is typed then takes effect soon,
    however much the program prints.
    """

    def __init__(
        self,
        resident: Resident,
        request: Request,
        credit: int = 0,
        hold: bool = False,
        pace: bool = False,
        **log: Any,
    ) -> None:
        super().__init__(resident, request, **log)
        self.credit, self.pieces = credit, frames.LogPieces(request.number)
        if hold:
            self.log.holders += (self,)
        if pace:
            self.log.pacers += (self,)
        request.on_credit, request.on_room = self._add_credit, self.look
        self.listen()
        self.look()

    def _add_credit(self, count: int) -> None:
        self.credit += count
        self.look()

    def look(self) -> None:
        request, client, log = self.request, self.request.client, self.log
        if request.answered or client.closed:
            return
        if log.is_closed:
            self.stop()
            message = "process %s was forgotten" % self.job.id
            request.refuse(Refusal("UnknownProcess", message, process=self.job.id))
            return
        while self.offset < log.total and self.credit > 0 and client.has_room:
            start, data = log.read(self.offset, min(self.credit, FOLLOW_PIECE, frames.FRAME_BODY))
            self.offset = start + len(data)
            if not data:
                break
            self.credit -= len(data)
            client.send(self.pieces.parts(start, data))
            if client.closed:
                return
        if log.when_released:
            log.release()
        if self.job.has_ended and self.offset >= log.total:
            self.stop()
            request.reply({"end": self.offset, "ending": self.job.ending})

    def stop(self) -> None:
        super().stop()
        if self in self.log.holders or self in self.log.pacers:
            self.log.holders = tuple(one for one in self.log.holders if one is not self)
            self.log.pacers = tuple(one for one in self.log.pacers if one is not self)
            self.log.release()
