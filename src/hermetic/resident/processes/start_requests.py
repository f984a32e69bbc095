"""Requests that start a command or a process, and the blobs of input that clients send ahead for
them.
"""

from __future__ import annotations

import errno
import os

from ..limits import BLOB, BLOBS, COMMAND, GRACE, INLINE_OUTPUT
from ..shells.command import Command
from ..wire.fields import Refusal, invalid
from .control import unheard
from .job import StartOptions
from .requests import is_waiting
from .unnamed import in_memory, open_unnamed, write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..life.loop import Timer
    from ..life.resident import Resident
    from ..life.server import Request
    from ..wire.frames import Fields
    from .job import Ending, Job


class Starting:
    """A request that starts a job. Its further fields are the job's options.

    `text` is the length of the command at the start of the body; a command that is too long for a
    frame is in the blob `command`. `argv`: the command is a list of words, with NUL between them.
    `blob` holds the input.
    """

    def __init__(
        self,
        resident: Resident,
        request: Request,
        text: int = 0,
        command: str = "",
        argv: bool = False,
        blob: str = "",
        **given: Any,
    ) -> None:
        self.request, self.resident, self.options = request, resident, StartOptions(given)
        self.text, self.command, self.is_argv, self.blob, self.id = (
            text,
            command,
            argv,
            blob,
            self.options.id,
        )
        request.on_cancel = self.cancel  # also of a request that is repeated after a reconnect
        known = self.resident.jobs.get(self.id)
        if known is not None:
            self.found(known)
            return
        if self.id in self.resident.starting:
            self.resident.starting[self.id].starters.append(self)
        else:
            self.start()

    def found(self, job: Job) -> None:
        """Handles a job that has this id already."""
        raise NotImplementedError

    def begun(self, job: Job | None, refusal: Refusal | None) -> None:
        """Handles a started process, or the reason why it did not start."""
        raise NotImplementedError

    def cancel(self) -> None:
        raise NotImplementedError

    def start(self) -> None:
        """Starts a separate process. Raises Refusal."""
        options = self.options
        text, data = self.split()
        options.text = text.replace(b"\0", b" ")
        options.argv = [self.resident.bash, "-c", os.fsdecode(no_option(text))]
        if self.is_argv:
            options.argv = [os.fsdecode(word) for word in text.split(b"\0")]
            if not options.argv[0]:
                raise invalid(
                    "command", "the first word of an argv is the program: it must not be empty"
                )
        if options.pty and options.separate:
            raise invalid("separate", "a terminal has one stream: leave out separate or pty")
        if options.pty and options.stdin == "null":
            raise invalid("stdin", "a terminal is an input: leave out stdin or pty")
        self.resident.session(options.session)  # may be refused, before the input is taken
        options.stdin_fd = self.stdin_fd(data)
        self.resident.start(options, self)

    def split(self) -> tuple[bytes, bytes]:
        """The command, and the rest of the body."""
        body, size = self.request.body, self.text
        if self.command:
            with open(self.request.client.take_blob("command", self.command), "rb") as file:
                text, size = file.read(COMMAND + 1), 0
            if len(text) > COMMAND:
                message = (
                    "a command holds at most %d bytes: write it to a file and run that" % COMMAND
                )
                raise invalid("command", message)
        elif size > len(body):
            raise invalid("text", "text must be a whole number from 0 to %d" % len(body))
        else:
            text = body[:size]
        if b"\0" in text and not self.is_argv:
            raise invalid(
                "command", "a command cannot hold a NUL byte: remove it, or pass the bytes as stdin"
            )
        return text, body[size:]

    def stdin_fd(self, data: bytes) -> int | None:
        """A descriptor of the whole given input, or None."""
        if self.options.stdin == "inline":
            return in_memory(data)
        return (
            self.request.client.take_blob("blob", self.blob)
            if self.options.stdin == "blob"
            else None
        )


def no_option(text: bytes) -> bytes:
    """The command as bash and its `eval` read it: a text, also where it begins with a dash."""
    return b" " + text if text.startswith(b"-") else text


class Start(Starting):
    """Starts a separate process. An id that exists already is answered with its process."""

    def __init__(
        self, resident: Resident, request: Request, stdin: str = "pipe", **given: Any
    ) -> None:
        super().__init__(resident, request, stdin=stdin, **given)

    def found(self, job: Job) -> None:
        self._reply(job, existing=True)

    def begun(self, job: Job | None, refusal: Refusal | None) -> None:
        if refusal is not None:
            self.request.refuse(refusal)
        elif job is not None:
            self._reply(job, existing=False)

    def _reply(self, job: Job, existing: bool) -> None:
        job.claim(self.request.client)
        self.request.reply({"process": job.describe(), "existing": existing})

    def cancel(self) -> None:
        self.resident.withdraw_start(self.id, self)
        self.request.refuse(Refusal("Cancelled", "cancelled before the process began"))


class Run(Starting):
    """Runs a command. Answers when it has ended, or when its time ran out and it goes on."""

    job: Job | None = None
    timer: Timer | None = None
    is_late = False  # its time ran out before it began, and it may go on

    def __init__(
        self,
        resident: Resident,
        request: Request,
        timeout: float | None = None,
        grace: float = GRACE,
        on_timeout: str = "kill",
        limit: int = INLINE_OUTPUT,
        **given: Any,
    ) -> None:
        self.timeout, self.grace, self.may_go_on = timeout, grace, on_timeout == "yield"
        self.limit = min(limit, INLINE_OUTPUT)
        super().__init__(resident, request, **given)
        if self.timeout is not None and not request.answered:  # a slow start counts
            self.timer = resident.loop.call_later(self.timeout, self._time_is_over)

    def found(self, job: Job) -> None:
        self.timeout = None  # the timer of the first request runs
        self.begun(job, None)

    def start(self) -> None:
        if self.is_argv:
            super().start()
            return
        options, resident = self.options, self.resident
        text, data = self.split()
        options.text = no_option(text)
        command = resident.command(options)
        try:
            options.stdin_fd = self.stdin_fd(data)  # after everything that may be refused
        except OSError as error:
            resident.add(command)
            command.cannot_begin(error)
        else:
            resident.run(command)
        self.begun(command, None)

    def begun(self, job: Job | None, refusal: Refusal | None) -> None:
        if refusal is not None:
            self._stop_timer()
            self.request.refuse(refusal)
        elif job is not None:
            self.job = job
            if not job.has_ended:
                job.yield_listeners += (self._yielded,)
            job.when_ended(self._ended)
            if job.has_yielded and self.may_go_on:  # while no client was connected
                self._yielded()
            if self.is_late:
                self._time_is_over()

    def cancel(self) -> None:
        if self.job is not None:
            self.job.end(self.grace, ["cancelled"])
        else:
            self.give_up(["cancelled"])

    def give_up(self, ending: Ending) -> None:
        """Answers for a command that never begins: the session's first shell has not started yet."""
        self._stop_timer()
        self.resident.withdraw_start(self.id, self)
        cwd, notes = self.resident.session(self.options.session).cwd, ["it never began"]
        fields = {"ending": ending, "duration": 0.0, "cwd": cwd, "notes": notes, "log": self.id}
        self.request.reply(dict(fields, out=[0, 0, 0], err=None))

    def _ended(self) -> None:
        assert self.job is not None, "it has begun"
        assert self.job.ending is not None, "listeners are called at the end"
        self.reply(self.job, self.job.ending)
        # the client may wait for our processor, and the remaining work is not urgent
        os.sched_yield()
        self._stop_timer()

    def _yielded(self) -> None:
        assert self.job is not None, "it has begun"
        self._stop_timer()  # it may have been yielded before its time
        for drain in self.job.drains:
            drain.flush()
        self.reply(self.job, ["yielded", self.id])

    def reply(self, job: Job, ending: Ending) -> None:
        self.request.reply_when_room(lambda: self._result(job, ending))

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
            "notes": [*job.notes, *unheard(self.resident, self.request)]
            if self.resident.handovers
            else job.notes,
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
        elif not (job.has_ended or job.is_ending):
            if isinstance(job, Command):
                job.home.yield_command(job)
            job.notify_yielded()


def blob(resident: Resident, request: Request, blob: str) -> None:
    """Appends the body to a blob of this connection."""
    blobs = request.client.blobs
    if blob not in blobs:
        if len(blobs) >= BLOBS:
            raise invalid(
                "blob", "%d blobs wait on this connection: use or drop some first" % BLOBS
            )
        try:
            blobs[blob] = open_unnamed(resident.spool)
        except OSError:
            blobs[blob] = in_memory(b"")  # without a disk the bytes use memory
    size = os.fstat(blobs[blob]).st_size + len(request.body)
    if size > BLOB:
        raise invalid("blob", "a blob holds at most %d bytes" % BLOB)
    try:
        write_all(blobs[blob], request.body)
    except OSError as error:
        os.close(blobs.pop(blob))
        why = resident.spool_full(os.strerror(error.errno or 0))
        code = errno.errorcode.get(error.errno or 0, "")
        raise Refusal("OSError", why, errno=code, path=resident.spool_name) from error
    request.reply({"size": size})


def drop_blob(resident: Resident, request: Request, blob: str) -> None:
    fd = request.client.blobs.pop(blob, None)
    if fd is not None:
        os.close(fd)
    request.reply({})
