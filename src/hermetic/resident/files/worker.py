"""Forked workers: children that compute a result while the loop serves others."""

from __future__ import annotations

import os
import struct

from ..life.fast_stdlib import deque, signal
from ..life.process_attributes import fork
from ..limits import WORKER_ANSWER, WORKERS
from ..processes.unnamed import write_all
from ..wire import frames
from ..wire.fields import Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..life.loop import Loop, Timer

    Task = Callable[[], bytes]
    Done = Callable[[bytes], None]
    Failed = Callable[[Refusal], None]

# of an answer, before it: a worker may be killed while it writes
LENGTH = struct.Struct("=Q")


class WorkerPool:
    """Runs work in children, at most WORKERS at a time."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.busy = 0
        self.waiting: deque[Work] = deque()

    def submit(self, task: Task, done: Done, failed: Failed, seconds: float | None = None) -> Work:
        """Queues work.

        Calls `done(answer)` or `failed(refusal)` once, but neither after the work's `stop`.
        """
        work = Work(self, task, done, failed, seconds)
        self.waiting.append(work)
        self.start_next()
        return work

    def start_next(self) -> None:
        while self.waiting and self.busy < WORKERS:
            self.busy += 1
            self.waiting.popleft().start()


class Work:
    """Work of a child: queued, running, or over (done, failed or stopped)."""

    is_over = False
    fd: int | None = None  # the child's answer; None: it has not started
    timer: Timer | None = None
    has_exited = False
    refusal: Refusal | None = None  # for `failed`, once the child is gone

    def __init__(
        self, pool: WorkerPool, task: Task, done: Done, failed: Failed, seconds: float | None
    ) -> None:
        self.pool, self.task, self.done, self.failed, self.seconds = (
            pool,
            task,
            done,
            failed,
            seconds,
        )
        self.answer = bytearray()

    def start(self) -> None:
        try:
            self._fork()
        except OSError as error:  # no process or descriptor available
            self._fail("EnvironmentUnavailable", "the resident cannot fork: %s" % error.strerror)

    def _fork(self) -> None:
        fd, answer = os.pipe2(os.O_CLOEXEC)
        try:
            self.pid = fork()
            if self.pid == 0:
                _child(self.task, answer)
        except OSError:
            os.close(fd)
            raise
        finally:
            os.close(answer)
        try:
            os.setpgid(self.pid, self.pid)  # its own children end with it
        except OSError:  # it has ended
            pass
        os.set_blocking(fd, False)
        self.fd, loop = fd, self.pool.loop
        loop.on_exit(self.pid, self._exited, lambda: True)
        self.watch = loop.watch(fd, self._read)
        if self.seconds is not None:
            self.timer = loop.call_later(self.seconds, self._time_out)

    def stop(self) -> None:
        """Cancels the work, and kills the child."""
        if self.is_over:
            return
        if self.fd is None:
            self.is_over = True
            self.pool.waiting.remove(self)
            return
        self._end()
        # its children outlive it; its own number is free once it was waited for
        for kill in (os.killpg,) if self.has_exited else (os.killpg, os.kill):
            try:
                kill(self.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def _time_out(self) -> None:
        self._fail(
            "TimeoutError", "it took too long; search a smaller directory, or for a rarer pattern"
        )

    def _fail(self, kind: str, message: str) -> None:
        if self.fd is None:
            self._end()
        else:
            self.stop()
        self.failed(Refusal(kind, message))

    def _read(self) -> None:
        assert self.fd is not None, "it has started"
        try:
            data = os.read(self.fd, 1 << 20)
        except BlockingIOError:
            return
        self.answer += data
        if len(self.answer) > WORKER_ANSWER:
            self._fail("EnvironmentUnavailable", "the answer of a worker is too long")
        elif not data and not self._is_whole():
            self.refusal = Refusal(
                "EnvironmentUnavailable",
                "a worker of the resident was ended before it had answered",
            )
            self.stop()
            if self.has_exited:
                self._tell()
        elif not data:
            self._end()
            kind, answer = self.answer[LENGTH.size :][:1], bytes(self.answer[LENGTH.size + 1 :])
            if kind == b"=":
                self.done(answer)
            else:
                refused, message, fields = frames.unpack(answer)
                self.failed(Refusal(refused, message, **fields))

    def _is_whole(self) -> bool:
        size = len(self.answer) - LENGTH.size
        return size > 0 and LENGTH.unpack_from(self.answer) == (size,)

    def _exited(self, status: int) -> None:
        self.has_exited = True
        self._tell()

    def _tell(self) -> None:
        """Reports a child that ended too early: what it held is free now."""
        refusal, self.refusal = self.refusal, None
        if refusal is not None:
            self.failed(refusal)

    def _end(self) -> None:
        self.is_over = True
        if self.fd is not None:
            self.pool.loop.unwatch(self.watch)
            os.close(self.fd)
        if self.timer is not None:
            self.timer.cancel()
        self.pool.busy -= 1
        self.pool.loop.call_soon(self.pool.start_next)


def _child(task: Task, fd: int) -> None:
    """Performs the work in the child. Never returns."""
    try:
        signal.set_wakeup_fd(-1)  # the parent's
        os.setpgid(0, 0)
        for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        try:
            answer = b"=" + task()
        except Refusal as error:
            answer = b"!" + frames.pack([error.kind, error.message, error.fields])
        write_all(fd, LENGTH.pack(len(answer)) + answer)
    finally:
        os._exit(0)
