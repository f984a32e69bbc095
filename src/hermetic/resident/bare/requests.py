"""What a client may ask of a resident whose place has no Python: the same, but for what cannot be done there."""

from __future__ import annotations

from ..lazy import Lazy
from ..limits import GRACE
from ..processes.start_requests import Run, Start
from ..wire.fields import Refusal
from ..wire.requests import FILE_OPERATIONS, Requests
from .jobs import BareJob

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..life.lease import Life
    from ..life.resident import Resident
    from ..life.server import Request
    from ..processes.job import Ending
    from ..wire.requests import Operation
    from . import files
    from .resident import BareResident
else:
    files = Lazy(".files", __package__)


class BareRequests(Requests):
    resident: BareResident

    def __init__(self, resident: BareResident, life: Life) -> None:
        super().__init__(resident, life)
        for name, handler in (("run", BareRun), ("start", BareStart), ("signal", self.signal), ("bridge", no_bridge)):
            _, parsers, required = self.operations[name]
            self.operations[name] = handler, parsers, required
        resident.on_lost = lambda: life.end(0, lambda: None)

    def file_operations(self) -> dict[str, Operation]:
        desk = files.BareFileDesk(self)

        def row(name: str) -> Operation:
            serve = getattr(desk, name)
            return lambda _, request: serve(request), {}, ()

        return {name: row(name) for name in FILE_OPERATIONS}

    def signal(
        self, resident: Resident, request: Request, process: str = "", signal: int = 15, tree: bool = True
    ) -> None:
        job = self.resident.job(process)
        if job.has_ended or not isinstance(job, BareJob):
            request.reply({})
            return
        verb, subject = ("tell", job.subject) if tree else ("one", str(job.pid))
        self.resident.keeper.ask(verb, str(signal), subject, lambda _: request.reply({}))


def with_directory(resident: Any, request: Request, given: dict[str, Any], then: Callable[[], None]) -> None:
    """Go on once the directory that a command is to run in was seen; refuse it where that is none."""
    if "cwd" not in given:
        then()
        return
    session = resident.session(given.get("session", ""))
    path = resident.resolve_path(session, given["cwd"])

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

    def __init__(self, resident: Resident, request: Request, **given: Any) -> None:
        with_directory(resident, request, given, lambda: super(BareRun, self).__init__(resident, request, **given))

    def give_up(self, ending: Ending) -> None:
        job = self.resident.coming.get(self.id)
        if job is None:
            super().give_up(ending)
            return
        self._stop_timer()
        self.resident.withdraw_start(self.id, self.begun)
        job.end(GRACE, ending)
        job.when_ended(lambda: self.reply(job, job.ending or ending))


class BareStart(Start):
    resident: BareResident

    def __init__(self, resident: Resident, request: Request, **given: Any) -> None:
        if given.get("pty"):
            message = "no python3 in this place, so there are no terminals: start it without pty, or install python3"
            raise Refusal("Unsupported", message, capability="pty")
        with_directory(resident, request, given, lambda: super(BareStart, self).__init__(resident, request, **given))


def no_bridge(resident: Resident, request: Request, **_: Any) -> None:
    message = "no python3 in this place, so it runs no scripts: run commands instead, or install python3 there"
    raise Refusal("Unsupported", message, capability="scripts")
