"""Signs of life of a call that waits, for the thread that made it."""

import contextlib
import threading
import time
from collections.abc import Callable

INTERVAL = 10.0  # seconds

_local = threading.local()


def set_activity_callback(callback: Callable[[str], object] | None) -> None:
    """Sets who gets signs of life of this thread's calls, every 10 s."""
    _local.callback = callback


class Beat:
    """Reports that a call still runs. Call it often, on the thread of the call."""

    def __init__(self, label: str = "terminal command running") -> None:
        self._label = label
        self._start = self._last = time.monotonic()

    def __call__(self) -> None:
        """Calls the thread's callback, if it is time to. Its exceptions are dropped."""
        callback, now = getattr(_local, "callback", None), time.monotonic()
        if callback is None or now - self._last < INTERVAL:
            return
        self._last = now
        with contextlib.suppress(Exception):
            callback(f"{self._label} ({int(now - self._start)}s elapsed)")
