"""Python scripts: processes whose whole tree ends with them, forked from a warm interpreter.

An interpreter reads from stdin the modules that scripts import, a directory, and the script; each
has its length before it. The resident keeps the modules, so a client sends them once.

The first script starts an interpreter of its own. Then a *parent* is started: an interpreter that
has imported what many scripts need and runs none itself. For each script it forks twice, so that
the script becomes the resident's child. It receives the script's standard streams through a socket
and answers with the pid.
"""

from __future__ import annotations

import os
import struct
import sys
import time
from _socket import SHUT_WR

from ..life.fast_stdlib import deque, signal
from ..limits import SCRIPT_MODULES, SPARE_INTERPRETER
from ..processes import tree
from ..processes.job import StartOptions, ending_of
from ..processes.posix_spawn import find_program
from ..processes.process import Process, spawn
from ..processes.stdin_writer import StdinWriter
from ..wire import stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..life.loop import Timer, Watch
    from ..life.resident import Resident
    from ..processes.process import Streams

SHIMS = 16  # whose interpreters are remembered
WARM = "warm"  # argument of an interpreter that is a parent
ASKED = "asked"  # argument of an interpreter that reports its path, behind a shim
REQUEST_BYTES = 128  # of one fork request: a variable of the fork's environment
READY = 0xFFFFFFFF  # first message of a parent; then pids, 0 for a failed fork


class ScriptOptions:
    """Options of a script besides its source."""

    cwd = "/"  # of its script
    shim: tuple[Any, ...] | None = None  # key of the interpreter that a shim selects; None: no shim

    def __init__(self, argv: list[str], environ: dict[str, str], modules: bytes) -> None:
        self.argv = [interpreter(argv[0], environ), *argv[1:]]
        self.environ, self.modules = environ, modules

    @property
    def key(self) -> tuple[list[str], dict[str, str], bytes]:
        return self.argv, self.environ, self.modules

    def resolve_shim(self, interpreters: dict[tuple[Any, ...], str], cwd: str) -> None:
        """Replaces a shim by its interpreter if that is known for this directory and these
        variables.
        """
        self.cwd = cwd
        if self.shim is None and is_shim(self.argv[0]):
            self.shim = (self.argv[0], cwd, tuple(sorted(self.environ.items())))
        if self.shim is not None and self.shim in interpreters:
            self.argv[0] = interpreters[self.shim]

    def matches(self, other: ScriptOptions | None) -> bool:
        """Whether an interpreter that was started with the other options can serve."""
        return other is not None and self.key == other.key


class Script(Process):
    """A process that has ended when all that it started has ended too.

    Its input is a socket. An interpreter's last act is to write its exit code there. If no other
    process of the script is alive, that is the ending: the kernel takes a millisecond to remove the
    process.
    """

    is_spare = False
    exit_watch: Watch | None = None
    pid = 0  # until the parent reports it
    order: ScriptOptions | None = None  # of an interpreter behind a shim, until it reports its path
    ungiven: tuple[bytes, int] | None = None  # cwd and source of its script, until the pid is known

    def __init__(
        self, resident: Resident, options: StartOptions, parent: Parent | None = None
    ) -> None:
        self.parent = parent
        super().__init__(resident, options)

    def _begin(self, options: StartOptions, streams: Streams) -> None:
        if self.parent is None:
            super()._begin(options, streams)
        else:
            self.parent.fork(self, streams, self.process_tag)

    def forked(self, pid: int) -> None:
        """Handles the parent's answer: the pid, or 0 if the fork failed or the parent has ended."""
        self.pid = pid
        is_gone = not pid or not os.path.exists("/proc/%d" % pid)  # already ended and reaped
        if pid:
            self.resident.loop.on_exit(pid, self._exited)
            self.resident.process_tags.apply_to(pid, self.number)
        if self.ungiven is not None:
            (cwd, source), self.ungiven = self.ungiven, None
            if is_gone or self.is_ending:
                os.close(source)
            else:
                self.give_script(cwd, source)
        if is_gone:
            self.resident.loop.children.pop(pid, None)
            self._exited(signal.SIGKILL)
        elif self.is_ending:
            if self.is_spare:
                tree.send([pid], signal.SIGKILL)
            elif self.sweep is None:
                self.sweep = self.end_members(0, self._swept)

    def is_usable(self) -> bool:
        """Whether an idle fork can still take a script."""
        return self.input_open and not (self.pid and tree.is_gone(self.pid))

    def _open_input(self, options: StartOptions, opened: list[int]) -> int:
        ours, theirs = stream.pair()
        opened.append(theirs)
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
        # one empty answer may be a race
        if self.pid and self.members() == [self.pid] and self.members() == [self.pid]:
            tree.send([self.pid], signal.SIGKILL)  # it is about to end, or reported a false code
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
        self._end_leftovers()
        self._maybe_finish()

    def adopt(self, options: StartOptions) -> None:
        """Takes over the identity of a script's job."""
        self.is_spare = False
        self.id, self.session, self.tag, self.text = (
            options.id,
            options.session,
            options.tag,
            options.text,
        )
        self.cwd = options.cwd or "/"
        self.started, self._clock = time.time(), time.monotonic()

    def give(self, part: bytes) -> None:
        """Sends one part of its input, prefixed with its length."""
        assert self.writer is not None, "it has a pipe"
        self.writer.write(struct.pack(">I", len(part)) + part)

    def give_script(self, cwd: bytes, source: int) -> None:
        """Sends the rest of its input. The script is read from `source`, which is closed here.

        A fork gets it once its pid is known: what it started before that would not carry its tag.
        """
        if self.parent is not None and not self.pid:
            self.ungiven = cwd, source
            return
        assert self.writer is not None, "it has a pipe"
        size = struct.pack(">I", os.fstat(source).st_size)
        self.writer.write(struct.pack(">I", len(cwd)) + cwd + size)
        self.writer.pour(source)

    def discard(self) -> None:
        """Releases an unused fork whose process is gone."""
        self._close_parents_ends()
        for log in self.logs():
            log.close()


class Parent:
    """An interpreter that forks scripts.

    Raises OSError if the system refuses a process or descriptor.
    """

    def __init__(
        self, resident: Resident, order: ScriptOptions, when_ready: Callable[[], None]
    ) -> None:
        self.resident, self.order, self.when_ready = resident, order, when_ready
        self.is_ready = False
        self.is_retired = False  # it serves the open requests, and ends
        self.asked: deque[Script] = deque()  # scripts without a pid, in the order of their requests
        self._received = b""
        ours, theirs = stream.pair()
        unread, printed = os.pipe2(os.O_CLOEXEC)  # not seekable, as a script's output
        try:
            options = StartOptions()
            options.argv, options.environ = [*order.argv, WARM], order.environ
            self.pid = spawn(resident, options, resident.next_number(), (theirs, printed, printed))
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

    def fork(self, script: Script, streams: Streams, tag: str) -> None:
        """Requests a fork with these standard streams; `script.forked(pid)` follows."""
        text = ("%s=%s" % (tree.TAG_VARIABLE, tag)).encode().ljust(REQUEST_BYTES, b"\0")
        self._control.sendmsg(
            [text], [(stream.SOL_SOCKET, stream.SCM_RIGHTS, struct.pack("3i", *streams))]
        )
        self.asked.append(script)

    def retire(self) -> None:
        """Closes the request side: the parent ends after the open requests."""
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
        self._receive()  # its last message
        self.resident.loop.unwatch(self._watch)
        self._writer.drop()
        self._control.close()
        self.resident.scripts.drop_parent(self)
        while self.asked:
            self.asked.popleft().forked(0)


class Scripts:
    """Starts scripts, from a warm interpreter where the caller wants that."""

    def __init__(self, resident: Resident) -> None:
        self.resident = resident
        self.modules: dict[str, bytes] = {}  # by name, most recently used last
        self.parent: Parent | None = None
        self.spare: Script | None = None  # an idle fork for the next script
        self.timer: Timer | None = None
        self.interpreters: dict[
            tuple[Any, ...], str
        ] = {}  # interpreters behind shims, by shim, directory and variables

    def keep(self, name: str, modules: bytes) -> None:
        self.modules[name] = modules
        while len(self.modules) > SCRIPT_MODULES:
            del self.modules[next(iter(self.modules))]

    def find(self, name: str) -> bytes | None:
        if name in self.modules:
            self.modules[name] = self.modules.pop(name)
        return self.modules.get(name)

    def pids(self) -> set[int]:
        """Pids of the parent and of the idle fork."""
        return {one.pid for one in (self.parent, self.spare) if one is not None}

    def launch(
        self, options: StartOptions, order: ScriptOptions, source: int, is_warm: bool
    ) -> Script:
        """Starts a script. Raises OSError if the system refuses a process or descriptor."""
        cwd = options.cwd or "/"
        order.resolve_shim(self.interpreters, cwd)
        job = self._take_spare(order) if is_warm else None
        if job is not None:
            job.adopt(options)
            job.give_script(os.fsencode(cwd), source)
        else:
            job = self._start(options, order)
            job.give_script(b"", source)
        if is_warm:
            started = job
            job.when_ended(lambda: self._prepare_after(started, order))
        return job

    def _start(self, options: StartOptions, order: ScriptOptions) -> Script:
        is_asked = order.shim is not None and order.shim not in self.interpreters
        options.argv = [*order.argv, ASKED] if is_asked else order.argv
        options.environ = dict(order.environ, PWD=options.cwd or "/")
        job = Script(self.resident, options)
        job.order = order if is_asked else None
        job.give(order.modules)
        return job

    def learn_interpreter(self, order: ScriptOptions, path: str) -> None:
        """Remembers the interpreter that a shim has started, to start it directly next time."""
        if (
            order.shim is not None
            and os.path.isabs(path)
            and os.access(path, os.X_OK)
            and not is_shim(path)
        ):
            self.interpreters[order.shim] = path
            while len(self.interpreters) > SHIMS:
                del self.interpreters[next(iter(self.interpreters))]

    # -- the interpreter that forks
    def _take_spare(self, order: ScriptOptions) -> Script | None:
        """The idle fork, or a new one; None without a ready parent."""
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
        options = StartOptions()
        options.separate = True
        job = Script(self.resident, options, parent)
        job.is_spare = True
        return job

    def _refill(self) -> None:
        """Forks an idle interpreter for the next script if none exists and the process quota allows
        it.
        """
        parent = self.parent
        if (
            self.spare is None
            and parent is not None
            and parent.is_ready
            and self.resident.quota.has_headroom()
        ):
            try:
                self.spare = self._fork_spare(parent)
            except OSError:
                pass

    def _prepare_after(self, job: Script, order: ScriptOptions) -> None:
        """Prepares for the next script, unless this one was killed: everything may be ending."""
        if not job.is_ending:
            self.resident.loop.call_soon(lambda: self._prepare(order))

    def _prepare(self, order: ScriptOptions) -> None:
        """Starts a parent if forks can be told apart and the process quota allows it, else refills."""
        resident = self.resident
        if self.parent is not None:
            self._refill()
            return
        if not (
            resident.has_subreaper and resident.process_tags.base and resident.quota.has_headroom()
        ):
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
        """Handles the end of a parent."""
        if self.parent is parent:
            self.end_spare()

    def drop(self, spare: Script) -> None:
        """Handles the end of an unused fork."""
        if self.spare is spare:
            self.spare = None
        spare.discard()


def is_shim(path: str) -> bool:
    """Whether a path is a script that starts the interpreter, as version managers put in front of
    PATH.
    """
    try:
        with open(path, "rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return False


def interpreter(name: str, environ: dict[str, str]) -> str:
    """Path of the named Python on the script's PATH; else the resident's own."""
    found = find_program(name, environ.get("PATH") or os.defpath)
    return found if "/" in found else sys.executable
