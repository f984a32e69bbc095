"""What a client may ask of a resident whose place has no Python: the same, but for what cannot be done there."""

from __future__ import annotations

import os

from . import fields as take
from . import frames
from .bare_jobs import BareJob
from .bare_line import ERR, Complaints, Line
from .bare_scripts import READ_FILE, WRITE_FILE, order
from .requests import EXCERPT_BYTES, Requests
from .resident import Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .bare_resident import BareResident
    from .job import Ending
    from .life import Life
    from .resident import Begun
    from .server import Request


class BareRequests(Requests):
    resident: BareResident

    def __init__(self, resident: BareResident, life: Life) -> None:
        super().__init__(resident, life)
        resident.on_lost = lambda: life.end(0, lambda: None)

    # -- running
    def do_run(self, request: Request) -> None:
        self._with_directory(request, super().do_run)

    def do_start(self, request: Request) -> None:
        if take.flag(request.fields, "pty"):
            message = "no python3 in this place, so there are no terminals: start it without pty, or install python3"
            raise Refusal("Unsupported", message, capability="pty")
        self._with_directory(request, super().do_start)

    def _with_directory(self, request: Request, then: Callable[[Request], None]) -> None:
        """Go on once the directory that a command is to run in was seen; refuse it where that is none."""
        cwd = take.path(request.fields, "cwd")
        if cwd is None:
            then(request)
            return
        session = self.resident.session(take.text(request.fields, "session"))
        path = self.resident.resolve_path(session, cwd)

        def seen(fault: str | None) -> None:
            if request.answered:
                return
            if fault:
                message = "cwd %s %s: give a directory that exists in the environment" % (path, fault)
                request.refuse(Refusal("InvalidArgument", message, argument="cwd"))
                return
            try:
                then(request)
            except Refusal as refusal:
                request.refuse(refusal)
        session.exports.ask(lambda _: self.resident.keeper.ask("look", "-", path, seen))

    def _give_up_start(self, request: Request, job_id: str, begun: Begun, ending: Ending) -> None:
        job = self.resident.coming.get(job_id)
        if job is None:
            super()._give_up_start(request, job_id, begun, ending)
            return
        self.resident.withdraw_start(job_id, begun)
        job.end(0.25, ending)
        job.when_ended(lambda: request.reply_when_room(lambda: self._result(job, job.ending or ending, EXCERPT_BYTES)))

    def do_signal(self, request: Request) -> None:
        job = self._job(request)
        number = take.number(request.fields, "signal", 15, 1, 64)
        whole = take.flag(request.fields, "tree", True)
        if job.has_ended or not isinstance(job, BareJob):
            request.reply({})
            return
        verb, subject = ("tell", job.subject) if whole else ("one", str(job.pid))
        self.resident.keeper.ask(verb, str(number), subject, lambda _: request.reply({}))

    # -- files
    def do_read_file(self, request: Request) -> None:
        offset = take.number(request.fields, "offset")
        limit = take.number(request.fields, "limit", frames.MAX_BODY, 0, frames.MAX_BODY)
        FileWork(self, request, READ_FILE, (b"%d" % offset, b"%d" % limit), None)

    def do_write_file(self, request: Request) -> None:
        blob = take.text(request.fields, "blob") if request.fields.get("blob") is not None else None
        mode = take.number(request.fields, "mode", 0o666, 0, 0o7777) if request.fields.get("mode") is not None else None
        parents = b"1" if take.flag(request.fields, "parents", True) else b""
        source = self._content(request, blob)
        size = len(request.body) if source is None else os.fstat(source).st_size
        fields = (b"%d" % size, b"" if mode is None else b"%o" % mode, parents, os.urandom(4).hex().encode())
        FileWork(self, request, WRITE_FILE, fields, source)


class Body:
    """What a file holds, as it comes."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.total = 0
        self.when_released: list[Callable[[], None]] = []

    def append(self, data: bytes | memoryview) -> None:
        self.total += len(data)
        if self.total <= frames.MAX_BODY:
            self.parts.append(bytes(data))

    def is_held(self) -> bool:
        return False


class FileWork:
    """One script that reads or writes a file there, and the answer to whoever asked for it."""

    def __init__(
        self, requests: BareRequests, request: Request, script: str, fields: tuple[bytes, ...], source: int | None
    ) -> None:
        resident = requests.resident
        session = resident.session(take.text(request.fields, "session"))
        given = take.path(request.fields, "path", "")
        self.request, self.offset = request, take.number(request.fields, "offset")
        self.body, self.complaints, self.record = Body(), Complaints(), b""

        def begin(_: object) -> None:
            self.path = resident.resolve_path(session, given)
            token = os.urandom(16).hex().encode()
            text = order(script, token, os.fsencode(self.path), *fields)
            try:
                line = Line(resident, text, token, self.body, self.complaints, self._told, self._ended)
            except OSError as error:
                request.refuse(Refusal("EnvironmentUnavailable", "the place cannot be reached: %s" % error.strerror))
                return
            if source is not None:
                line.feed.pour(source)
            else:
                line.feed.write(request.body)
                line.feed.close()
        session.exports.ask(begin)

    def _told(self, stream: int, record: bytes) -> None:
        if stream == ERR:
            self.record = record

    def _ended(self) -> None:
        kind, rest = self.record[:1], self.record[1:].decode("utf-8", "replace")
        if kind == b"!":
            error, _, message = rest.partition(" ")
            self.request.refuse(Refusal(error, "%s: %s" % (self.path, message)))
            return
        try:
            size, mode, changed = rest.split()
            answer = {"size": int(size), "mode": int(mode, 16), "mtime": float(changed)}
        except ValueError:
            said = str(self.complaints) or "no answer"
            self.request.refuse(Refusal("EnvironmentUnavailable", "the place did not do it: %s" % said))
            return
        data = b"".join(self.body.parts)
        self.request.reply(dict(answer, end=self.offset + len(data)), data)
