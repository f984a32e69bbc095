"""The resident: its jobs, sessions and shells, and the processes that belong to each."""

from __future__ import annotations

import os
import time

from ..channels.askpass import Askpass
from ..channels.bridge import Bridge
from ..channels.scripts import ScriptOptions, Scripts
from ..limits import FORK_READY, SESSIONS
from ..processes import tree
from ..processes.cgroup import MemoryKills, ProcessQuota
from ..processes.descriptor_limit import ProcessTags
from ..processes.ended_jobs import Retention, is_fork, leftover_counts
from ..processes.process import Process
from ..shells.command import Command
from ..shells.exports import existing_cwd_of
from ..shells.orders import Orders
from ..shells.reports import read_report
from ..shells.session import Session
from ..shells.shell import HeldDescriptors
from ..wire.fields import Refusal, advised, invalid
from .bash import find_bash
from .holder import await_holder, start_holder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Protocol

    from ..processes.descriptor_limit import DescriptorLimit
    from ..processes.job import Job, StartOptions
    from ..processes.posix_spawn import Spawner
    from ..shells.reports import Report
    from ..shells.shell import Shell
    from ..wire.frames import Fields
    from .loop import Loop
    from .server import Request

    Begun = Callable[["Job | None", "Refusal | None"], None]  # neither: it was withdrawn

    class Starter(Protocol):
        """A request for a process."""

        request: Request

        def begun(self, job: Job | None, refusal: Refusal | None) -> None: ...


HOLDER_SECONDS = 0.5  # before the next attempt to start a holder
ADOPTION_SECONDS = 0.002  # before the second check of whether the parent of a fork has exited
EVENT_BYTES = 4096  # of one read from the event pipe, which holds sixteen times as much


class SparePipe:
    """A pipe created in idle time, for the next command's output."""

    def __init__(self) -> None:
        self.ends: tuple[int, int] | None = None

    def take(self) -> tuple[int, int]:
        ends, self.ends = self.ends, None
        return ends or _new_pipe()

    def prepare(self) -> None:
        if self.ends is None:
            try:
                self.ends = _new_pipe()
            except OSError:  # no descriptor available: the next command tries again
                pass


def _new_pipe() -> tuple[int, int]:
    # A shell opens the write end by path, so O_NONBLOCK affects only us.
    return os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)


class Beginning:
    """A process that is being started: who asked for it, and who waits for it to do something else.

    Without anybody who asked for it, it is not started.
    """

    def __init__(self, starter: Starter) -> None:
        self.starters = [starter]
        self.others: list[Begun] = []

    def answer(self, job: Job | None, refusal: Refusal | None) -> None:
        for callback in (*(starter.begun for starter in self.starters), *self.others):
            callback(job, refusal)


class MissingDirectory(OSError):
    """The cwd is missing and cannot be created."""


class Resident:
    is_ending = False

    def __init__(self, loop: Loop, config: Fields, limits: DescriptorLimit) -> None:
        self.loop, self.limits = loop, limits
        self.id: str = config["id"]
        self.directory = self.channel_directory = str(config["directory"])
        self.shared: list[str] = config.get("shared", [])
        self.spool: str | None = config["spool"]
        self.spool_name: str = config.get("spool_name") or self.spool or ""
        self.environ: dict[str, str] = config["environ"]
        self.cwd: str = config["cwd"]
        self.make_cwd: bool = config.get("make_cwd", False)
        self.login: bool = config["login"]
        self.init_files: list[str] = config.get("init_files", [])
        self.keep_path: bool = config.get("keep_path", False)
        self.login_timeout: float = config["login_timeout"]
        self.bash_name: str = config.get("bash") or "bash"  # bash finds $BASH by its argv[0]
        self.bash = find_bash(config.get("bash") or "", self.environ.get("PATH") or os.defpath)
        self.runtime: str = config.get("runtime") or "image"
        self.label: str = config.get("label") or ""
        self.began = time.monotonic()
        self.holder = start_holder()
        self.process_tags = ProcessTags()
        self.quota = ProcessQuota()
        self.memory = MemoryKills() if config["own_cgroup"] else None
        self.has_subreaper: bool = config["has_subreaper"]
        self.null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        self.events, self.events_in = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self.orders = Orders(self.descriptors_path, self.events_in, self.id, self.process_tags.base)
        self.held = HeldDescriptors()
        self.unparsed = b""
        loop.watch(self.events, self.take_events)
        # a fork that something stops before it has reported
        loop.may_continue = lambda pid: self.is_forking and is_fork(self, pid)
        self.pipes = SparePipe()
        self.spawner: Spawner | None = None  # made when the first process starts
        self.askpass = Askpass(loop, self.directory)
        self.bridge = Bridge(loop, self.directory)
        self.scripts = Scripts(self)
        self.number = self.changes = 0
        self.jobs: dict[str, Job] = {}  # id: job, in order of start
        self.retention = Retention(self._drop, self._numbers_left)
        self.starting: dict[str, Beginning] = {}  # by id of the process
        self.sessions: dict[str, Session] = {}
        self.channels: dict[bytes, tuple[Session, Shell]] = {}  # by shell name in reports
        self.orphans: set[int] = set()
        self.sweeps = 0
        # when a person gave a process back, and a sentence on it
        self.handovers: list[tuple[float, str]] = []
        self.on_change: Callable[[str, Job], None] = lambda event, job: None
        self.look_after_directory: Callable[[], None] = lambda: None  # after a cleanup of /tmp
        self.regain_directory: Callable[[], None] = lambda: (
            None
        )  # the same if no channel can be created; raises OSError

    def check_cwd(self) -> None:
        """Creates the cwd if configured. Raises OSError if commands could not start there."""
        if not os.path.exists(self.cwd) and self.make_cwd:
            try:
                os.makedirs(self.cwd)
                os.chmod(self.cwd, 0o755)
            except OSError as error:
                raise MissingDirectory(
                    "cwd %r cannot be made there: %s" % (self.cwd, error.strerror)
                ) from error
        if not os.path.isdir(self.cwd):
            raise OSError("cwd %r is not a directory there; give one that exists" % self.cwd)
        if not os.access(self.cwd, os.X_OK):
            raise OSError(
                "cwd %r cannot be entered by user %d; choose another of the two"
                % (self.cwd, os.getuid())
            )

    @property
    def descriptors_path(self) -> str:
        """The path prefix of our descriptors, for shells."""
        return "/proc/%d/fd/" % (self.holder or os.getpid())

    def await_holder(self, again: bool = False) -> None:
        """Waits for the holder that was started; without one, shells open our own descriptors."""
        if self.holder is not None and await_holder(self.holder, again):
            self.loop.on_exit(self.holder, lambda _: self._holder_ended(), lambda: True)
        elif self.holder is not None:
            self.holder = None
            self.orders.move(self.descriptors_path)

    def _holder_ended(self) -> None:
        """Replaces a killed holder.

        Shells know its path: idle ones are killed, the others end after their command.
        """
        if not self.is_ending:
            for session in self.sessions.values():
                session.pool.end_idle()
            self.holder = start_holder(again=True)
            self.orders.move(self.descriptors_path)
            self.await_holder(again=True)
            if self.holder is None:  # no process available now
                self.loop.call_later(HOLDER_SECONDS, self._holder_ended)

    # -- sessions
    def session(self, name: str) -> Session:
        found = self.sessions.get(name)
        if found is None:
            if len(self.sessions) >= SESSIONS:
                message = (
                    "%d sessions are open here, the most: end one that is not needed (Session.close, or "
                    "hermetic rm TASK --session NAME), or use another environment" % SESSIONS
                )
                raise invalid("session", message)
            found = self.sessions[name] = Session(self, name, self.cwd, self.login)
        return found

    def forget_session(self, session: Session) -> None:
        if self.sessions.get(session.name) is session:
            del self.sessions[session.name]
        session.close()

    @property
    def is_forking(self) -> bool:
        """Whether a shell is being forked that has not reported yet."""
        return any(session.pool.has_unreported() for session in self.sessions.values())

    def next_change(self) -> int:
        """A new state version.

        It is unique: a new session of the same name never matches an old version.
        """
        self.changes += 1
        return self.changes

    def next_number(self) -> int:
        self.number += 1
        return self.number

    def take_events(self) -> None:
        """Handles the shells' reports.

        Any process can write to this pipe, so only valid reports count.
        """
        for _ in range(16):  # drain it: reports come before the death of their shell
            try:
                data = os.read(self.events, EVENT_BYTES)
            except BlockingIOError:
                break
            self.unparsed += data
            if len(data) < EVENT_BYTES:
                break
        records = self.unparsed.split(b"\0")
        self.unparsed = records.pop()[-4096:]
        for record in filter(None, records):
            report = read_report(record)
            if report is not None:
                self.loop.call(self._deliver, report)

    def _deliver(self, report: Report, pause: float = ADOPTION_SECONDS) -> None:
        """Passes a report to its session. A fork is ready once we would notice its end.

        Its parent is a subshell that exits after the fork. If the fork ended first, its parent
        would reap it.
        """
        known = self.channels.get(report.name)
        if known is None:
            return
        session, shell = known
        if shell.pid is not None or self._would_reap(report.pid):
            session.reported(shell, report)
        else:
            self.loop.call_later(pause, lambda: self._deliver(report, 2 * pause))

    def _would_reap(self, pid: int) -> bool:
        """Whether a process is our child, or has ended.

        Without a subreaper no fork becomes our child.
        """
        try:
            return not self.has_subreaper or tree.stat_fields(pid)[1:2] in ([], [str(os.getpid())])
        except OSError:  # no descriptor available
            return False

    # -- starting things
    def spool_full(self, why: str) -> str:
        """The error message of a full spool: its path, and the remedy."""
        return "%s: %s; free space there, or set HERMETIC_SPOOL_DIR to another disk" % (
            self.spool_name,
            why,
        )

    def command(self, options: StartOptions) -> Command:
        """A new command for a session's shell."""
        session = self.session(options.session)
        if options.cwd is not None:
            options.cwd = self.resolve_cwd(session, options.cwd)
        return Command(self, session, options)

    def run(self, command: Command) -> None:
        self.add(command)
        command.home.run(command)

    def start(self, options: StartOptions, starter: Starter) -> None:
        """Starts a process with the session's cwd and exports; calls `starter.begun(job, refusal)`
        when it runs.
        """
        session = self.session(options.session)
        beginning = self.starting[options.id] = Beginning(starter)

        def begin(exports: dict[str, str]) -> None:
            job, refusal = None, None
            try:
                if self.starting.get(options.id) is not beginning:
                    raise Refusal("Cancelled", "withdrawn before it began")
                if options.is_stale(session):
                    raise invalid("known", "the session changed before the process began")
                options.cwd = self.resolve_cwd(session, options.cwd)
                launch = self._launch if options.script is None else self._launch_script
                job = launch(options, exports)
                self.add(job)
            except OSError as error:
                refusal = Refusal(
                    "EnvironmentUnavailable", "cannot start a process: %s" % advised(error)
                )
            except Refusal as error:
                refusal = error
            except Exception as error:  # refused for this one; the others go on
                refusal = Refusal("EnvironmentUnavailable", "the resident failed: %r" % error)
                self.loop.on_error()
            if refusal is not None and options.stdin_fd is not None:
                os.close(options.stdin_fd)
            if self.starting.get(options.id) is beginning:
                del self.starting[options.id]
                beginning.answer(job, refusal)

        session.exports.request(begin)

    def withdraw_start(self, job_id: str, starter: Starter) -> None:
        """Removes one who asked for a process. Without any the process is not started.

        The same request on a connection that broke counts for nothing.
        """
        beginning = self.starting.get(job_id)
        if beginning is None or starter not in beginning.starters:
            return
        beginning.starters = [
            one
            for one in beginning.starters
            if one is not starter and not one.request.client.closed
        ]
        if not beginning.starters:
            del self.starting[job_id]
            beginning.answer(None, None)

    def _launch(self, options: StartOptions, exports: dict[str, str]) -> Process:
        environ = dict(exports)
        if options.pty:
            if environ.get("TERM", "dumb") == "dumb":
                environ["TERM"] = "xterm-256color"
            for name in ("LINES", "COLUMNS"):  # of the opener's terminal: this one has its own size
                environ.pop(name, None)
            for name in ("PAGER", "GIT_PAGER"):
                if environ.get(name) == "cat":
                    del environ[name]
        environ.update(options.env or {}, PWD=options.cwd or "/")
        options.environ = environ
        return Process(self, options)

    def _launch_script(self, options: StartOptions, exports: dict[str, str]) -> Process:
        """Starts a script: like a process, but of the session's variables it gets only the named
        ones.
        """
        script = options.script or {}
        modules = self.scripts.find(script["modules"])
        if modules is None or options.stdin_fd is None:
            message = (
                "no modules %r are kept here: send them, and the script as input"
                % script["modules"]
            )
            raise invalid("modules", message)
        environ = {name: exports[name] for name in script["keep"] if name in exports}
        environ.update(options.env or {})
        interpreter = ScriptOptions(list(options.argv), environ, modules)
        options.text, options.separate = script["title"].encode("utf-8", "backslashreplace"), True
        source, options.stdin_fd = options.stdin_fd, None
        try:
            return self.scripts.launch(options, interpreter, source, script["warm"])
        except OSError:
            options.stdin_fd = source  # the caller closes it
            raise

    def resolve_path(self, session: Session, path: str) -> str:
        """An absolute path: `~` is the session's HOME, and relative paths start at its cwd."""
        if path == "~" or path.startswith("~/"):
            path = self.environ.get("HOME", "/") + path[1:]
        return path if path.startswith("/") else os.path.join(existing_cwd_of(session)[0], path)

    def resolve_cwd(self, session: Session, cwd: str | None) -> str:
        if cwd is None:
            return existing_cwd_of(session)[0]
        path = self.resolve_path(session, cwd)
        if not os.path.isdir(path) or not os.access(path, os.X_OK):
            what = "is not a directory" if os.path.exists(path) else "does not exist"
            what = "cannot be entered" if os.path.isdir(path) else what
            message = "cwd %s %s: give a directory that exists in the environment" % (path, what)
            raise invalid("cwd", message)
        return os.path.normpath(path)

    # -- the table
    def add(self, job: Job) -> None:
        self.jobs[job.id] = job
        self.on_change("started", job)

    def job(self, job_id: str) -> Job:
        found = self.jobs.get(job_id)
        if found is None:
            message = "no process %s here: list the processes to see which there are" % job_id
            raise Refusal("UnknownProcess", message, process=job_id)
        return found

    def running(self) -> list[Job]:
        return [job for job in self.jobs.values() if not job.has_ended]

    def job_ended(self, job: Job) -> None:
        self.on_change("ended", job)
        self.retention.add(job)

    def _numbers_left(self) -> set[int]:
        """The numbers of ended jobs that may have live processes."""
        try:
            return set(leftover_counts(self, with_forks=True))
        except OSError:  # no descriptor available: the next look decides
            return {job.number for job in self.jobs.values()}

    def forget(self, job: Job) -> None:
        """Drops an ended job and its output at its caller's request."""
        self.retention.remove(job)
        self._drop(job)

    def _drop(self, job: Job) -> None:
        self.jobs.pop(job.id, None)
        job.close()

    # -- who belongs to what
    def note_orphans(self) -> set[int]:
        """Records the current orphans: they belong to no later job."""
        self.orphans = set(tree.children(os.getpid())).difference(self.loop.children)
        return self.orphans

    def tree_of(
        self, job: Job, roots: Iterable[int], spared: Iterable[int] = frozenset()
    ) -> list[int]:
        """A job's processes, parents first: descendants of its roots, and orphans that it started."""
        known = set(self.loop.children)
        stop = (known | set(spared)) - set(roots)
        if self.has_subreaper:
            candidates = [pid for pid in tree.children(os.getpid()) if pid not in known]
            orphans = [pid for pid in candidates if pid not in stop and self._comes_from(pid, job)]
        else:
            orphans = [pid for pid in tree.tagged({job.process_tag}) if pid not in stop]
        return tree.descendants(list(roots) + orphans, stop)

    def _comes_from(self, pid: int, job: Job) -> bool:
        number = self.process_tags.number_of(pid, self.number)
        if number is not None:
            return number == job.number  # before the environment, which a program can easily change
        tag = tree.tag_of(pid)
        if tag is not None and tag.startswith(self.id + "."):
            return tag == job.process_tag
        if tree.holds_open(pid, job.inodes):
            return True
        return pid not in self.orphans and self.running() == [job]

    def count_leftovers(self, answer: Callable[[dict[int, int]], None]) -> None:
        """Calls `answer` with the number of live processes of each ended job, by job number."""

        def look() -> None:
            try:
                found = leftover_counts(self)
            except OSError:  # no descriptor available
                found = {}
            answer(found)

        self.when_reported_or_late(look)

    def when_reported_or_late(self, callback: Callable[[], None]) -> None:
        """Calls back when every forked shell has reported, or after FORK_READY.

        A shell that has not reported looks like an orphan.
        """
        is_over = False

        def go() -> None:
            nonlocal is_over
            if not is_over:
                is_over = True
                timer.cancel()
                callback()

        def look() -> None:
            for session in self.sessions.values():
                if session.pool.has_unreported():
                    session.pool.when_reported.add(look)
                    return
            go()

        timer = self.loop.call_later(FORK_READY, go)
        look()

    def sweep(
        self, members: Callable[[], list[int]], grace: float, done: Callable[[list[int]], None]
    ) -> object:
        """Ends a tree after every forked shell has reported its pid."""
        self.sweeps += 1

        def over(survivors: list[int]) -> None:
            self.sweeps -= 1
            done(survivors)
            if not self.sweeps:
                for session in list(self.sessions.values()):
                    session.sweeps_ended()

        def start() -> None:
            tree.Sweep(self.loop, members, grace, over)

        self.when_reported_or_late(start)
        return over

    def everything(self) -> list[int]:
        """All descendants, shells included."""
        return tree.descendants(tree.children(os.getpid()))

    def end_everything(self, grace: float, done: Callable[[list[int]], None]) -> None:
        self.is_ending = True
        # The holder blocks TERM, and ends with us.
        tree.Sweep(
            self.loop, lambda: [pid for pid in self.everything() if pid != self.holder], grace, done
        )

    def has_strays(self) -> bool:
        """Whether any process runs besides the shells, known as a job or not."""
        ours = {
            shell.pid
            for session in self.sessions.values()
            for shell in session.pool.shells.values()
        }
        ours |= self.scripts.pids()
        ours.add(self.holder)
        return any(pid not in ours for pid in self.everything())
