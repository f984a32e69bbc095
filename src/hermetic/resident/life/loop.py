"""One thread, one epoll: descriptors, timers and the ends of children, each bound to a callback."""

from __future__ import annotations

import heapq
import os
import select
import time

from ..limits import READ_BUFFER, SPIN
from .fast_stdlib import deque, signal
from .spin_policy import SpinPolicy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

READ, WRITE = select.EPOLLIN, select.EPOLLOUT


class Watch:
    """A descriptor we listen to. Readiness belongs to this object and not to the number, which may be used again."""

    __slots__ = ("active", "callback", "events", "fd")

    def __init__(self, fd: int, callback: Callable[[], None], events: int) -> None:
        self.fd, self.callback, self.events, self.active = fd, callback, events, True


class Waiters:
    """Callbacks that are called once, when what they wait for has come: by the loop, never in the midst of a change."""

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


class Loop:
    """Runs callbacks until `stop`. An exception in one callback goes to `on_error` and touches no other."""

    def __init__(self, on_error: Callable[[], None]) -> None:
        self.epoll = select.epoll()
        self.watches: dict[int, Watch] = {}  # by descriptor
        self.on_error = on_error
        self.buffer = memoryview(bytearray(READ_BUFFER))  # what one read takes in; used again by the next
        self.timers: list[Timer] = []
        self._most_timers = 256
        self.soon: deque[Callable[[], None]] = deque()
        self.before_sleep: dict[Callable[[], None], None] = {}
        self._sleep_due = 0.0
        # pid: callback(wait status) of every child somebody asked about
        self.children: dict[int, Callable[[int], None]] = {}
        # called with the pids of children that ended, known or not
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
        """Change what a watch listens for."""
        if watch.active and watch.events != events:
            watch.events = events
            self.epoll.modify(watch.fd, events)

    # -- time
    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        timer = Timer(time.monotonic() + seconds, callback)
        heapq.heappush(self.timers, timer)
        if len(self.timers) > self._most_timers:
            # Nearly all are limits of commands that ended long before them.
            self.timers = [timer for timer in self.timers if timer.callback is not None]
            heapq.heapify(self.timers)
            self._most_timers = 256 + 2 * len(self.timers)
        return timer

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def call_before_sleep(self, callback: Callable[[], None]) -> None:
        """Call it when nothing is left to do and the answer we stay awake for has not come; soon in any case."""
        if not self.before_sleep:
            self._sleep_due = time.monotonic() + SPIN
        self.before_sleep[callback] = None

    def forget_before_sleep(self, callback: Callable[[], None]) -> None:
        self.before_sleep.pop(callback, None)

    # -- children
    def on_exit(self, pid: int, callback: Callable[[int], None]) -> None:
        """Call `callback(status)` once when the child ends.

        Ask before the next turn of the loop, or it may be reaped unseen.
        """
        self.children[pid] = callback

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
        """Collect every child that has ended. Nobody else waits, so a pid in our tables never names a stranger."""
        found = []
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            found.append(pid)
            callback = self.children.pop(pid, None)
            if callback is not None:
                self.call(callback, status)
        if found:
            for listener in list(self.reaped_listeners):
                self.call(listener, found)

    # -- running
    def run(self) -> None:
        self.running = True
        while self.running:
            # While an answer is near, most turns find nothing: what they do is paid for by every command.
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
            heapq.heappop(self.timers)
        return max(0.0, self.timers[0].when - time.monotonic()) if self.timers else None

    def _call_ready(self, ready: list[tuple[int, int]]) -> None:
        # Taken together before any is called: a callback may close one of them and open another under its number.
        for watch in [self.watches[fd] for fd, _ in ready]:
            if watch.active:
                self.call(watch.callback)

    def _run_timers(self) -> None:
        now = time.monotonic()
        while self.timers and self.timers[0].when <= now:
            callback = heapq.heappop(self.timers).callback
            if callback is not None:
                self.call(callback)

    def call(self, callback: Callable[..., None], *arguments: object) -> None:
        try:
            callback(*arguments)
        except Exception:  # the outermost loop: one broken request must not end everybody's processes
            self.on_error()
