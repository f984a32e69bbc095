"""Keep-alive of a connection that a program or a service carries, which may not notice a lost peer.

The link pings now and then, and each ping says after how many seconds without another one the
resident is to close the connection. So the resident notices a caller that is gone, and the link a
resident that does not answer.
"""

import asyncio
from typing import Protocol

PINGS = 4  # within the time of silence


class Pinged(Protocol):
    """The part of a link that is used here."""

    received: int

    def mention(self, op: str, **fields: object) -> None:
        """Sends a request without waiting for its answer."""

    def drop(self, reason: str) -> None:
        """Gives up the connection; another one is made."""


class KeepAlive:
    """Pings of one link.

    `drops`: the connection is given up after `silence` seconds without a frame.
    """

    def __init__(self, link: Pinged, silence: float, *, drops: bool) -> None:
        self._link, self._silence, self._drops = link, silence, drops
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """A new connection is about to be used."""
        self.end()
        # Ticks are counted, not seconds: a loop that was held up itself has frames that it has not
        # read yet.
        self._unheard, self._seen = 0, self._link.received
        self._timer = asyncio.get_running_loop().call_later(0, self._ping)

    def end(self) -> None:
        """No further ping is sent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ping(self) -> None:
        self._timer = None
        received, seen = self._link.received, self._seen
        self._unheard = 0 if received != seen else self._unheard + 1
        self._seen = received
        if self._drops and self._unheard > PINGS:
            self._link.drop(f"nothing was heard for {self._silence:g} s")
            return
        self._link.mention("ping", silence=self._silence)
        self._timer = asyncio.get_running_loop().call_later(self._silence / PINGS, self._ping)
