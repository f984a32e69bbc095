"""What a client may ask of a resident whose place has no Python: the same, but for what cannot be done there."""

from __future__ import annotations

from ..lazy import Lazy
from ..life.resident import Refusal
from ..limits import GRACE, INLINE_OUTPUT
from ..wire import fields as take
from ..wire.requests import Requests
from .jobs import BareJob

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..life.lease import Life
    from ..life.resident import Begun
    from ..life.server import Request
    from ..processes.job import Ending
    from . import files
    from .resident import BareResident
else:
    files = Lazy(".files", __package__)


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
        job.end(GRACE, ending)
        job.when_ended(lambda: request.reply_when_room(lambda: self._result(job, job.ending or ending, INLINE_OUTPUT)))

    def do_signal(self, request: Request) -> None:
        job = self._job(request)
        number = take.number(request.fields, "signal", 15, 1, 64)
        whole = take.flag(request.fields, "tree", True)
        if job.has_ended or not isinstance(job, BareJob):
            request.reply({})
            return
        verb, subject = ("tell", job.subject) if whole else ("one", str(job.pid))
        self.resident.keeper.ask(verb, str(number), subject, lambda _: request.reply({}))

    def do_bridge(self, request: Request) -> None:
        message = "no python3 in this place, so it runs no scripts: run commands instead, or install python3 there"
        raise Refusal("Unsupported", message, capability="scripts")

    def _open_files(self) -> Any:
        return files.BareFileDesk(self)
