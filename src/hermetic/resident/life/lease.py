"""How a resident's life ends: by request, by a signal, or by one of its two clocks."""

from __future__ import annotations

import os

from ..limits import GRACE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..processes.job import Job
    from .loop import Timer
    from .resident import Resident
    from .server import Server


class Lease:
    """Two clocks while nobody is attached: `lease` with nothing running, `unattended` though something runs."""

    def __init__(self, life: Life, lease: float, unattended: float, arrival: float) -> None:
        self.life, self.lease, self.unattended = life, lease, unattended
        self.arrival = arrival  # for the first client, however short the lease
        self.timer: Timer | None = None
        self.strayed = 0.0  # seconds that only background jobs of a session have run
        self.is_running: bool | None = None

    def set(self, lease: float, unattended: float) -> None:
        self.lease, self.unattended = lease, unattended
        self.restart()

    def restart(self) -> None:
        """Something changed: who is attached, or what runs."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        if self.life.is_attended():
            self.arrival = 0.0
            return
        if self.life.ending:
            return
        self.strayed = 0.0
        running = bool(self.life.resident.running())
        lease = max(self.lease, self.arrival)
        self.timer = self.life.loop.call_later(self.unattended if running else lease, self._run_out)
        self.is_running = running

    def _run_out(self) -> None:
        if self.is_running:
            self.life.end(GRACE, lambda: None)
        else:
            # A background job of a session is nobody's process, yet it runs.
            self.life.resident.find_strays(self._strays_found)

    def _strays_found(self, has_strays: bool) -> None:
        if self.life.is_attended() or self.life.ending or self.life.resident.running():
            return  # meanwhile somebody came or something was started: the clock runs anew
        if has_strays:
            # Their end is not told to us: look again after another lease, as long as the second clock allows.
            self.strayed += self.lease
            self.is_running = self.strayed >= self.unattended
            left = max(self.unattended - self.strayed, 0)
            self.timer = self.life.loop.call_later(min(self.lease, left), self._run_out)
            return
        self.life.end(GRACE, lambda: None)


class Life:
    def __init__(
        self,
        resident: Resident,
        weak: list[str],
        guardian: int | None,
        lease: float,
        unattended: float,
        arrival: float = 0.0,
    ) -> None:
        self.resident, self.loop = resident, resident.loop
        self.weak, self.guardian = weak, guardian
        self.ending = False
        self.listeners: list[Callable[[str, Job], None]] = []  # of starts and ends: callback(event, job)
        self.server: Server | None = None
        self.look_after: Callable[[], None] = lambda: None  # its directory, now
        self.lease = Lease(self, lease, unattended, arrival)
        resident.on_change = self._changed

    def attach(self, server: Server) -> None:
        self.server = server
        server.on_count = self.lease.restart
        self.lease.restart()

    def guardian_lost(self) -> None:
        """Nobody else can take its place: what runs goes on, and whoever asks is told what that means."""
        self.guardian = None
        self.weak.append("the guardian is gone: what runs here would outlive a killed resident; open it anew")

    def is_attended(self) -> bool:
        return self.server is not None and self.server.attached > 0

    def _changed(self, event: str, job: Job) -> None:
        for listener in self.listeners[:]:
            listener(event, job)
        if not self.is_attended():
            self.lease.restart()

    def end(self, grace: float, done: Callable[[], None]) -> None:
        """End all that is ours, then the resident."""
        if self.ending:
            return
        self.ending = True
        try:
            if self.server is not None:  # a signal may come before there is one
                os.unlink(self.server.path)  # nobody finds a resident that is about to go
        except FileNotFoundError:
            pass
        for session in self.resident.sessions.values():
            session.closed = True
        for job in self.resident.running():
            job.is_ending = True
            job.forced = job.forced or ["lost", "the environment was closed"]

        def swept(survivors: list[int]) -> None:
            done()
            self.loop.call_soon(self.loop.stop)

        self.resident.end_everything(grace, swept)
