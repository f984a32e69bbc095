"""Event loop: one thread and one epoll for descriptors, timers and ends of children."""

from __future__ import annotations

import os
import select
import time

from ..limits import READ_BUFFER, SPIN, SPIN_BETWEEN
from ..processes.cgroup import processors
from .fast_stdlib import deque, heapify, heappop, heappush, signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

READ, WRITE = select.EPOLLIN, select.EPOLLOUT
CROWDED_SECONDS = 0.0002  # a yield that takes longer means that another process needs the processor


class Watch:
    """A watched descriptor.

    Readiness belongs to this object, not to the number, which may be reused.
    """

    __slots__ = ("active", "callback", "events", "fd")

    def __init__(self, fd: int, callback: Callable[[], None], events: int) -> None:
        self.fd, self.callback, self.events, self.active = fd, callback, events, True


class Waiters:
    """Callbacks for one event. The loop calls each once, never in the middle of a change."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.callbacks: list[Callable[[], None]] = []

    def add(self, callback: Callable[[], None]) -> None:
        self.callbacks.append(callback)

    def notify(self) -> None:
        callbacks, self.callbacks = self.callbacks, []
        for callback in callbacks:
            self.loop.call_soon(callback)


class Timer:
    __slots__ = ("callback", "when")

    def __init__(self, when: float, callback: Callable[[], None]) -> None:
        self.when = when
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None

    def __lt__(self, other: Timer) -> bool:
        return self.when < other.when


class SpinPolicy:
    """Busy-polls briefly instead of sleeping: a wake-up costs more than a poll.

    After a command was sent, its report is expected soon. After a quick request, the next one is
    expected soon.
    """

    def __init__(self) -> None:
        self.until = 0.0
        self._answered = 0.0  # time of the last answer
        self._patience = 0.0
        self._yields = False
        # with one processor, spinning would delay the command itself
        self._can = len(os.sched_getaffinity(0)) > 1
        # Spinning uses up a limited CPU quota, and then everything here is throttled.
        self._is_free = processors() >= 2

    def __repr__(self) -> str:
        return "<SpinPolicy: patience %g s>" % self._patience

    def expect_answer(self) -> None:
        """A command was sent."""
        if self._can:
            now = time.monotonic()
            is_near = self._is_free and now - self._answered < SPIN_BETWEEN
            self._patience = SPIN_BETWEEN if is_near else 0.0
            self.until = now + SPIN
            self._yields = False

    def expect_request(self) -> None:
        """A command was answered: its caller may send the next one at once.

        Spins only while no other process needs the processor.
        """
        self._answered = time.monotonic()
        self.until = self._answered + self._patience if self._patience else 0.0
        self._yields = True

    def keeps_spinning(self) -> bool:
        """Whether to poll once more. Yields first: the awaited process may be on our processor."""
        now = time.monotonic()
        if now < self.until:
            os.sched_yield()
            if not self._yields or time.monotonic() - now < CROWDED_SECONDS:
                return True
        self.until = 0.0
        return False


class Loop:
    """Runs callbacks until `stop`.

    An exception in one callback goes to `on_error` and affects no other.
    """

    def __init__(self, on_error: Callable[[], None]) -> None:
        self.epoll = select.epoll()
        self.watches: dict[int, Watch] = {}  # by descriptor
        self.on_error = on_error
        # what one read takes in; used again by the next
        self.buffer = memoryview(bytearray(READ_BUFFER))
        self.timers: list[Timer] = []
        self._most_timers = 256
        self.soon: deque[Callable[[], None]] = deque()
        self.before_sleep: dict[Callable[[], None], None] = {}
        self._sleep_due = 0.0
        # pid: callback(wait status) of registered children
        self.children: dict[int, Callable[[int], None]] = {}
        # pid: whether a child that was stopped is to go on
        self.continued: dict[int, Callable[[], bool]] = {}
        # pid of an unregistered child that was stopped: whether it is to go on
        self.may_continue: Callable[[int], bool] = lambda pid: False
        # called with the pids of all children that ended
        self.reaped_listeners: set[Callable[[list[int]], None]] = set()
        self.running = False
        self.spin_policy = SpinPolicy()
        self._catch_child_signals()

    # -- descriptors
    def watch(self, fd: int, callback: Callable[[], None], events: int = READ) -> Watch:
        watch = Watch(fd, callback, events)
        self.epoll.register(fd, events)
        self.watches[fd] = watch
        return watch

    def unwatch(self, watch: Watch) -> None:
        if watch.active:
            watch.active = False
            del self.watches[watch.fd]
            self.epoll.unregister(watch.fd)

    def want(self, watch: Watch, events: int) -> None:
        """Changes the events of a watch."""
        if watch.active and watch.events != events:
            watch.events = events
            self.epoll.modify(watch.fd, events)

    # -- time
    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        timer = Timer(time.monotonic() + seconds, callback)
        heappush(self.timers, timer)
        if len(self.timers) > self._most_timers:
            # Nearly all are time limits of commands that ended long ago.
            self.timers = [timer for timer in self.timers if timer.callback is not None]
            heapify(self.timers)
            self._most_timers = 256 + 2 * len(self.timers)
        return timer

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def call_before_sleep(self, callback: Callable[[], None]) -> None:
        """Calls back when the loop is idle and the expected answer has not come, or after
        AWAKE_SECONDS.
        """
        if not self.before_sleep:
            self._sleep_due = time.monotonic() + SPIN
        self.before_sleep[callback] = None

    def forget_before_sleep(self, callback: Callable[[], None]) -> None:
        self.before_sleep.pop(callback, None)

    # -- children
    def on_exit(
        self,
        pid: int,
        callback: Callable[[int], None],
        continued: Callable[[], bool] | None = None,
    ) -> None:
        """Calls `callback(status)` once when the child ends.

        Register before the next turn of the loop, or the child may be reaped unseen. A child that
        something stops goes on if `continued()` says so.
        """
        self.children[pid] = callback
        if continued is not None:
            self.continued[pid] = continued

    def _catch_child_signals(self) -> None:
        self._wake, wake_in = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake_in, warn_on_full_buffer=False)
        self.watch(self._wake, self._woken)

    def _woken(self) -> None:
        try:
            os.read(self._wake, 4096)
        except BlockingIOError:
            pass
        self.reap()

    def reap(self) -> None:
        """Reaps every child that has ended.

        Only the loop waits, so a registered pid never names another process.
        """
        found = []
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                break
            if pid == 0:
                break
            if os.WIFSTOPPED(status):
                goes_on = self.continued.get(pid)
                if goes_on() if goes_on is not None else self.may_continue(pid):
                    os.kill(pid, signal.SIGCONT)
                continue
            found.append(pid)
            callback = self.children.pop(pid, None)
            self.continued.pop(pid, None)
            if callback is not None:
                self.call(callback, status)
        if found:
            for listener in list(self.reaped_listeners):
                self.call(listener, found)

    # -- running
    def run(self) -> None:
        self.running = True
        while self.running:
            # While the loop spins, most turns find nothing, and every command pays for them.
            if ready := self.epoll.poll(self._pause()):
                self._call_ready(ready)
            if self.timers and self.timers[0].when <= time.monotonic():
                self._run_timers()
            for _ in range(len(self.soon)):
                self.call(self.soon.popleft())

    def stop(self) -> None:
        self.running = False

    def _pause(self) -> float | None:
        if self.soon:
            return 0
        is_awake = self.spin_policy.until > 0 and self.spin_policy.keeps_spinning()
        if self.before_sleep and (not is_awake or time.monotonic() >= self._sleep_due):
            self.soon.extend(self.before_sleep)
            self.before_sleep.clear()
        if is_awake or self.soon:
            return 0
        while self.timers and self.timers[0].callback is None:
            heappop(self.timers)
        return max(0.0, self.timers[0].when - time.monotonic()) if self.timers else None

    def _call_ready(self, ready: list[tuple[int, int]]) -> None:
        # Collected before any is called: a callback may close one of them and open another with its
        # number.
        for watch in [self.watches[fd] for fd, _ in ready]:
            if watch.active:
                self.call(watch.callback)

    def _run_timers(self) -> None:
        now = time.monotonic()
        while self.timers and self.timers[0].when <= now:
            callback = heappop(self.timers).callback
            if callback is not None:
                self.call(callback)

    def call(self, callback: Callable[..., None], *arguments: object) -> None:
        try:
            callback(*arguments)
        except Exception:  # outermost handler: one failing request must not end all processes
            self.on_error()
