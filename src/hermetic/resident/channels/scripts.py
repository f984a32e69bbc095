"""Python scripts: processes whose whole tree ends with them, forked by an interpreter that is ready.

An interpreter reads from its standard input: the modules that scripts import, a directory to go to, the script; each
with its length before it. The modules are kept here, so that they are sent once.

The first script starts an interpreter of its own. After it a *parent* is started: an interpreter that has imported
what many scripts need and runs none itself. For each script it forks twice, so that the script becomes our child; it
gets the script's standard streams by a socket and answers with the script's pid.
"""

from __future__ import annotations

import os
import struct
import sys
import time
from _socket import SHUT_WR

from ..life.fast_stdlib import deque, signal
from ..limits import SCRIPT_GRACE, SCRIPT_MODULES, SPARE_INTERPRETER
from ..processes import tree
from ..processes.job import ending_of
from ..processes.process import Launch, Process, spawn
from ..processes.stdin_writer import StdinWriter
from ..wire import stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..life.loop import Timer, Watch
    from ..life.resident import Resident
    from ..processes.output_log import OutputLog

SHIMS = 16  # whose interpreters are remembered
WARM = "warm"  # the argument by which an interpreter knows that it is a parent
ASKED = "asked"  # the argument by which an interpreter knows that it is to say where it is, behind a shim
REQUEST_BYTES = 128  # of what a parent is asked: a variable of the copy's environment
READY = 0xFFFFFFFF  # what a parent says first; then pids, 0 for a copy that could not be made


class ScriptOptions:
    """What a script is to be started with, besides the script itself."""

    cwd = "/"  # of its script
    shim: tuple[Any, ...] | None = None  # what decides which interpreter a shim starts; None: it is started itself

    def __init__(self, argv: list[str], environ: dict[str, str], modules: bytes) -> None:
        self.argv = [interpreter(argv[0], environ), *argv[1:]]
        self.environ, self.modules = environ, modules

    def resolve_shim(self, interpreters: dict[tuple[Any, ...], str], cwd: str) -> None:
        """Name the interpreter itself where a shim stands before it and it is known which that starts there."""
        self.cwd = cwd
        if self.shim is None and is_shim(self.argv[0]):
            self.shim = (self.argv[0], cwd, tuple(sorted(self.environ.items())))
        if self.shim is not None and self.shim in interpreters:
            self.argv[0] = interpreters[self.shim]

    def matches(self, other: ScriptOptions | None) -> bool:
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
    exit_watch: Watch | None = None
    pid = 0  # until the parent has said it
    order: ScriptOptions | None = None  # of an interpreter that a shim starts, until it has said which it is

    def __init__(
        self,
        resident: Resident,
        job_id: str,
        number: int,
        session: str,
        text: bytes,
        out: OutputLog,
        err: OutputLog | None,
        launch: Launch,
        parent: Parent | None = None,
    ) -> None:
        self.parent = parent
        super().__init__(resident, job_id, number, session, text, out, err, launch)

    def _begin(self, launch: Launch, streams: tuple[int, int, int]) -> None:
        if self.parent is None:
            super()._begin(launch, streams)
        else:
            self.parent.fork(self, streams, self.process_tag)

    def forked(self, pid: int) -> None:
        """Its parent has made its process; 0: it could not, or has ended."""
        self.pid = pid
        if pid:
            self.resident.loop.on_exit(pid, self._exited)
            self.resident.process_tags.apply_to(pid, self.number)
        if not pid or not os.path.exists("/proc/%d" % pid):  # ended, and cleared away before anybody waited for it
            self.resident.loop.children.pop(pid, None)
            self._exited(signal.SIGKILL)
        elif self.is_ending:
            if self.is_spare:
                tree.send([pid], signal.SIGKILL)
            elif self.sweep is None:
                self.sweep = self.end_members(0, self._swept)

    def is_usable(self) -> bool:
        """Whether a copy that waits can still be given a script."""
        return self.input_open and not (self.pid and tree.is_gone(self.pid))

    def _open_input(self, launch: Launch) -> int:
        ours, theirs = stream.pair()
        launch.opened.append(theirs)
        self.writer = StdinWriter(self.resident.loop, ours)
        self.exit_watch = self.resident.loop.watch(os.dup(ours), self._received)
        return theirs

    def _drop_input(self) -> None:
        super()._drop_input()
        if self.exit_watch is not None:
            self.resident.loop.unwatch(self.exit_watch)
            os.close(self.exit_watch.fd)
            self.exit_watch = None

    def _received(self) -> None:
        assert self.exit_watch is not None, "it is listened to"
        try:
            data = os.read(self.exit_watch.fd, 4096)
        except OSError:
            data = b""
        if self.order is not None and b"\0" in data:
            path, _, data = data.partition(b"\0")
            self.resident.scripts.learn_interpreter(self.order, os.fsdecode(path))
            self.order = None
            if not data:
                return
        self._drop_input()
        if len(data) != 1 or self.is_spare or self.sweep is not None or self.has_ended:
            return
        if (
            self.pid and self.members() == [self.pid] and self.members() == [self.pid]
        ):  # nobody is believed only the second time
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
            self.sweep = self.end_members(SCRIPT_GRACE, self._swept)
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
        assert self.writer is not None, "it has a pipe"
        self.writer.write(struct.pack(">I", len(part)) + part)

    def give_script(self, cwd: bytes, source: int) -> None:
        """The rest: the script is read from `source`, which is ours from now on."""
        assert self.writer is not None, "it has a pipe"
        size = struct.pack(">I", os.fstat(source).st_size)
        self.writer.write(struct.pack(">I", len(cwd)) + cwd + size)
        self.writer.pour(source)

    def discard(self) -> None:
        """Nobody has used it, and its process is gone."""
        self._close_parents_ends()
        for log in self.logs():
            log.close()


class Parent:
    """An interpreter that forks one script after the other. Raises OSError when no process or descriptor can be had."""

    def __init__(self, resident: Resident, order: ScriptOptions, when_ready: Callable[[], None]) -> None:
        self.resident, self.order, self.when_ready = resident, order, when_ready
        self.is_ready = False
        self.is_retired = False  # it forks what was asked for, and ends
        self.asked: deque[Script] = deque()  # scripts whose pids are to come, in this order
        self._received = b""
        ours, theirs = stream.pair()
        unread, printed = os.pipe2(os.O_CLOEXEC)  # as a script's output, it cannot be sought in
        try:
            launch = Launch([*order.argv, WARM], dict(order.environ), "/", number=resident.next_number())
            self.pid = spawn(launch, (theirs, printed, printed), False, resident)
        except OSError:
            os.close(ours)
            raise
        finally:
            for fd in (theirs, unread, printed):
                os.close(fd)
        self._control = stream.Stream(fileno=ours)
        resident.loop.on_exit(self.pid, self._exited)
        self._writer = StdinWriter(resident.loop, os.dup(ours))
        self._writer.write(struct.pack(">I", len(order.modules)) + order.modules)
        self._watch = resident.loop.watch(ours, self._receive)

    def fork(self, script: Script, streams: tuple[int, int, int], tag: str) -> None:
        """Ask for a copy with these standard streams; `script.forked(pid)` is called when it is there."""
        text = ("%s=%s" % (tree.TAG_VARIABLE, tag)).encode().ljust(REQUEST_BYTES, b"\0")
        self._control.sendmsg([text], [(stream.SOL_SOCKET, stream.SCM_RIGHTS, struct.pack("3i", *streams))])
        self.asked.append(script)

    def retire(self) -> None:
        """No more is asked for: it ends when it has forked what was."""
        self.is_retired = True
        try:
            self._control.shutdown(SHUT_WR)
        except OSError:  # it has ended
            pass

    def _receive(self) -> None:
        try:
            data = self._control.recv(4096)
        except OSError:
            data = b""
        if not data:
            self.resident.loop.unwatch(self._watch)
            return
        self._received += data
        while len(self._received) >= 4:
            pid, self._received = struct.unpack(">I", self._received[:4])[0], self._received[4:]
            if pid == READY:
                self.is_ready = True
                self.when_ready()
            elif self.asked:
                self.asked.popleft().forked(pid)

    def _exited(self, status: int) -> None:
        self._receive()  # what it said last
        self.resident.loop.unwatch(self._watch)
        self._writer.drop()
        self._control.close()
        self.resident.scripts.drop_parent(self)
        while self.asked:
            self.asked.popleft().forked(0)


class Scripts:
    """Starts scripts; where they are wanted fast, as copies of an interpreter that is there already."""

    def __init__(self, resident: Resident) -> None:
        self.resident = resident
        self.modules: dict[str, bytes] = {}  # by name, the last used at the end
        self.parent: Parent | None = None
        self.spare: Script | None = None  # a copy that waits for the next script
        self.timer: Timer | None = None
        self.interpreters: dict[
            tuple[Any, ...], str
        ] = {}  # the interpreters behind shims, by shim, directory and variables

    def keep(self, name: str, modules: bytes) -> None:
        self.modules[name] = modules
        while len(self.modules) > SCRIPT_MODULES:
            del self.modules[next(iter(self.modules))]

    def find(self, name: str) -> bytes | None:
        if name in self.modules:
            self.modules[name] = self.modules.pop(name)
        return self.modules.get(name)

    def pids(self) -> set[int]:
        """Of the processes that are no script's."""
        return {one.pid for one in (self.parent, self.spare) if one is not None}

    def launch(
        self, job_id: str, session: str, title: bytes, order: ScriptOptions, source: int, cwd: str, is_warm: bool
    ) -> Script:
        """Raises OSError when no process or descriptor can be had."""
        order.resolve_shim(self.interpreters, cwd)
        job = self._take_spare(order) if is_warm else None
        if job is not None:
            job.adopt(job_id, session, title, cwd)
            job.give_script(os.fsencode(cwd), source)
        else:
            job = self._start(job_id, session, title, cwd, order)
            job.give_script(b"", source)
        if is_warm:
            started = job
            job.when_ended(lambda: self._prepare_after(started, order))
        return job

    def _start(self, job_id: str, session: str, title: bytes, cwd: str, order: ScriptOptions) -> Script:
        resident = self.resident
        number = resident.next_number()
        variables = dict(order.environ, PWD=cwd)
        variables[tree.TAG_VARIABLE] = "%s.%d" % (resident.id, number)
        is_asked = order.shim is not None and order.shim not in self.interpreters
        argv = [*order.argv, ASKED] if is_asked else order.argv
        launch = Launch(argv, variables, cwd, number=number, stdin="pipe")
        job = Script(resident, job_id, number, session, title, resident.new_log(), resident.new_log(), launch)
        job.order = order if is_asked else None
        job.give(order.modules)
        return job

    def learn_interpreter(self, order: ScriptOptions, path: str) -> None:
        """The interpreter that a shim has started: the next is started without the shim."""
        if order.shim is not None and os.path.isabs(path) and os.access(path, os.X_OK) and not is_shim(path):
            self.interpreters[order.shim] = path
            while len(self.interpreters) > SHIMS:
                del self.interpreters[next(iter(self.interpreters))]

    # -- the interpreter that forks
    def _take_spare(self, order: ScriptOptions) -> Script | None:
        """The copy that waits, or a new one; None where there is no parent for it, or none yet."""
        parent = self.parent
        if parent is None or not parent.is_ready:
            return None
        if not order.matches(parent.order) or tree.is_gone(parent.pid):
            self.end_spare()
            return None
        spare, self.spare = self.spare, None
        if spare is not None and not spare.is_usable():
            self._end(spare)
            spare = None
        try:
            return spare or self._fork_spare(parent)
        except OSError:
            return None
        finally:
            self._restart_timer()

    def _fork_spare(self, parent: Parent) -> Script:
        resident = self.resident
        launch = Launch([], {}, "/", number=resident.next_number(), stdin="pipe")
        job = Script(resident, "", launch.number, "", b"", resident.new_log(), resident.new_log(), launch, parent)
        job.is_spare = True
        return job

    def _refill(self) -> None:
        """Have a copy ready for the next script, unless there is one or no process to spare."""
        parent = self.parent
        if self.spare is None and parent is not None and parent.is_ready and self.resident.quota.has_headroom():
            try:
                self.spare = self._fork_spare(parent)
            except OSError:
                pass

    def _prepare_after(self, job: Script, order: ScriptOptions) -> None:
        """One that was ended by somebody may be the last of all that is ended."""
        if not job.is_ending:
            self.resident.loop.call_soon(lambda: self._prepare(order))

    def _prepare(self, order: ScriptOptions) -> None:
        """Have a copy ready for the next script, and a parent where its copies can be told apart and there is room."""
        resident = self.resident
        if self.parent is not None:
            self._refill()
            return
        if not (resident.has_subreaper and resident.process_tags.base and resident.quota.has_headroom()):
            return
        order.resolve_shim(self.interpreters, order.cwd)
        try:
            self.parent = Parent(resident, order, self._refill)
        except OSError:
            return
        self._restart_timer()

    def _restart_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
        self.timer = self.resident.loop.call_later(SPARE_INTERPRETER, self.end_spare)

    def end_spare(self) -> None:
        parent, self.parent = self.parent, None
        spare, self.spare = self.spare, None
        if parent is not None:
            parent.retire()
        if spare is not None:
            self._end(spare)
        if self.timer is not None:
            self.timer.cancel()

    def _end(self, spare: Script) -> None:
        spare.is_ending = True
        if spare.pid:
            tree.send([spare.pid], signal.SIGKILL)

    def drop_parent(self, parent: Parent) -> None:
        """Its process has ended."""
        if self.parent is parent:
            self.end_spare()

    def drop(self, spare: Script) -> None:
        """The process of a copy that nobody has used has ended."""
        if self.spare is spare:
            self.spare = None
        spare.discard()


def is_shim(path: str) -> bool:
    """True for a script that starts the interpreter, as version managers have them in front of PATH."""
    try:
        with open(path, "rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return False


def interpreter(name: str, environ: dict[str, str]) -> str:
    """Where the Python of that name is, by the PATH a script gets; ours where there is none."""
    for folder in (environ.get("PATH") or os.defpath).split(os.pathsep):
        candidate = os.path.join(folder, name)
        if folder and os.access(candidate, os.X_OK) and os.path.isfile(candidate):
            return candidate
    return sys.executable
