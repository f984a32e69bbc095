"""Rate limits: token buckets by key, in bounded memory."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable

MOST_KEYS = 4096


class Rate:
    """At most `burst` events at once for a key, and `per_second` in the long run."""

    def __init__(
        self, burst: float, per_second: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._burst = burst
        self._per_second = per_second
        self._clock = clock
        # key: events that are left, at this time
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def __repr__(self) -> str:
        return f"<Rate {self._burst:g} at once, {self._per_second:g} per second: {len(self._levels)} keys>"

    def take(self, key: str, cost: float = 1.0) -> float:
        """Counts an event; returns 0, or the seconds to wait when there were too many, and then
        counts nothing.
        """
        left, now = self.left(key), self._clock()
        if left < cost:
            return (cost - left) / self._per_second if self._per_second else math.inf
        self._levels[key] = (left - cost, now)
        self._levels.move_to_end(key)
        while len(self._levels) > MOST_KEYS:
            self._levels.popitem(last=False)
        return 0.0

    def left(self, key: str) -> float:
        """Events that the key may have now."""
        left, at = self._levels.get(key, (self._burst, 0.0))
        return (
            min(self._burst, left + (self._clock() - at) * self._per_second)
            if key in self._levels
            else left
        )
