"""Python scripts: processes whose whole tree ends with them, and one interpreter that is started ahead of the next.

An interpreter reads from its standard input: the modules that scripts import, a directory to go to, the script; each
with its length before it. The modules are kept here, so that they are sent once.
"""

from __future__ import annotations

import os
import struct
import sys
import time

from . import stream, tree
from .feed import Feed
from .job import ending_of
from .lean import signal
from .process import Launch, Process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .loop import Timer, Watch
    from .resident import Resident

GRACE_SECONDS = 0.25  # for what a script has started and left behind
SPARE_SECONDS = 300  # that an interpreter waits for the next script
MODULES = 4  # sets of them that are kept, the last ones used
WARM = "warm"  # the argument by which an interpreter knows that it is ahead of its script


class Order:
    """What a script is to be started with, besides the script itself."""

    def __init__(self, argv: list[str], environ: dict[str, str], modules: bytes) -> None:
        self.argv = [interpreter(argv[0], environ), *argv[1:]]
        self.environ, self.modules = environ, modules

    def fits(self, other: Order | None) -> bool:
        """Whether an interpreter that was started for the other one will do."""
        return other is not None and (self.argv, self.environ, self.modules) == (
            other.argv,
            other.environ,
            other.modules,
        )


class Script(Process):
    """Ended when its own process has, and all that it started.

    Its input is a socket: the last thing that an interpreter does is to say there what it exits with. That is its
    ending when nothing else of it lives, for the kernel takes a millisecond to clear such a process away.
    """

    is_spare = False
    word: Watch | None = None

    def _open_input(self, launch: Launch) -> int:
        ours, theirs = stream.pair()
        launch.opened.append(theirs)
        self.feed = Feed(self.resident.loop, ours)
        self.word = self.resident.loop.watch(os.dup(ours), self._said)
        return theirs

    def _drop_input(self) -> None:
        super()._drop_input()
        if self.word is not None:
            self.resident.loop.unwatch(self.word)
            os.close(self.word.fd)
            self.word = None

    def _said(self) -> None:
        assert self.word is not None, "it is listened to"
        try:
            data = os.read(self.word.fd, 2)
        except OSError:
            data = b""
        self._drop_input()
        if len(data) != 1 or self.is_spare or self.sweep is not None or self.has_ended:
            return
        if self.members() == [self.pid] and self.members() == [self.pid]:  # nobody is believed only the second time
            tree.send([self.pid], signal.SIGKILL)  # it is about to end, or says what is not true
            self.own_ending = ["exited", data[0]]
            self._maybe_finish()

    def _exited(self, status: int) -> None:
        if self.is_spare:
            self.resident.scripts.drop(self)
            return
        self._drop_input()
        if self.has_ended:
            return
        self.own_ending = ending_of(status)
        if self.sweep is None and self._has_members():
            self.sweep = self.end_members(GRACE_SECONDS, self._swept)
        self._maybe_finish()

    def _has_members(self) -> bool:
        try:
            return bool(self.members() or self.members())  # nobody is believed only the second time
        except OSError:  # no descriptor to look with
            return True

    def adopt(self, job_id: str, session: str, text: bytes, cwd: str) -> None:
        """Become the process of a script that has come."""
        self.is_spare = False
        self.id, self.session, self.text, self.cwd = job_id, session, text, cwd
        self.started, self._clock = time.time(), time.monotonic()

    def give(self, part: bytes) -> None:
        """A part of its input, with its length before it."""
        assert self.feed is not None, "it has a pipe"
        self.feed.write(struct.pack(">I", len(part)) + part)

    def give_script(self, cwd: bytes, source: int) -> None:
        """The rest: the script is read from `source`, which is ours from now on."""
        assert self.feed is not None, "it has a pipe"
        size = struct.pack(">I", os.fstat(source).st_size)
        self.feed.write(struct.pack(">I", len(cwd)) + cwd + size)
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
        self.modules: dict[str, bytes] = {}  # by name, the last used at the end
        self.spare: Script | None = None
        self.order: Order | None = None  # of the spare
        self.timer: Timer | None = None

    def keep(self, name: str, modules: bytes) -> None:
        self.modules[name] = modules
        while len(self.modules) > MODULES:
            del self.modules[next(iter(self.modules))]

    def find(self, name: str) -> bytes | None:
        if name in self.modules:
            self.modules[name] = self.modules.pop(name)
        return self.modules.get(name)

    def launch(
        self, job_id: str, session: str, title: bytes, order: Order, source: int, cwd: str, is_warm: bool
    ) -> Script:
        """Raises OSError when no process or descriptor can be had."""
        job = self._take_spare(order) if is_warm else None
        if job is not None:
            job.adopt(job_id, session, title, cwd)
            job.give_script(os.fsencode(cwd), source)
        else:
            job = self._start(job_id, session, order.argv, title, cwd, order)
            job.give_script(b"", source)
        if is_warm:
            started = job
            job.when_ended(lambda: self._prepare_after(started, order))
        return job

    def _start(self, job_id: str, session: str, argv: list[str], title: bytes, cwd: str, order: Order) -> Script:
        resident = self.resident
        number = resident.next_number()
        variables = dict(order.environ, PWD=cwd)
        variables[tree.MARK] = "%s.%d" % (resident.id, number)
        launch = Launch(argv, variables, cwd, number=number, stdin="pipe")
        job = Script(resident, job_id, number, session, title, resident.new_log(), resident.new_log(), launch)
        job.give(order.modules)
        return job

    # -- the interpreter that waits
    def _take_spare(self, order: Order) -> Script | None:
        spare = self.spare
        if spare is None or not order.fits(self.order) or tree.is_gone(spare.pid) or not spare.input_open:
            self.end_spare()
            return None
        self._forget()
        return spare

    def _prepare_after(self, job: Script, order: Order) -> None:
        """One that was ended by somebody may be the last of all that is ended."""
        if not job.is_ending:
            self.resident.loop.call_soon(lambda: self._prepare(order))

    def _prepare(self, order: Order) -> None:
        """Start an interpreter for the next script, unless there is one or no process to spare."""
        if self.spare is not None or not self.resident.room.has_room():
            return
        try:
            spare = self._start("", "", [*order.argv, WARM], b"", "/", order)
        except OSError:
            return
        spare.is_spare = True
        self.spare, self.order = spare, order
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
        self.spare = self.order = None
        if self.timer is not None:
            self.timer.cancel()


def interpreter(name: str, environ: dict[str, str]) -> str:
    """Where the Python of that name is, by the PATH a script gets; ours where there is none."""
    for folder in (environ.get("PATH") or os.defpath).split(os.pathsep):
        candidate = os.path.join(folder, name)
        if folder and os.access(candidate, os.X_OK) and os.path.isfile(candidate):
            return candidate
    return sys.executable
