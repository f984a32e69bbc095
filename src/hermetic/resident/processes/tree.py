"""Process trees: who descends from whom, and how to end a whole tree.

A process can leave its group, its session, its parent and its environment, but not the tree of a
subreaper: an orphan becomes the resident's child. Its tag, or the output that it holds open, shows
which job it came from.
"""

from __future__ import annotations

import errno
import os

from ..life.fast_stdlib import signal
from ..limits import KILL, KILL_CHECK, TERM_AGAIN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from ..life.loop import Loop

TAG_VARIABLE = "HERMETIC_COMMAND"  # environment variable: RESIDENT_ID.NUMBER
PIECE_BYTES = 65536
CAUGHT_SIGNALS = 31  # a field of /proc/PID/stat


ONE_THREAD = 3  # links of /proc/PID/task with one thread in it
# Errors of ours, which say nothing about the process.
CANNOT_LOOK = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def children(pid: int) -> list[int]:
    """Direct children, zombies included. A child belongs to the thread that forked it.

    Raises OSError if no descriptor is available; so do all functions below that read /proc.
    """
    found: list[int] = []
    tasks = "/proc/%d/task" % pid
    try:
        is_single = os.stat(tasks).st_nlink == ONE_THREAD
        for thread in [str(pid)] if is_single else os.listdir(tasks):
            found += map(int, _read("%s/%s/children" % (tasks, thread)).split())
    except FileNotFoundError:
        return found if not os.path.isdir("/proc/%d" % pid) else found + _children_by_scan(pid)
    except OSError as error:
        if error.errno in CANNOT_LOOK:
            raise
    return found


def _read(path: str) -> bytes:
    """All of a file of /proc.

    Files of Python ask the kernel three things more of each, and many are read.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        pieces = [os.read(fd, PIECE_BYTES)]
        while pieces[-1]:
            pieces.append(os.read(fd, PIECE_BYTES))
    finally:
        os.close(fd)
    return b"".join(pieces)


def _children_by_scan(pid: int) -> list[int]:
    """The same by one pass over /proc, for a kernel without `children` files."""
    if os.path.exists("/proc/self/task/%d/children" % os.getpid()):
        return []
    return [
        int(name)
        for name in os.listdir("/proc")
        if name.isdigit() and stat_fields(int(name))[1:2] == [str(pid)]
    ]


def stat_fields(pid: int) -> list[str]:
    """Fields of /proc/PID/stat from the third on (state, parent, …); [] if there is no such
    process.
    """
    try:
        return _read("/proc/%d/stat" % pid).rpartition(b")")[2].decode("ascii").split()
    except OSError as error:
        if error.errno in CANNOT_LOOK:
            raise
        return []


def is_gone(pid: int) -> bool:
    """Whether a process is dead, reaped or not."""
    fields = stat_fields(pid)
    return not fields or fields[0] in ("Z", "X")


def is_reaped(pid: int) -> bool:
    """Whether a process is dead and reaped."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False


def descendants(roots: Iterable[int], stop: Collection[int] = frozenset()) -> list[int]:
    """The live roots and their descendants, parents first, without `stop` and its descendants."""
    found, todo = [], list(roots)
    seen = set(stop)
    while todo:
        pid = todo.pop(0)
        if pid in seen:
            continue
        seen.add(pid)
        todo += children(pid)
        if not is_gone(pid):
            found.append(pid)
    return found


def tag_of(pid: int) -> str | None:
    """The tag in the environment that a process was started with, or None."""
    try:
        environ = b"\0" + _read("/proc/%d/environ" % pid)
    except OSError:
        return None
    key = b"\0" + TAG_VARIABLE.encode() + b"="
    _, found, rest = environ.rpartition(key)
    return rest.partition(b"\0")[0].decode("ascii", "replace") if found else None


def tagged(tags: Collection[str]) -> list[int]:
    """Every process on this machine that carries one of the tags. Used without a subreaper."""
    return [
        pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if tag_of(pid) in tags
    ]


def holds_open(pid: int, inodes: Collection[int | None]) -> bool:
    """Whether stdin, stdout or stderr of the process is one of these pipes or terminals."""
    for number in (0, 1, 2):
        try:
            if os.stat("/proc/%d/fd/%d" % (pid, number)).st_ino in inodes:
                return True
        except OSError:
            pass
    return False


def send(pids: Iterable[int], number: int) -> list[int]:
    """Signals each process. Returns those that belong to another user and refused the signal."""
    refused = []
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass
        except PermissionError:
            refused.append(pid)
    return refused


def catches_term(pid: int) -> bool:
    """Whether a process has a handler for TERM."""
    fields = stat_fields(pid)
    return bool(fields) and bool(int(fields[CAUGHT_SIGNALS]) >> (signal.SIGTERM - 1) & 1)


class Sweep:
    """Ends a tree: TERM, after `grace` STOP and KILL until no new process appears; then calls
    `done(survivors)`.

    TERM goes once to the current tree. Later processes may work for a TERM handler and get only the
    KILL; if no process of the tree has such a handler, they get TERM as well. `members()` returns
    the current processes of the tree, parents first. Nothing here blocks: ends of children wake the
    loop. Survivors are processes of another user, or stuck in the kernel for longer than KILL.
    """

    def __init__(
        self,
        loop: Loop,
        members: Callable[[], list[int]],
        grace: float,
        done: Callable[[list[int]], None],
    ) -> None:
        self.loop, self.members = loop, members
        self.done: Callable[[list[int]], None] | None = done
        self.awaited: set[int] = set()  # signalled, not known to be gone
        self.refused: set[int] = set()
        self.killing = False
        self.catches = False  # a process of the tree has a handler for TERM
        self.turns = 0
        loop.reaped_listeners.add(self._reaped)
        self.timer = loop.call_later(grace, self._freeze)
        if grace > 0:
            try:
                first = self._reachable()
                self.catches = any(map(catches_term, first))
            except OSError:  # no descriptor available: the KILL follows anyway
                first = []
            self._ask(first)
            loop.call_soon(self._look)
            loop.call_later(TERM_AGAIN, self._ask_again)

    def _ask(self, pids: list[int]) -> None:
        self.refused.update(send(pids, signal.SIGTERM))
        send(pids, signal.SIGCONT)  # a stopped process handles TERM only after CONT
        self.awaited.update(pids)

    def _ask_again(self) -> None:
        """Repeats TERM if no process handles it: a TERM between a shell's fork and its child's exec
        is lost.
        """
        if self.done is not None and not self.killing and not self.catches:
            try:
                self._ask(self._reachable())
            except OSError:
                return
            self._look()

    def _reachable(self) -> list[int]:
        # One empty answer may be a race: the kernel's list can miss a process while others end.
        return [pid for pid in self.members() or self.members() if pid not in self.refused]

    def _reaped(self, pids: list[int]) -> None:
        self.awaited.difference_update(pids)
        self._look()

    def _look(self) -> None:
        """Checks for the end.

        Cheap while a signalled process lives; walks the tree only after that.
        """
        if self.done is None:
            return
        try:
            while self.awaited:
                pid = next(iter(self.awaited))
                if pid not in self.refused and not is_gone(pid):
                    return
                self.awaited.discard(pid)
            left = self._reachable()
        except OSError:  # the timer retries
            return
        if not left:
            self._finish()
        elif self.killing:
            self._freeze()
        elif self.catches:
            self.awaited.update(left)
        else:
            self._ask(left)  # they appeared after the first look

    def _freeze(self, frozen: frozenset[int] = frozenset()) -> None:
        """One pass: stop new processes, so that none can fork unseen; without new ones, kill."""
        if self.done is None:
            return
        self.killing = True
        self.timer.cancel()
        try:
            new = [pid for pid in self._reachable() if pid not in frozen]
        except OSError:
            self.timer = self.loop.call_later(KILL_CHECK, lambda: self._freeze(frozen))
            return
        if new:
            self.refused.update(send(new, signal.SIGSTOP))
            self.timer = self.loop.call_later(0, lambda: self._freeze(frozen.union(new)))
            return
        if not frozen:
            self._finish()
            return
        send(frozen, signal.SIGKILL)
        self.awaited.update(frozen)
        self.timer = self.loop.call_later(KILL_CHECK, self._settle)

    def _settle(self) -> None:
        """No event came for a while: another process may have reaped them, or the kernel holds one."""
        self.turns += 1
        if self.turns * KILL_CHECK >= KILL:
            self._finish()
            return
        self.timer = self.loop.call_later(KILL_CHECK, self._settle)
        self._look()

    def _finish(self) -> None:
        done, self.done = self.done, None
        assert done is not None, "a sweep ends once"
        self.loop.reaped_listeners.discard(self._reaped)
        self.timer.cancel()
        try:
            survivors = (
                [pid for pid in self.members() if not is_gone(pid)]
                if self.refused or self.turns
                else []
            )
        except OSError:
            survivors = []
        done(survivors)
