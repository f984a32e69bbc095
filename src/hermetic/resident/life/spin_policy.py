"""Busy-polls briefly instead of sleeping: a wake-up costs more than a poll.

After a command was sent, its report is expected soon. After a quick request, the next one is expected soon.
"""

from __future__ import annotations

import os
import time

from ..limits import SPIN, SPIN_BETWEEN
from ..processes.cgroup import processors

CROWDED_SECONDS = 0.0002  # a yield that takes longer means that another process needs the processor


class SpinPolicy:
    def __init__(self) -> None:
        self.until = 0.0
        self._answered = 0.0  # time of the last answer
        self._patience = 0.0
        self._yields = False
        self._can = len(os.sched_getaffinity(0)) > 1  # with one processor, spinning would delay the command itself
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
