"""A resident beside the caller whose commands run in a place that has bash and no Python.

All it knows of the place is a program that starts a bash there. Output, records, clients and clocks are those of any
resident; only how something is started, seen and ended differs.
"""

from __future__ import annotations

import os

from ..life.resident import Resident
from ..processes import tree
from ..shells.orders import assignments
from ..wire.fields import Refusal, advised
from .jobs import BareCommand, BareProcess, Start
from .keeper import BareSweep, Keeper
from .session import BareSession, State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..life.loop import Loop
    from ..life.resident import Begun
    from ..processes.descriptor_limit import DescriptorLimit
    from ..processes.job import StartOptions
    from ..shells.session import Session
    from ..wire.frames import Fields

CANNOT = ("pty", "waiting_for_input", "jobs", "descriptors", "scripts")
WEAK = (
    "no python3 here, so each command is a bash of its own: no terminals, nobody knows whether a process waits for "
    "input, and jobs and open descriptors are not carried from one command to the next; install python3 to have them"
)


class BareResident(Resident):
    hides = False  # what runs there does not see us
    weak = (WEAK,)
    cannot = CANNOT

    def __init__(self, loop: Loop, config: Fields, limits: DescriptorLimit) -> None:
        super().__init__(loop, config, limits)
        self.arm: list[str] = config["arm"]
        self.arm_environ: dict[str, str] = config["arm_environ"]
        self.keeper_program: list[str] = config["keeper"] or self.arm
        self.makes_place = bool(config["keeper"])  # what the keeper's program has made goes with it
        self.keeper_seconds: float = config["keeper_seconds"]
        self.on_lost: Callable[[], None] = lambda: None
        self.first_state: State | None = None  # what every session begins with: the profile is read once
        self.coming: dict[str, BareProcess] = {}  # sent in, not begun
        self.keeper = Keeper(self, self.cwd, self._lost)

    def check_cwd(self) -> None:
        self.keeper.await_greeting()
        self.cwd = self._from_home(self.cwd) or self.keeper.start
        self.bash = self.keeper.bash

    # -- the place itself
    def _lost(self, reason: str) -> None:
        for job in [*self.running(), *self.coming.values()]:
            if isinstance(job, (BareCommand, BareProcess)):
                job.lose("the place is gone: %s" % reason)
        self.on_lost()

    # -- sessions
    def session(self, name: str) -> BareSession:
        found = self.sessions.get(name)
        if not isinstance(found, BareSession):
            self.check_session_limit()
            found = self.sessions[name] = BareSession(self, name, self.cwd, self.login)
        return found

    def command(self, options: StartOptions) -> BareCommand:
        session = self.session(options.session)
        if options.cwd is not None:
            options.cwd = self.resolve_path(session, options.cwd)
        return BareCommand(self, session, options)

    def resolve_path(self, session: Session, path: str) -> str:
        return os.path.normpath(os.path.join(session.cwd, self._from_home(path)))

    def _from_home(self, path: str) -> str:
        return self.keeper.home + path[1:] if path == "~" or path.startswith("~/") else path

    # -- processes
    def start(self, options: StartOptions, answer: Begun) -> None:
        job_id, session = options.id, self.session(options.session)
        self.starting[job_id] = [answer]
        stdin_fd = options.stdin_fd

        def launch(exports: dict[str, str]) -> None:
            if job_id not in self.starting:
                refuse("Cancelled", "withdrawn before it began")
                return
            place = session.cwd if options.cwd is None else self.resolve_path(session, options.cwd)
            environ = dict(exports, **(options.env or {}), PWD=place)
            start = Start(place, "ce", b"export " + assignments(environ), argv=tuple(map(os.fsencode, options.argv)))
            try:
                job = BareProcess(self, options, start)
            except OSError as error:
                refuse("EnvironmentUnavailable", "cannot start a process: %s" % advised(error))
                return
            self.coming[job_id] = job
            job.begun_listeners.append(lambda: self._begun(job))
            job.when_ended(lambda: self._never_begun(job))

        def refuse(kind: str, message: str) -> None:
            if stdin_fd is not None:
                os.close(stdin_fd)
            for callback in self.starting.pop(job_id, []):
                callback(None, Refusal(kind, message))

        session.exports.request(launch)

    def _begun(self, job: BareProcess) -> None:
        self.coming.pop(job.id, None)
        callbacks = self.starting.pop(job.id, None)
        if callbacks is None:
            job.end(0, ["cancelled"])  # nobody wants it any more
            return
        self.add(job)
        for callback in callbacks:
            callback(job, None)

    def _never_begun(self, job: BareProcess) -> None:
        if self.coming.pop(job.id, None) is None:
            return
        why = job.ending[1] if job.ending and job.ending[0] == "lost" else "it ended before it began"
        for callback in self.starting.pop(job.id, []):
            callback(None, Refusal("EnvironmentUnavailable", "cannot start a process: %s" % why))

    # -- ending
    def end_everything(self, grace: float, done: Callable[[list[int]], None]) -> None:
        """First in the place, then here: the programs that lead there end by themselves when nothing runs."""

        def over(survivors: list[int]) -> None:
            self.keeper.close()
            tree.Sweep(self.loop, self.everything, grace, lambda more: done(survivors + more))

        BareSweep(self.keeper, "*", grace, over)

    def count_leftovers(self, answer: Callable[[dict[int, int]], None]) -> None:
        answer({})  # the place is not looked at for it

    def find_strays(self, answer: Callable[[bool], None]) -> None:
        self.keeper.ask("list", "-", "*", lambda pids: answer(bool(pids)))
