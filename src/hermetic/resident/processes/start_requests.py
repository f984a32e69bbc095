"""Requests that start something: a command in a session, a process, and the input that is sent ahead for them."""

from __future__ import annotations

import errno
import os

from ..life.resident import Refusal
from ..limits import BLOB, BLOBS, COMMAND, GRACE, INLINE_OUTPUT, TERMINAL
from ..shells.command import Command, Order
from ..shells.shell import in_memory
from ..wire import fields as take
from .output_log import open_unnamed
from .process import Process
from .waiting import waits_for_input

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..life.loop import Loop, Timer
    from ..life.resident import Begun, Resident
    from ..life.server import Request
    from ..wire.frames import Fields
    from .job import Ending, Job


class StartingRequests:
    resident: Resident
    loop: Loop

    def do_run(self, request: Request) -> None:
        waited = Waited(self, request)
        known = self.resident.jobs.get(waited.id)
        if known is not None:
            waited.answer(known)
            return
        request.on_cancel = lambda: waited.give_up(["cancelled"])
        if waited.id in self.resident.starting:
            self.resident.starting[waited.id].append(waited.begun)
        elif take.flag(request.fields, "argv"):
            self._start(request, waited.id, waited.begun)
        else:
            self._run(request, waited)
        waited.begin_timer()

    def _run(self, request: Request, waited: Waited) -> None:
        fields = request.fields
        text, stdin = self._split(request)
        order = Order()
        if "cwd" in fields or "env" in fields:
            order.cwd, order.env = take.path(fields, "cwd"), take.environ(fields)
        if "known" in fields:
            order.known, order.at = take.optional_number(fields, "known"), fields.get("at")
        separate = "separate" in fields and take.flag(fields, "separate")
        command = self.resident.command(waited.id, take.text(fields, "session"), text, order, separate)
        try:
            if "stdin" in fields:
                order.stdin_fd = self._stdin_fd(request, stdin)  # after everything that may be refused
        except OSError as error:
            self.resident.add(command)
            command.cannot_begin(error)
        else:
            self.resident.run(command)
        waited.begun(command, None)

    def _give_up_start(self, request: Request, job_id: str, begun: Begun, ending: Ending) -> None:
        """The session's first shell is not there yet, and nobody wants to wait for it any longer: it never begins."""
        self.resident.withdraw_start(job_id, begun)
        session = self.resident.session(take.text(request.fields, "session"))
        request.reply(
            {
                "ending": ending,
                "duration": 0.0,
                "cwd": session.cwd,
                "notes": ["it never began"],
                "out": [0, 0, 0],
                "err": None,
                "log": job_id,
            }
        )

    def _result(self, job: Job, ending: Ending, limit: int) -> tuple[Fields, bytes]:
        counts, body, logs = [], b"", job.logs()
        for log in logs:
            head, tail = log.excerpt(limit // len(logs))
            counts.append([log.total, len(head), len(tail)])
            body += head + tail
        cwd = job.cwd_after
        if cwd is None:
            session = self.resident.sessions.get(job.session)
            cwd = session.cwd if session is not None else job.cwd
        fields = {
            "ending": ending,
            "duration": job.duration or job.elapsed,
            "cwd": cwd,
            "notes": job.notes,
            "out": counts[0],
            "err": counts[1] if job.err is not None else None,
            "log": job.id,
        }
        if ending[0] == "yielded":
            fields["waiting"] = waiting(job)
        if isinstance(job, Command) and job.order.known is not None:
            fields["changes"], fields["is_stale"] = job.home.exports.changes, job.is_stale
        return fields, body

    def do_start(self, request: Request) -> None:
        job_id = take.job_id(request.fields)
        known = self.resident.jobs.get(job_id)
        if known is not None:
            known.claim(request.client)
            request.reply({"process": known.describe(), "existing": True})
            return

        def begun(job: Job | None, refusal: Refusal | None) -> None:
            if refusal is not None:
                request.refuse(refusal)
            elif job is not None:
                job.claim(request.client)
                request.reply({"process": job.describe(), "existing": False})

        def cancel() -> None:
            self.resident.withdraw_start(job_id, begun)
            request.refuse(Refusal("Cancelled", "cancelled before the process began"))

        request.on_cancel = cancel
        if job_id in self.resident.starting:
            self.resident.starting[job_id].append(begun)
        else:
            self._start(request, job_id, begun, stdin="pipe")

    def _start(self, request: Request, job_id: str, begun: Begun, stdin: str = "null") -> None:
        fields = request.fields
        text, data = self._split(request)
        kind = take.choice(fields, "stdin", stdin, "pipe", "null", "inline", "blob")
        options: Fields = {
            "pty": take.flag(fields, "pty"),
            "rows": take.number(fields, "rows", 24, 1, TERMINAL),
            "cols": take.number(fields, "cols", 80, 1, TERMINAL),
            "stdin": kind,
            "tag": take.tag(fields),
            "script": take.script(fields),
            "known": take.optional_number(fields, "known"),
            "at": fields.get("at"),
        }
        if take.flag(fields, "argv"):
            argv = [os.fsdecode(word) for word in text.split(b"\0")]
            if not argv[0]:
                raise take.invalid("command", "the first word of an argv is the program: it must not be empty")
        else:
            argv = [self.resident.bash, "-c", os.fsdecode(text)]
        cwd, env, separate = take.path(fields, "cwd"), take.environ(fields), take.flag(fields, "separate")
        if separate and options["pty"]:
            raise take.invalid("separate", "a terminal has one stream: leave out separate or pty")
        if kind == "null" and options["pty"]:
            raise take.invalid("stdin", "a terminal is an input: leave out stdin or pty")
        session = take.text(fields, "session")
        options["stdin_fd"] = self._stdin_fd(request, data)
        self.resident.start(job_id, session, argv, text.replace(b"\0", b" "), options, cwd, env, separate, begun)

    def _split(self, request: Request) -> tuple[bytes, bytes]:
        """The command and what comes behind it in the body; a command too long for a frame is a blob."""
        if request.fields.get("command") is not None:
            with open(self._take_blob(request, "command"), "rb") as file:
                text, size = file.read(COMMAND + 1), 0
            if len(text) > COMMAND:
                message = "a command holds at most %d bytes: write it to a file and run that" % COMMAND
                raise take.invalid("command", message)
        else:
            size = take.number(request.fields, "text", 0, 0, len(request.body))
            text = request.body[:size]
        if b"\0" in text and not request.fields.get("argv"):
            raise take.invalid("command", "a command cannot hold a NUL byte: remove it, or pass the bytes as stdin")
        return text, request.body[size:]

    def _stdin_fd(self, request: Request, data: bytes) -> int | None:
        """A descriptor that reads the whole given input, or None."""
        kind = request.fields.get("stdin")
        if kind == "inline":
            return in_memory(data)
        return self._take_blob(request, "blob") if kind == "blob" else None

    @staticmethod
    def _take_blob(request: Request, field: str) -> int:
        fd = request.client.blobs.pop(take.text(request.fields, field), None)
        if fd is None:
            raise take.invalid(field, "no such blob on this connection")
        os.lseek(fd, 0, os.SEEK_SET)
        return fd

    def do_blob(self, request: Request) -> None:
        name = take.job_id(request.fields, "blob")
        blobs = request.client.blobs
        if name not in blobs:
            if len(blobs) >= BLOBS:
                raise take.invalid("blob", "%d blobs wait on this connection: use or drop some first" % BLOBS)
            blobs[name] = self._new_blob()
        size = os.fstat(blobs[name]).st_size
        if size + len(request.body) > BLOB:
            raise take.invalid("blob", "a blob holds at most %d bytes" % BLOB)
        view = memoryview(request.body)
        try:
            while view:
                view = view[os.write(blobs[name], view) :]
        except OSError as error:
            os.close(blobs.pop(name))
            why = self.resident.spool_full(os.strerror(error.errno or 0))
            code = errno.errorcode.get(error.errno or 0, "")
            raise Refusal("OSError", why, errno=code, path=self.resident.spool_name) from error
        request.reply({"size": size + len(request.body)})

    def do_drop_blob(self, request: Request) -> None:
        fd = request.client.blobs.pop(take.job_id(request.fields, "blob"), None)
        if fd is not None:
            os.close(fd)
        request.reply({})

    def _new_blob(self) -> int:
        try:
            return open_unnamed(self.resident.spool)
        except OSError:
            return in_memory(b"")  # no disk: the sender's bytes cost memory then


class Waited:
    """A job that a client waits for: answered when it has ended, or when its time is over and it may go on."""

    timeout: float | None = None
    grace = GRACE
    may_go_on = False
    limit = INLINE_OUTPUT
    job: Job | None = None
    timer: Timer | None = None
    is_late = False  # its time was over before it began, and it may go on

    def __init__(self, requests: StartingRequests, request: Request) -> None:
        fields = request.fields
        self.requests, self.request = requests, request
        self.id = take.job_id(fields)
        if "timeout" in fields:
            self.timeout = take.seconds(fields, "timeout", above=True)
        if "grace" in fields:
            self.grace = take.seconds(fields, "grace", self.grace)
        if "on_timeout" in fields:
            self.may_go_on = take.choice(fields, "on_timeout", "kill", "kill", "yield") == "yield"
        if "limit" in fields:
            self.limit = min(take.number(fields, "limit"), INLINE_OUTPUT)

    def begin_timer(self) -> None:
        """Its time begins, when nothing was refused; a start that takes long counts."""
        if self.timeout is not None and not self.request.answered:
            self.timer = self.requests.loop.call_later(self.timeout, self._time_is_over)

    def begun(self, job: Job | None, refusal: Refusal | None) -> None:
        if job is not None:
            self.answer(job)
        if refusal is not None:
            self._stop_timer()
            self.request.refuse(refusal)
        elif self.is_late:
            self._time_is_over()

    def answer(self, job: Job) -> None:
        """The request is answered by this job; cancelled, it ends it."""
        self.job = job
        self.request.on_cancel = lambda: job.end(self.grace, ["cancelled"])
        if not job.has_ended:
            job.yield_listeners.append(self._yielded)
        job.when_ended(self._ended)
        if job.has_yielded and self.may_go_on:  # who was to hear of it was not connected
            self._yielded()

    def give_up(self, ending: Ending) -> None:
        """Nobody wants to wait any longer for it to begin."""
        self._stop_timer()
        self.requests._give_up_start(self.request, self.id, self.begun, ending)

    def _ended(self) -> None:
        assert self.job is not None, "it has begun"
        assert self.job.ending is not None, "listeners are told of an end"
        self._reply(self.job, self.job.ending)
        os.sched_yield()  # whoever waits for it may have been put on our processor, and what is left to do can wait
        self._stop_timer()

    def _yielded(self) -> None:
        assert self.job is not None, "it has begun"
        for drain in self.job.drains:
            drain.flush()
        self._reply(self.job, ["yielded", self.id])

    def _reply(self, job: Job, ending: Ending) -> None:
        self.request.reply_when_room(lambda: self.requests._result(job, ending, self.limit))

    def _stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()

    def _time_is_over(self) -> None:
        job, after = self.job, self.timeout or 0.0
        if job is None and self.may_go_on:
            self.is_late = True
        elif job is None:
            self.give_up(["timed_out", after])
        elif not job.has_ended and not self.may_go_on:
            job.end(self.grace, ["timed_out", after])
        elif not job.has_ended:
            if isinstance(job, Command):
                job.home.yield_command(job)
            job.notify_yielded()


def waiting(job: Job) -> bool | None:
    """Whether it waits for input, as far as can be told."""
    if job.has_ended or not isinstance(job, Process) or not job.input_open:
        return False
    return None if job.input_identity is None else waits_for_input(job.members(), job.input_identity)
