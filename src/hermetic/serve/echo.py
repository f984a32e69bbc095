"""Polls instead of sleeping while the echo of a key is expected: a wake-up costs more than a few
polls.
"""

import asyncio
import os
import time

ECHO_SECONDS = 0.0004  # most polling for one key
KEY_BYTES = 16  # longer input is no key
MOST_SKIPPED = 63  # keys without polling, where it does not help


class EchoPolling:
    """Keeps the event loop awake for a moment after a key, and serves all else meanwhile.

    Where echoes come later (a busy machine, a remote environment, a password), few keys are polled
    for: each failure doubles the number of keys without polling.
    """

    def __init__(self) -> None:
        self._can = len(os.sched_getaffinity(0)) > 1  # else it would delay the program that echoes
        self._until: float | None = None  # None: no echo is expected
        self._is_polling = False
        self._skipped = self._left = 0  # keys without polling after the last failure

    def __repr__(self) -> str:
        return f"<EchoPolling: {'awake' if self._is_polling else 'asleep'}>"

    def expect(self, data: bytes) -> None:
        """Input was sent to a terminal."""
        if not self._can or len(data) > KEY_BYTES:
            return
        if self._left:
            self._left -= 1
            return
        self._until = time.monotonic() + ECHO_SECONDS
        if not self._is_polling:
            self._is_polling = True
            self._poll()

    def came(self) -> None:
        """Output of a terminal has come."""
        if self._until is not None:
            self._until, self._skipped = None, 0

    def _poll(self) -> None:
        if self._until is not None and time.monotonic() < self._until:
            os.sched_yield()  # the program that echoes may need this processor
            asyncio.get_running_loop().call_soon(self._poll)
            return
        self._is_polling = False
        if self._until is not None:
            self._until = None
            self._left = self._skipped = min(2 * self._skipped + 1, MOST_SKIPPED)
