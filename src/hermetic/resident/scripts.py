"""Python scripts: processes whose whole tree ends with them, and one interpreter that is started ahead of the next."""

from __future__ import annotations

import os
import signal
import struct
import sys
import time

from . import tree
from .job import ending_of
from .process import Launch, Process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .frames import Fields
    from .loop import Timer
    from .resident import Resident

    Key = tuple[list[str], dict[str, str]]  # argv and variables

GRACE_SECONDS = 0.25  # for what a script has started and left behind
SPARE_SECONDS = 300  # that an interpreter waits for the next script
WARM = "warm"  # the argument by which an interpreter knows that it is ahead of its script


class Script(Process):
    """Ended when its own process has, and all that it started."""

    is_spare = False

    def _exited(self, status: int) -> None:
        if self.is_spare:
            self.resident.scripts.drop(self)
            return
        self._drop_input()
        self.own_ending = ending_of(status)
        if self.sweep is None and (self.members() or self.members()):  # nobody is believed only the second time
            self.sweep = self.end_members(GRACE_SECONDS, self._swept)
        self._maybe_finish()

    def adopt(self, job_id: str, session: str, text: bytes, cwd: str, source: int) -> None:
        """Become the process of a script that has come: it is read from `source`, which is ours from now on."""
        self.is_spare = False
        self.id, self.session, self.text, self.cwd = job_id, session, text, cwd
        self.started, self._clock = time.time(), time.monotonic()
        place = os.fsencode(cwd)
        assert self.feed is not None, "a spare has a pipe"
        self.feed.write(struct.pack(">I", len(place)) + place)
        self.feed.pour(source)

    def discard(self) -> None:
        """Nobody has used it, and its process is gone."""
        self._close_parents_ends()
        for log in self.logs():
            log.close()


class Scripts:
    """Starts scripts; where they are wanted fast, with an interpreter that is there already."""

    def __init__(self, resident: Resident) -> None:
        self.resident = resident
        self.spare: Script | None = None
        self.key: Key | None = None  # of the spare
        self.timer: Timer | None = None

    def launch(
        self,
        job_id: str,
        session: str,
        argv: list[str],
        text: bytes,
        options: Fields,
        cwd: str,
        environ: dict[str, str],
        is_warm: bool,
    ) -> Script:
        """Raises OSError when no process or descriptor can be had."""
        argv = [interpreter(argv[0], environ), *argv[1:]]
        job = self._take_spare((argv, environ)) if is_warm else None
        if job is not None:
            job.adopt(job_id, session, text, cwd, options["stdin_fd"])
        else:
            job = self._script(job_id, session, argv, text, options, cwd, environ)
        if is_warm:
            job.when_ended(lambda: self._prepare_after(job, (argv, environ)))
        return job

    def _script(
        self,
        job_id: str,
        session: str,
        argv: list[str],
        text: bytes,
        options: Fields,
        cwd: str,
        environ: dict[str, str],
    ) -> Script:
        resident = self.resident
        number = resident.next_number()
        variables = dict(environ, PWD=cwd)
        variables[tree.MARK] = "%s.%d" % (resident.id, number)
        launch = Launch(argv, variables, cwd, number=number, **options)
        return Script(resident, job_id, number, session, text, resident.new_log(), resident.new_log(), launch)

    # -- the interpreter that waits
    def _take_spare(self, key: Key) -> Script | None:
        spare = self.spare
        if spare is None or self.key != key or tree.is_gone(spare.pid):
            self.end_spare()
            return None
        self._forget()
        return spare

    def _prepare_after(self, job: Script, key: Key) -> None:
        """One that was ended by somebody may be the last of all that is ended."""
        if not job.is_ending:
            self.resident.loop.call_soon(lambda: self._prepare(key))

    def _prepare(self, key: Key) -> None:
        """Start an interpreter for the next script, unless there is one or no process to spare."""
        if self.spare is not None or not self.resident.room.has_room():
            return
        argv, environ = key
        try:
            spare = self._script("", "", [*argv, WARM], b"", {"stdin": "pipe"}, "/", environ)
        except OSError:
            return
        spare.is_spare = True
        self.spare, self.key = spare, key
        self.timer = self.resident.loop.call_later(SPARE_SECONDS, self.end_spare)

    def end_spare(self) -> None:
        if self.spare is not None:
            tree.send([self.spare.pid], signal.SIGKILL)
            self._forget()

    def drop(self, spare: Script) -> None:
        """Its process has ended."""
        if self.spare is spare:
            self._forget()
        spare.discard()

    def _forget(self) -> None:
        self.spare = self.key = None
        if self.timer is not None:
            self.timer.cancel()


def interpreter(name: str, environ: dict[str, str]) -> str:
    """Where the Python of that name is, by the PATH a script gets; ours where there is none."""
    for folder in (environ.get("PATH") or os.defpath).split(os.pathsep):
        candidate = os.path.join(folder, name)
        if folder and os.access(candidate, os.X_OK) and os.path.isfile(candidate):
            return candidate
    return sys.executable
