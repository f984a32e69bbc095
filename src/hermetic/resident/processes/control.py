"""Who types into a process: any client, or the one person who drives it; and whose input it got."""

from __future__ import annotations

import time

from ..limits import DRIVER_LEASE, ECHO, HANDOVER_NOTE, HANDOVERS, INPUT_RECORDS
from ..wire import frames
from ..wire.fields import Refusal, invalid
from .echo import KEY_BYTES, EchoPolling
from .process import Process
from .stdin_writer import InputClosed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..life.loop import Timer
    from ..life.resident import Resident
    from ..life.server import Request
    from ..wire.frames import Fields
    from .job import Job

MOST_TYPED = 4  # inputs that are taken before an acknowledgement
NAME_LENGTH = 64  # characters of a person's or a program's name
TYPING_SECONDS = 1.0  # input of one writer within this time is one record


class Drive:
    """A request that stays open while a person drives a process. The first event says that the
    person does.

    When it is cancelled or its connection ends, the person has DRIVER_LEASE seconds to come back
    with the same key. Events of the client are input of the person. Keys that were taken are
    acknowledged a moment later, so that their echo, which the person waits for, goes first.
    """

    timer: Timer | None = None
    polling: EchoPolling | None = None  # None: what is typed has no echo
    acknowledging: Timer | None = None
    typed = 0  # inputs that were taken and are not acknowledged

    def __init__(
        self,
        resident: Resident,
        request: Request,
        process: str = "",
        key: str = "",
        name: str = "",
        again: bool = False,
    ) -> None:
        job = resident.job(process)
        if not isinstance(job, Process) or not job.input_open:
            raise invalid(
                "process", "process %s takes no input: there is nothing to drive" % job.id
            )
        if not key or not name:
            raise invalid("key", "driving takes a key and a name")
        self.resident, self.request, self.job = resident, request, job
        self.key, self.name, self.since = key, name[:NAME_LENGTH], time.time()
        before = job.driver
        if again and (before is None or before.key != key):
            request.reply({"reason": "taken" if before else "expired"})
            return
        if before is not None and before.key == key:
            self.since = before.since
        if before is not None:
            before.end("taken")
        elif job.handed is None:  # the first one to drive it
            job.when_ended(self._job_ended)
        job.driver = self
        if job.pty:
            self.polling = EchoPolling(resident.loop, job.drains[0])
        request.abandoned, request.on_event = self.leave, self.type
        request.event({"since": self.since, "types": True})
        resident.on_change("control", job)

    @property
    def is_present(self) -> bool:
        return self.timer is None

    def describe(self) -> Fields:
        return {"name": self.name, "since": self.since, "present": self.is_present}

    def type(self, fields: Fields, body: bytes) -> None:
        """Writes input of the person; the rest is done while the terminal echoes it."""
        try:
            self.job.write(body, self._taken)
        except InputClosed as error:
            self._taken(error)
        record_input(self.job, self.key, "", len(body), False)
        if self.polling is not None:
            self.polling.expect(body)
        if self.acknowledging is not None and (self.typed >= MOST_TYPED or len(body) > KEY_BYTES):
            self.acknowledging.cancel()
            self._acknowledge()

    def _taken(self, error: InputClosed | None) -> None:
        if error is not None:
            self.request.event({"closed": True})
            return
        self.typed += 1
        if self.acknowledging is None:
            self.acknowledging = self.resident.loop.call_later(ECHO, self._acknowledge)

    def _acknowledge(self) -> None:
        typed, self.typed, self.acknowledging = self.typed, 0, None
        self.request.event({"typed": typed})

    def leave(self) -> None:
        """Starts the lease: the person's connection is gone."""
        if self.job.driver is self and self.timer is None:
            self.timer = self.resident.loop.call_later(DRIVER_LEASE, self._expire)
            self.resident.on_change("control", self.job)

    def _expire(self) -> None:
        give_back(self.resident, self.job, "expired", "")

    def end(self, reason: str) -> None:
        if self.timer is not None:
            self.timer.cancel()
        if self.acknowledging is not None:
            self.acknowledging.cancel()
            self._acknowledge()
        self.request.abandoned = lambda: None
        self.request.reply({"reason": reason})

    def _job_ended(self) -> None:
        driver, self.job.driver = self.job.driver, None
        if driver is not None:
            driver.end("ended")


def give_back(resident: Resident, job: Job, reason: str, note: str) -> None:
    """Ends a person's control.

    Programs get the note: with INFO, and with their next command's result.
    """
    driver, job.driver = job.driver, None
    assert driver is not None, "it is driven"
    driver.end(reason)
    job.handed = {"by": driver.name, "note": note[:HANDOVER_NOTE], "at": time.time()}
    if not job.personal:
        resident.handovers.append((time.monotonic(), handover_text(job)))
        del resident.handovers[:-HANDOVERS]
    resident.on_change("control", job)


def handover_text(job: Job) -> str:
    handed = job.handed or {}
    text = "%s drove process %s and has given it back" % (handed["by"], job.id)
    return "%s: %s" % (text, handed["note"]) if handed["note"] else text


def unheard(resident: Resident, request: Request) -> list[str]:
    """Hand-overs since this connection's last result."""
    since, request.client.heard = request.client.heard, time.monotonic()
    return [text for at, text in resident.handovers if at > since]


def give(
    resident: Resident, request: Request, process: str = "", key: str = "", note: str = ""
) -> None:
    job = resident.job(process)
    if job.driver is not None:
        check_driver(job, key)
        give_back(resident, job, "given", note)
    request.reply({})


def check_driver(job: Job, key: str) -> None:
    """Raises Refusal unless input of the key's owner, or without a key of any client, is taken now."""
    driver = job.driver
    if (driver is None and not key) or (driver is not None and driver.key == key):
        return
    if driver is None:
        message = "process %s is not driven with this key any more: take it over again" % job.id
    else:
        message = (
            "%s drives process %s now, so that its input, size and end are theirs: read its output or work elsewhere, "
            "and try again when it was given back" % (driver.name, job.id)
        )
    raise Refusal("Driven", message, process=job.id, driver="" if driver is None else driver.name)


def record_input(job: Job, key: str, name: str, count: int, secret: bool) -> None:
    """Counts input by its writer. What was written is not kept."""
    writer, is_person, now = (
        job.driver.name if job.driver else name[:NAME_LENGTH] or "agent",
        bool(key),
        time.time(),
    )
    if job.inputs is None:
        job.inputs = []
    last = job.inputs[-1] if job.inputs else None
    if last is None or last[2:4] != [writer, is_person] or now - last[1] > TYPING_SECONDS:
        last = [now, now, writer, is_person, 0, 0, job.out.total]
        job.inputs.append(last)
        del job.inputs[:-INPUT_RECORDS]
    last[1] = now
    last[4] += count
    last[5] += count if secret else 0


def inputs(resident: Resident, request: Request, process: str = "") -> None:
    """Replies with the writers of a process's input."""
    found = resident.job(process).inputs or []
    request.reply({"inputs": len(found)}, frames.pack(found))
