"""Requests that start a command or a process, and the blobs of input that clients send ahead for them."""

from __future__ import annotations

import errno
import os

from ..life.server import Request
from ..limits import BLOB, BLOBS, COMMAND, GRACE, INLINE_OUTPUT, TERMINAL
from ..shells.command import Command
from ..wire import fields as take
from ..wire.fields import Field, Refusal
from .job import StartOptions
from .requests import is_waiting
from .unnamed import in_memory, open_unnamed, write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..life.loop import Timer
    from ..wire.frames import Fields
    from .job import Ending, Job


class StartingRequest(Request):
    id = ""  # of the job

    def begun(self, job: Job | None, refusal: Refusal | None) -> None:
        """Handles a started process, or the reason why it did not start."""
        raise NotImplementedError

    def start(self, stdin: str) -> None:
        """Starts a separate process; `stdin` is the default of that field. Raises Refusal."""
        fields, options = self.fields, StartOptions()
        text, data = self.split()
        options.id, options.session, options.text = self.id, take.text(fields, "session"), text.replace(b"\0", b" ")
        options.stdin = take.choice(fields, "stdin", stdin, "pipe", "null", "inline", "blob")
        options.pty = take.flag(fields, "pty")
        options.rows = take.number(fields, "rows", 24, 1, TERMINAL)
        options.cols = take.number(fields, "cols", 80, 1, TERMINAL)
        options.tag, options.script = take.tag(fields), take.script(fields)
        options.known, options.at = take.optional_number(fields, "known"), fields.get("at")
        options.cwd, options.env = take.path(fields, "cwd"), take.environ(fields)
        options.separate = take.flag(fields, "separate")
        if not take.flag(fields, "argv"):
            options.argv = [self.resident.bash, "-c", os.fsdecode(text)]
        else:
            options.argv = [os.fsdecode(word) for word in text.split(b"\0")]
            if not options.argv[0]:
                raise take.invalid("command", "the first word of an argv is the program: it must not be empty")
        if options.pty and options.separate:
            raise take.invalid("separate", "a terminal has one stream: leave out separate or pty")
        if options.pty and options.stdin == "null":
            raise take.invalid("stdin", "a terminal is an input: leave out stdin or pty")
        options.stdin_fd = self.stdin_fd(data)
        self.resident.start(options, self.begun)

    def split(self) -> tuple[bytes, bytes]:
        """The command, and the rest of the body. A command that is too long for a frame is in a blob."""
        if self.fields.get("command") is not None:
            with open(self._take_blob("command"), "rb") as file:
                text, size = file.read(COMMAND + 1), 0
            if len(text) > COMMAND:
                message = "a command holds at most %d bytes: write it to a file and run that" % COMMAND
                raise take.invalid("command", message)
        else:
            size = take.number(self.fields, "text", 0, 0, len(self.body))
            text = self.body[:size]
        if b"\0" in text and not self.fields.get("argv"):
            raise take.invalid("command", "a command cannot hold a NUL byte: remove it, or pass the bytes as stdin")
        return text, self.body[size:]

    def stdin_fd(self, data: bytes) -> int | None:
        """A descriptor of the whole given input, or None."""
        kind = self.fields.get("stdin")
        if kind == "inline":
            return in_memory(data)
        return self._take_blob("blob") if kind == "blob" else None

    def _take_blob(self, field: str) -> int:
        fd = self.client.blobs.pop(take.text(self.fields, field), None)
        if fd is None:
            raise take.invalid(field, "no such blob on this connection")
        os.lseek(fd, 0, os.SEEK_SET)
        return fd


class Start(StartingRequest):
    """Starts a separate process. An id that exists already is answered with its process."""

    def serve(self) -> None:
        self.id, resident = take.job_id(self.fields), self.resident
        known = resident.jobs.get(self.id)
        if known is not None:
            self._answer_with(known, existing=True)
            return
        self.on_cancel = self._cancel
        if self.id in resident.starting:
            resident.starting[self.id].append(self.begun)
        else:
            self.start("pipe")

    def begun(self, job: Job | None, refusal: Refusal | None) -> None:
        if refusal is not None:
            self.refuse(refusal)
        elif job is not None:
            self._answer_with(job, existing=False)

    def _answer_with(self, job: Job, existing: bool) -> None:
        job.claim(self.client)
        self.reply({"process": job.describe(), "existing": existing})

    def _cancel(self) -> None:
        self.resident.withdraw_start(self.id, self.begun)
        self.refuse(Refusal("Cancelled", "cancelled before the process began"))


class Run(StartingRequest):
    """Runs a command. Answers when it has ended, or when its time ran out and it goes on."""

    timeout: float | None = None
    grace = GRACE
    may_go_on = False
    limit = INLINE_OUTPUT
    job: Job | None = None
    timer: Timer | None = None
    is_late = False  # its time ran out before it began, and it may go on

    def serve(self) -> None:
        self._parse()
        resident = self.resident
        self.on_cancel = self._cancel
        known = resident.jobs.get(self.id)
        if known is not None:
            self.begun(known, None)
            return
        if self.id in resident.starting:
            resident.starting[self.id].append(self.begun)
        elif take.flag(self.fields, "argv"):
            self.start("null")
        else:
            self._run()
        if self.timeout is not None and not self.answered:  # a slow start counts
            self.timer = resident.loop.call_later(self.timeout, self._time_is_over)

    def _parse(self) -> None:
        fields = self.fields
        self.id = take.job_id(fields)
        if "timeout" in fields:
            self.timeout = take.seconds(fields, "timeout", above=True)
        if "grace" in fields:
            self.grace = take.seconds(fields, "grace", self.grace)
        if "on_timeout" in fields:
            self.may_go_on = take.choice(fields, "on_timeout", "kill", "kill", "yield") == "yield"
        if "limit" in fields:
            self.limit = min(take.number(fields, "limit"), INLINE_OUTPUT)

    def _run(self) -> None:
        fields, resident, options = self.fields, self.resident, StartOptions()
        options.text, stdin = self.split()
        options.id, options.session = self.id, take.text(fields, "session")
        if "cwd" in fields or "env" in fields:
            options.cwd, options.env = take.path(fields, "cwd"), take.environ(fields)
        if "known" in fields:
            options.known, options.at = take.optional_number(fields, "known"), fields.get("at")
        if "separate" in fields:
            options.separate = take.flag(fields, "separate")
        command = resident.command(options)
        try:
            if "stdin" in fields:
                options.stdin_fd = self.stdin_fd(stdin)  # after everything that may be refused
        except OSError as error:
            resident.add(command)
            command.cannot_begin(error)
        else:
            resident.run(command)
        self.begun(command, None)

    def begun(self, job: Job | None, refusal: Refusal | None) -> None:
        if refusal is not None:
            self._stop_timer()
            self.refuse(refusal)
        elif job is not None:
            self._wait_for(job)
            if self.is_late:
                self._time_is_over()

    def _wait_for(self, job: Job) -> None:
        self.job = job
        if not job.has_ended:
            job.yield_listeners.append(self._yielded)
        job.when_ended(self._ended)
        if job.has_yielded and self.may_go_on:  # while no client was connected
            self._yielded()

    def _cancel(self) -> None:
        if self.job is not None:
            self.job.end(self.grace, ["cancelled"])
        else:
            self.give_up(["cancelled"])

    def give_up(self, ending: Ending) -> None:
        """Answers for a command that never begins: the session's first shell has not started yet."""
        self._stop_timer()
        self.resident.withdraw_start(self.id, self.begun)
        session = self.resident.session(take.text(self.fields, "session"))
        self.reply(
            {
                "ending": ending,
                "duration": 0.0,
                "cwd": session.cwd,
                "notes": ["it never began"],
                "out": [0, 0, 0],
                "err": None,
                "log": self.id,
            }
        )

    def _ended(self) -> None:
        assert self.job is not None, "it has begun"
        assert self.job.ending is not None, "listeners are called at the end"
        self.reply_result(self.job, self.job.ending)
        os.sched_yield()  # the client may wait for our processor, and the remaining work is not urgent
        self._stop_timer()

    def _yielded(self) -> None:
        assert self.job is not None, "it has begun"
        for drain in self.job.drains:
            drain.flush()
        self.reply_result(self.job, ["yielded", self.id])

    def reply_result(self, job: Job, ending: Ending) -> None:
        self.reply_when_room(lambda: self._result(job, ending))

    def _result(self, job: Job, ending: Ending) -> tuple[Fields, bytes]:
        counts, body, logs = [], b"", job.logs()
        for log in logs:
            head, tail = log.excerpt(self.limit // len(logs))
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
            fields["waiting"] = is_waiting(job)
        if isinstance(job, Command) and job.options.known is not None:
            fields["changes"], fields["is_stale"] = job.home.exports.changes, job.is_stale
        return fields, body

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


class Blob(Request):
    """Appends the body to a blob of this connection."""

    blob = Field(take.job_id)

    def serve(self) -> None:
        name, blobs = self.blob, self.client.blobs
        if name not in blobs:
            if len(blobs) >= BLOBS:
                raise take.invalid("blob", "%d blobs wait on this connection: use or drop some first" % BLOBS)
            blobs[name] = self._new()
        size = os.fstat(blobs[name]).st_size
        if size + len(self.body) > BLOB:
            raise take.invalid("blob", "a blob holds at most %d bytes" % BLOB)
        try:
            write_all(blobs[name], self.body)
        except OSError as error:
            os.close(blobs.pop(name))
            why = self.resident.spool_full(os.strerror(error.errno or 0))
            code = errno.errorcode.get(error.errno or 0, "")
            raise Refusal("OSError", why, errno=code, path=self.resident.spool_name) from error
        self.reply({"size": size + len(self.body)})

    def _new(self) -> int:
        try:
            return open_unnamed(self.resident.spool)
        except OSError:
            return in_memory(b"")  # without a disk the bytes use memory


class DropBlob(Request):
    blob = Field(take.job_id)

    def serve(self) -> None:
        fd = self.client.blobs.pop(self.blob, None)
        if fd is not None:
            os.close(fd)
        self.reply({})
