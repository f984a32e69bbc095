"""What a client may ask of a resident whose place has no Python: the same, but for what cannot be done there."""

from __future__ import annotations

from ..channels.requests import OpenBridge
from ..lazy import Lazy
from ..limits import GRACE
from ..processes.requests import Signal
from ..processes.start_requests import Run, Start
from ..wire import fields as take
from ..wire.fields import Refusal
from ..wire.requests import OPERATIONS, Requests
from .jobs import BareJob

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..life.lease import Life
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
        self.operations = dict(OPERATIONS, run=BareRun, start=BareStart, signal=BareSignal, bridge=NoBridge)
        resident.on_lost = lambda: life.end(0, lambda: None)

    def open_files(self) -> Any:
        return files.BareFileDesk(self)


def with_directory(request: Request, resident: BareResident, then: Callable[[], None]) -> None:
    """Go on once the directory that a command is to run in was seen; refuse it where that is none."""
    cwd = take.path(request.fields, "cwd")
    if cwd is None:
        then()
        return
    session = resident.session(take.text(request.fields, "session"))
    path = resident.resolve_path(session, cwd)

    def seen(fault: str | None) -> None:
        if request.answered:
            return
        if fault:
            message = "cwd %s %s: give a directory that exists in the environment" % (path, fault)
            request.refuse(Refusal("InvalidArgument", message, argument="cwd"))
            return
        try:
            then()
        except Refusal as refusal:
            request.refuse(refusal)

    session.exports.request(lambda _: resident.keeper.ask("look", "-", path, seen))


class BareRun(Run):
    resident: BareResident

    def serve(self) -> None:
        with_directory(self, self.resident, super().serve)

    def give_up(self, ending: Ending) -> None:
        job = self.resident.coming.get(self.id)
        if job is None:
            super().give_up(ending)
            return
        self._stop_timer()
        self.resident.withdraw_start(self.id, self.begun)
        job.end(GRACE, ending)
        job.when_ended(lambda: self.reply_result(job, job.ending or ending))


class BareStart(Start):
    resident: BareResident

    def serve(self) -> None:
        if take.flag(self.fields, "pty"):
            message = "no python3 in this place, so there are no terminals: start it without pty, or install python3"
            raise Refusal("Unsupported", message, capability="pty")
        with_directory(self, self.resident, super().serve)


class BareSignal(Signal):
    resident: BareResident

    def serve(self) -> None:
        job, number, whole = self.job, self.signal, self.tree
        if job.has_ended or not isinstance(job, BareJob):
            self.reply({})
            return
        verb, subject = ("tell", job.subject) if whole else ("one", str(job.pid))
        self.resident.keeper.ask(verb, str(number), subject, lambda _: self.reply({}))


class NoBridge(OpenBridge):
    def serve(self) -> None:
        message = "no python3 in this place, so it runs no scripts: run commands instead, or install python3 there"
        raise Refusal("Unsupported", message, capability="scripts")
