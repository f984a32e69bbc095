"""Forked workers: children that compute a result while the loop serves others."""

from __future__ import annotations

import os

from ..life.fast_stdlib import deque, signal
from ..limits import WORKER_ANSWER, WORKERS
from ..wire import frames
from ..wire.fields import Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..life.loop import Loop


class WorkerPool:
    """Runs work in children, at most AT_ONCE at a time."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.busy = 0
        self.waiting: deque[WorkItem] = deque()

    def submit(
        self,
        work: Callable[[], bytes],
        done: Callable[[bytes], None],
        failed: Callable[[Refusal], None],
        seconds: float | None = None,
    ) -> WorkItem:
        """Queues work. Calls `done(answer)` or `failed(refusal)` once, but neither after the item's `stop`."""
        item = WorkItem(self, work, done, failed, seconds)
        self.waiting.append(item)
        self.start_next()
        return item

    def start_next(self) -> None:
        while self.waiting and self.busy < WORKERS:
            self.busy += 1
            self.waiting.popleft().start()


class WorkItem:
    """Queued or running work. `over`: done, failed or stopped."""

    def __init__(
        self,
        pool: WorkerPool,
        work: Callable[[], bytes],
        done: Callable[[bytes], None],
        failed: Callable[[Refusal], None],
        seconds: float | None,
    ) -> None:
        self.workers, self.work, self.done, self.failed, self.seconds = pool, work, done, failed, seconds
        self.worker: Worker | None = None
        self.over = False

    def start(self) -> None:
        def done(answer: bytes) -> None:
            self._release()
            self.done(answer)

        def failed(refusal: Refusal) -> None:
            self._release()
            self.failed(refusal)

        try:
            self.worker = Worker(self.workers.loop, self.work, done, failed, self.seconds)
        except OSError as error:  # no process available
            failed(Refusal("EnvironmentUnavailable", "the resident cannot fork: %s" % error.strerror))

    def stop(self) -> None:
        """Cancels the work."""
        if self.over:
            return
        if self.worker is None:
            self.over = True
            self.workers.waiting.remove(self)
        else:
            self.worker.stop()
            self._release()

    def _release(self) -> None:
        self.over = True
        self.workers.busy -= 1
        self.workers.loop.call_soon(self.workers.start_next)


class Worker:
    """A child that its constructor starts. Calls `done(answer)` or `failed(refusal)` once, but neither after `stop`."""

    def __init__(
        self,
        loop: Loop,
        work: Callable[[], bytes],
        done: Callable[[bytes], None],
        failed: Callable[[Refusal], None],
        seconds: float | None = None,
    ) -> None:
        self.loop, self.done, self.failed = loop, done, failed
        self.parts: list[bytes] = []
        self.size = 0
        self.over = False
        self.fd, answer = os.pipe2(os.O_CLOEXEC)
        self.pid = os.fork()
        if self.pid == 0:
            _child(work, answer)
        try:
            os.setpgid(self.pid, self.pid)  # its own children end with it
        except OSError:  # it has ended
            pass
        os.close(answer)
        os.set_blocking(self.fd, False)
        loop.on_exit(self.pid, lambda _: None)
        self.watch = loop.watch(self.fd, self._read)
        self.timer = None if seconds is None else loop.call_later(seconds, self._too_late)

    def stop(self) -> None:
        """Kills the child."""
        if not self.over:
            self._end()
            for end in (os.killpg, os.kill):
                try:
                    end(self.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass

    def _too_late(self) -> None:
        if not self.over:
            self.stop()
            self.failed(Refusal("TimeoutError", "it took too long; search a smaller directory, or for a rarer pattern"))

    def _read(self) -> None:
        try:
            data = os.read(self.fd, 1 << 20)
        except BlockingIOError:
            return
        self.parts.append(data)
        self.size += len(data)
        if self.size > WORKER_ANSWER:
            self.stop()
            self.failed(Refusal("EnvironmentUnavailable", "the answer of a worker is too long"))
        elif not data:
            self._end()
            self._deliver(b"".join(self.parts))

    def _deliver(self, answer: bytes) -> None:
        kind, rest = answer[:1], answer[1:]
        if kind == b"=":
            self.done(rest)
        elif kind == b"!":
            result = frames.unpack(rest)
            self.failed(Refusal(result["kind"], result["message"], **result["fields"]))
        else:
            self.failed(Refusal("EnvironmentUnavailable", "a worker of the resident was ended before it had answered"))

    def _end(self) -> None:
        self.over = True
        if self.timer is not None:
            self.timer.cancel()
        self.loop.unwatch(self.watch)
        os.close(self.fd)


def _child(work: Callable[[], bytes], fd: int) -> None:
    """Runs the work in the child. Never returns."""
    try:
        signal.set_wakeup_fd(-1)  # the parent's
        os.setpgid(0, 0)
        for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        try:
            answer = b"=" + work()
        except Refusal as error:
            answer = b"!" + frames.pack({"kind": error.kind, "message": error.message, "fields": error.fields})
        view = memoryview(answer)
        while view:
            view = view[os.write(fd, view) :]
    finally:
        os._exit(0)
