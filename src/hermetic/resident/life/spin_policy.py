"""When to look instead of sleeping: being woken costs more than looking, so we stay awake for what is near.

An answer is near when a command has just been handed over; the next command is near when the one before it was.
"""

from __future__ import annotations

import os
import time

from ..limits import SPIN, SPIN_BETWEEN
from ..processes.cgroup import processors

CROWDED_SECONDS = 0.0002  # a processor that is given away for longer is wanted by somebody else


class SpinPolicy:
    def __init__(self) -> None:
        self.until = 0.0
        self._answered = 0.0  # when the last command was
        self._patience = 0.0
        self._yields = False
        self._can = len(os.sched_getaffinity(0)) > 1  # on one processor it would only be in the way
        # Looking uses up a share that is limited, and then all that runs here stands still until there is more of it.
        self._is_free = processors() >= 2

    def __repr__(self) -> str:
        return "<SpinPolicy: patience %g s>" % self._patience

    def expect_answer(self) -> None:
        """A command was handed over."""
        if self._can:
            now = time.monotonic()
            is_near = self._is_free and now - self._answered < SPIN_BETWEEN
            self._patience = SPIN_BETWEEN if is_near else 0.0
            self.until = now + SPIN
            self._yields = False

    def expect_request(self) -> None:
        """A command was answered: its caller may ask again at once. Nobody else waits for a processor meanwhile."""
        self._answered = time.monotonic()
        self.until = self._answered + self._patience if self._patience else 0.0
        self._yields = True

    def keeps_spinning(self) -> bool:
        """Whether to look once more; the one we wait for may have been put on our processor, and is let by."""
        now = time.monotonic()
        if now < self.until:
            os.sched_yield()
            if not self._yields or time.monotonic() - now < CROWDED_SECONDS:
                return True
        self.until = 0.0
        return False
