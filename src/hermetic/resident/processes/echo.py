"""Polls for the echo of a key instead of sleeping: a wake-up costs more than a few polls."""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..life.loop import Loop
    from .job import Drain

ECHO_SECONDS = 0.0004  # most polling for one key
KEY_BYTES = 16  # longer input is no key
MOST_SKIPPED = 63  # keys without polling, where it does not help


class EchoPolling:
    """Reads the echo of a key as soon as a terminal has it, unless the loop has other work.

    Where echoes come later (a busy machine, a password), few keys are polled for: each failure
    doubles the number of keys without polling.
    """

    def __init__(self, loop: Loop, drain: Drain) -> None:
        self._loop, self._drain = loop, drain
        self._can = len(os.sched_getaffinity(0)) > 1  # else it would delay the program that echoes
        self._skipped = self._left = 0  # keys without polling after the last failure

    def expect(self, data: bytes) -> None:
        """Input was typed. Returns once its echo was read, or the loop has work."""
        drain = self._drain
        if len(data) > KEY_BYTES or not self._can or drain.watch is None or self._loop.soon:
            return
        if self._left:
            self._left -= 1
            return
        poll, until = self._loop.epoll.poll, time.monotonic() + ECHO_SECONDS
        while True:
            os.sched_yield()  # the program that echoes may need this processor
            if ready := poll(0):
                break
            if time.monotonic() > until:
                self._left = self._skipped = min(2 * self._skipped + 1, MOST_SKIPPED)
                return
        for fd, _ in ready:
            if fd == drain.fd:
                self._skipped = 0
                drain.read(1)
