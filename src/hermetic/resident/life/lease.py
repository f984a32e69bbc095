"""The end of a resident: by request, by a signal, or by one of two timers."""

from __future__ import annotations

import os

from ..limits import FIRST_CLIENT, GRACE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..processes.job import Job
    from ..wire.frames import Fields
    from .loop import Timer
    from .resident import Resident
    from .server import Server

CLOSED = "the environment was closed"


class Life:
    """Two timers run while no client is attached: `lease` with nothing running, `unattended` in any
    case.

    Without a first client the resident ends sooner: its opener was killed before it was known to
    any other program.
    """

    ending = False
    timer: Timer | None = None
    strayed = 0.0  # seconds in which only background jobs of a session have run
    is_running: bool | None = None
    had_client = False

    def __init__(
        self, resident: Resident, weak: list[str], guardian: int | None, config: Fields
    ) -> None:
        self.resident, self.loop = resident, resident.loop
        self.weak, self.guardian = weak, guardian
        self.lease, self.unattended = config["lease"], config["unattended"]
        self.arrival = config["arrival"]  # minimum for the first client
        # callback(event, job) for each start and end
        self.listeners: list[Callable[[str, Job], None]] = []
        self.server: Server | None = None
        self.look_after: Callable[[], None] = lambda: None  # checks the directory now
        resident.on_change = self._changed

    def attach(self, server: Server) -> None:
        self.server = server
        server.on_count = self.restart
        self.restart()

    def guardian_lost(self) -> None:
        """Records that the guardian is gone.

        It cannot be replaced: jobs go on, and `weak` reports the risk.
        """
        self.guardian = None
        self.weak.append(
            "the guardian is gone: what runs here would outlive a killed resident; open it anew"
        )

    def is_attended(self) -> bool:
        return self.server is not None and self.server.attached > 0

    def _changed(self, event: str, job: Job) -> None:
        for listener in self.listeners[:]:
            listener(event, job)
        if not self.is_attended():
            self.restart()

    def restart(self) -> None:
        """Restarts the timer after clients, jobs or the lease have changed."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        if self.is_attended():
            self.had_client = True
            return
        if self.ending:
            return
        self.strayed = 0.0
        self.is_running = bool(self.resident.running())
        left = self.lease if self.had_client else max(min(self.lease, FIRST_CLIENT), self.arrival)
        left = self.unattended if self.is_running else left
        self.timer = self.loop.call_later(left, self._run_out)

    def _run_out(self) -> None:
        if not self.is_running and self.resident.has_strays():
            # A background job of a session is not a job of ours, yet it runs, and its end raises no
            # event: check again after another lease, within `unattended`.
            self.strayed += self.lease
            self.is_running = self.strayed >= self.unattended
            left = max(self.unattended - self.strayed, 0)
            self.timer = self.loop.call_later(min(self.lease, left), self._run_out)
            return
        self.end(GRACE, lambda: None)

    def end(self, grace: float, done: Callable[[], None], reason: str = CLOSED) -> None:
        """Ends everything that runs here, then the resident. Commands are lost for that reason."""
        if self.ending:
            return
        self.ending = True
        try:
            if self.server is not None:  # a signal may come before the server
                os.unlink(self.server.path)  # no client finds an ending resident
        except FileNotFoundError:
            pass
        for session in self.resident.sessions.values():
            session.closed = True
        for job in self.resident.running():
            job.is_ending = True
            job.forced = job.forced or ["lost", reason]

        def swept(survivors: list[int]) -> None:
            done()
            self.loop.call_soon(self.loop.stop)

        self.resident.end_everything(grace, swept)
