"""Stops the processes of an environment until they are released, and spares those of chosen jobs."""

from __future__ import annotations

from ..life.fast_stdlib import signal
from ..limits import KILL_CHECK
from ..shells.command import Command
from . import tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ..life.resident import Resident
    from .job import Job

FROZEN = "frozen by the user; it goes on when the user releases it"
MOST_PASSES = 1000


class Freezer:
    """Sends STOP to everything but idle shells and spared jobs, until no new process appears; later
    CONT.
    """

    def __init__(self, resident: Resident) -> None:
        self.resident = resident
        self.frozen: dict[int, str] = {}  # pid: start time
        self.spared: list[Job] = []
        self.thaws = 0  # each ends the freezes before it

    def freeze(self, spared: Collection[str], done: Callable[[], None]) -> None:
        """Commands that a caller waits for yield first: their time limits do not run on."""
        self.spared = [job for job in self.resident.jobs.values() if job.id in spared]
        for job in self.resident.running():
            is_waited_for = job.yield_listeners and not (job.has_yielded or job.is_ending)
            if is_waited_for and job not in self.spared:
                job.notes.append(FROZEN)
                if isinstance(job, Command):
                    job.home.yield_command(job)
                job.notify_yielded()
        thaws = self.thaws
        self.resident.when_reported_or_late(lambda: self._stop(done, thaws, MOST_PASSES))

    def _stop(self, done: Callable[[], None], thaws: int, passes: int) -> None:
        """One pass: a process that was forked meanwhile is found by the next."""
        if thaws != self.thaws:
            done()
            return
        try:
            new = self._runnable()
        except OSError:  # no descriptor available
            self.resident.loop.call_later(KILL_CHECK, lambda: self._stop(done, thaws, passes - 1))
            return
        tree.send(new, signal.SIGSTOP)
        self.frozen.update(new)
        if new and passes > 0:
            self.resident.loop.call_later(0, lambda: self._stop(done, thaws, passes - 1))
        else:
            done()

    def _runnable(self) -> dict[int, str]:
        """Processes to stop, with their start times.

        Those that were stopped before are left out, so that `thaw` does not continue them.
        """
        resident = self.resident
        everything = resident.everything()
        # After it: a process that a spared job forks in between is in neither.
        spared = {pid for job in self.spared for pid in job.members()}
        busy = {job.pid for job in resident.running() if job.pid}
        shells = [
            shell
            for session in resident.sessions.values()
            for shell in session.pool.shells.values()
        ]
        busy.update(shell.pid for shell in shells if shell.command is not None and shell.pid)
        ours = set(resident.loop.children) | {shell.pid for shell in shells} | {resident.holder}
        pids = [pid for pid in everything if pid not in spared and (pid in busy or pid not in ours)]
        found = {pid: fields for pid in pids for fields in [tree.stat_fields(pid)] if fields}
        return {pid: fields[19] for pid, fields in found.items() if fields[0] not in "TtZX"}

    def thaw(self) -> int:
        """Lets them go on; returns how many do."""
        alive = [pid for pid, born in self.frozen.items() if tree.stat_fields(pid)[19:20] == [born]]
        self.frozen.clear()
        self.spared = []
        self.thaws += 1
        # children first: a shell never sees its job as stopped
        tree.send(reversed(alive), signal.SIGCONT)
        return len(alive)
