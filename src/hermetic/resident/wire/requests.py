"""What a client may ask: one method per operation of the protocol."""

from __future__ import annotations

import os
import sys
import time

from ..channels.bridge_requests import BridgeRequests
from ..channels.password_requests import PasswordRequests
from ..lazy import Lazy
from ..life.resident import Refusal
from ..limits import COMMAND_LISTED, GRACE, INLINE_OUTPUT, KILL_GRACE, LISTED, TERMINAL
from ..processes.following import Follow, wait_for_log
from ..processes.looking_requests import LookingRequests
from ..processes.process import Process
from ..processes.start_requests import StartingRequests, waiting
from ..processes.stdin_writer import InputClosed
from ..shells.command import Command, prepare
from . import fields as take
from . import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..files import requests as file_requests
    from ..life.lease import Life
    from ..life.resident import Resident
    from ..life.server import Request
    from ..processes.job import Job
    from ..processes.output_log import OutputLog
    from .frames import Fields
else:
    file_requests = Lazy("..files.requests", __package__)


OF_FILES = frozenset(
    (
        "read_file",
        "read_lines",
        "file_status",
        "write_file",
        "delete_file",
        "move_file",
        "change_files",
        "list_names",
        "search_files",
    )
)


class Requests(StartingRequests, PasswordRequests, BridgeRequests, LookingRequests):
    """Serves requests on a resident. A method raises Refusal for what it cannot do and never blocks."""

    def __init__(self, resident: Resident, life: Life) -> None:
        self.resident, self.loop, self.life = resident, resident.loop, life
        self.files: Any = None
        self.handlers: dict[str, Callable[[Request], None]] = {}  # of the operations that were asked for

    def serve(self, request: Request) -> None:
        operation = request.fields.get("op")
        handler = self.handlers.get(operation) or self._handler(operation) if type(operation) is str else None
        if handler is None:
            message = "this resident does not know the operation %r" % (operation,)
            raise Refusal("Unsupported", message, capability=str(operation))
        starting = self.resident.starting.get(_target(request.fields)) if self.resident.starting else None
        if starting is not None:
            starting.append(lambda _, refusal: request.refuse(refusal) if refusal else request.client.serve(request))
            return
        handler(request)

    def _handler(self, operation: str) -> Callable[[Request], None] | None:
        if operation in OF_FILES:
            if self.files is None:
                self.files = self._open_files()
            found = getattr(self.files, operation, None)
        else:
            found = getattr(self, "do_%s" % operation, None)
        if found is not None:
            self.handlers[operation] = found
        return found

    def _open_files(self) -> Any:
        """What serves files: imported when the first one is asked for, so that opening need not wait for it."""
        return file_requests.FileRequests(self)

    def do_hello(self, request: Request) -> None:
        versions, token = request.fields.get("versions"), request.fields.get("token")
        if type(versions) is not list or type(token) is not bytes:
            raise frames.FrameError("not a greeting")
        request.client.greet(token)
        common = [version for version in frames.VERSIONS if version in versions]
        if not common:
            message = (
                "this resident speaks protocol version %s, the client %s: end the environment (hermetic rm) and "
                "open it again" % (list(frames.VERSIONS), versions)
            )
            raise Refusal("EnvironmentUnavailable", message)
        request.reply(
            {
                "version": max(common),
                "resident": self.resident.id,
                "pid": os.getpid(),
                "python": sys.version.split()[0],
                "weak": self.life.weak,
                "environment": self.resident.label,
            }
        )
        self.loop.call_before_sleep(prepare)  # while the first shell starts
        self.loop.call_before_sleep(self.life.look_after)

    def do_ping(self, request: Request) -> None:
        request.reply({})

    # -- processes
    def _job(self, request: Request) -> Job:
        return self.resident.job(take.text(request.fields, "process"))

    def do_list(self, request: Request) -> None:
        def answer(left: dict[int, int]) -> None:
            # Long commands are cut so that all that is kept fits a frame.
            infos = [
                dict(
                    job.describe(),
                    command=job.text[:COMMAND_LISTED].decode("utf-8", "replace"),
                    left=left.get(job.number, 0),
                )
                for job in self.resident.jobs.values()
            ]
            body = frames.pack(infos[-LISTED:])
            while len(body) > frames.FRAME_BODY:  # long directories
                infos = infos[len(infos) // 4 :]
                body = frames.pack(infos[-LISTED:])
            request.reply({"processes": len(self.resident.jobs)}, body)

        self.resident.count_leftovers(answer)

    def do_status(self, request: Request) -> None:
        self._describe(request, self._job(request))

    def _describe(self, request: Request, job: Job) -> None:
        """Answer with how a job is doing; of one that has ended, also what it has left running."""
        if not job.has_ended:
            request.reply({"process": job.describe(), "waiting": waiting(job)})
            return

        def answer(left: dict[int, int]) -> None:
            request.reply({"process": dict(job.describe(), left=left.get(job.number, 0)), "waiting": False})

        self.resident.count_leftovers(answer)

    def do_wait(self, request: Request) -> None:
        job = self._job(request)
        job.when_ended(lambda: request.reply({"process": job.describe()}))

    def do_write(self, request: Request) -> None:
        job = self._job(request)

        def taken(error: InputClosed | None) -> None:
            if error is None:
                request.reply({})
            else:
                request.refuse(self._input_closed(job))

        if not isinstance(job, Process) or not job.input_open:
            raise self._input_closed(job)
        if take.flag(request.fields, "secret"):
            for log in job.logs():
                log.mask(request.body.rstrip(b"\r\n"))
        try:
            job.write(request.body, taken)
        except InputClosed as error:
            raise self._input_closed(job) from error

    @staticmethod
    def _input_closed(job: Job) -> Refusal:
        why = "has ended" if job.has_ended else "reads no input: it was started without it, or it was closed"
        return Refusal("InputClosed", "process %s %s" % (job.id, why), process=job.id)

    def do_close_input(self, request: Request) -> None:
        job = self._job(request)
        if isinstance(job, Process) and job.input_open:
            job.close_input()
        request.reply({})

    def do_tag(self, request: Request) -> None:
        job, tag, was = self._job(request), take.tag(request.fields), request.fields.get("was")
        claimed = not take.flag(request.fields, "claimed") or job.claim(request.client)
        done = claimed and was in (None, job.tag)
        if done:
            job.tag = tag
        request.reply({"done": done, "claimed": claimed, "tag": job.tag})

    def do_claim(self, request: Request) -> None:
        job = self._job(request)
        if job.claim(request.client):
            request.reply({"process": job.describe()})
        elif job.claimant is not None:

            def left() -> None:
                request.client.serve(request)

            waiting_for = job.claimant.when_closed
            waiting_for.append(left)
            request.abandoned = lambda: waiting_for.remove(left)

    def do_resize(self, request: Request) -> None:
        job = self._job(request)
        rows = take.number(request.fields, "rows", 24, 1, TERMINAL)
        cols = take.number(request.fields, "cols", 80, 1, TERMINAL)
        if not isinstance(job, Process) or not job.pty:
            message = "process %s has no terminal: start it with pty=True" % job.id
            raise Refusal("Unsupported", message, capability="pty")
        if job.input_open:
            job.resize(rows, cols)
        request.reply({})

    def do_signal(self, request: Request) -> None:
        job = self._job(request)
        number = take.number(request.fields, "signal", 15, 1, 64)
        tree = take.flag(request.fields, "tree", True)
        if tree or not job.has_ended:  # what it left behind may live on
            for pid in job.members() if tree else filter(None, [job.pid]):
                try:
                    os.kill(pid, number)
                except (ProcessLookupError, PermissionError):
                    pass
        request.reply({})

    def do_kill(self, request: Request) -> None:
        job = self._job(request)
        grace = take.seconds(request.fields, "grace", KILL_GRACE)
        if job.has_ended:  # what it left behind may live on
            job.end_members(grace, lambda _: self._describe(request, job))
            return
        job.end(grace, None)
        job.when_ended(lambda: request.reply({"process": job.describe()}))

    def do_forget(self, request: Request) -> None:
        job = self._job(request)
        if not job.has_ended:
            raise take.invalid("process", "process %s still runs: kill it first" % job.id)
        self.resident.forget(job)
        request.reply({})

    # -- logs
    def _log(self, request: Request) -> tuple[Job, OutputLog]:
        name = take.text(request.fields, "log")
        job = self.resident.job(name[:-4] if name.endswith("/err") else name)
        log = job.err if name.endswith("/err") else job.out
        if log is None:
            message = "process %s has no stderr of its own: run it with separate=True" % job.id
            raise Refusal("UnknownProcess", message, process=job.id)
        return job, log

    def do_read(self, request: Request) -> None:
        job, log = self._log(request)
        offset = take.number(request.fields, "offset")
        limit = take.number(request.fields, "limit", INLINE_OUTPUT, 1)
        wait = take.seconds(request.fields, "wait")

        def answer() -> tuple[Fields, bytes]:
            start, data = log.read(offset, min(limit, frames.FRAME_BODY))
            end = start + len(data)
            return {"start": start, "end": end, "total": log.total, "ended": job.has_ended and end >= log.total}, data

        if wait is None or log.total > offset or job.has_ended:
            request.reply_when_room(answer)
        else:
            wait_for_log(request, job, log, offset, wait, answer)

    def do_follow(self, request: Request) -> None:
        job, log = self._log(request)
        Follow(
            request,
            job,
            log,
            take.number(request.fields, "offset"),
            take.number(request.fields, "credit"),
            take.flag(request.fields, "hold"),
        )

    # -- the environment
    def do_info(self, request: Request) -> None:
        self.resident.count_leftovers(lambda left: self._tell_info(request, len(left)))

    def _tell_info(self, request: Request, left: int) -> None:
        resident = self.resident
        request.reply(
            {
                "resident": resident.id,
                "pid": os.getpid(),
                "guardian": self.life.guardian,
                "uptime": time.monotonic() - resident.began,
                "rss": resident_memory(),
                "python": sys.version.split()[0],
                "bash": resident.bash,
                "weak": self.life.weak,
                "cannot": list(resident.cannot),
                "sessions": len(resident.sessions),
                "clients": request.client.server.attached,
                "processes": len(resident.running()) + left,
                "lease": self.life.lease.lease,
                "unattended": self.life.lease.unattended,
                "descriptors": len(os.listdir("/proc/self/fd")),
                "spool_bytes": sum(log.spooled_bytes for job in resident.jobs.values() for log in job.logs()),
            }
        )

    def do_events(self, request: Request) -> None:
        missed = False

        def tell(event: str, job: Job) -> None:
            nonlocal missed
            if not request.client.has_room:
                missed = True  # a reader that does not read costs us nothing; it learns that there was something
            elif not missed:
                request.event({"event": event, "process": job.describe()})

        def catch_up() -> None:
            nonlocal missed
            if missed and request.client.has_room:
                missed = False
                request.event({"event": "missed"})

        self.life.listeners.append(tell)
        request.on_room = catch_up
        request.abandoned = lambda: self.life.listeners.remove(tell)

    def do_sessions(self, request: Request) -> None:
        request.reply(
            {
                "sessions": [
                    {
                        "name": session.name,
                        "cwd": session.cwd,
                        "busy": not session.is_idle,
                        "shells": len(session.pool.shells),
                    }
                    for session in self.resident.sessions.values()
                ]
            }
        )

    def do_state(self, request: Request) -> None:
        session = self.resident.session(take.text(request.fields, "session"))
        session.exports.ask(lambda exports: request.reply({"cwd": session.cwd}, frames.pack(exports)))

    def do_end_session(self, request: Request) -> None:
        session = self.resident.sessions.get(take.text(request.fields, "session"))
        if session is None:
            request.reply({"ended": False})
            return

        def look() -> None:
            """Its commands end first, with all below them."""
            running = [job for job in self.resident.running() if isinstance(job, Command) and job.home is session]
            for job in running:
                job.end(GRACE, ["cancelled"])
            if running:
                running[0].when_ended(look)
            else:
                self.resident.forget_session(session)
                request.reply({"ended": True})

        look()

    def do_lease(self, request: Request) -> None:
        self.life.lease.set(
            take.seconds(request.fields, "lease", self.life.lease.lease),
            take.seconds(request.fields, "unattended", self.life.lease.unattended),
        )
        request.reply({})

    def do_shutdown(self, request: Request) -> None:
        grace = take.seconds(request.fields, "grace", GRACE)
        self.life.end(grace, lambda: request.reply({}))


def _target(fields: frames.Fields) -> str:
    """The process that a request is about; one that is being started is waited for."""
    name = fields.get("process") or fields.get("log")
    return name.partition("/")[0] if type(name) is str else ""


def resident_memory() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
