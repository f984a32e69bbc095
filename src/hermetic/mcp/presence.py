"""The clients of one server, and which of them are there: one that leaves without a word is closed
after its lease.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager

from hermetic.contract.concurrency import shielded
from hermetic.mcp.client import Client

MOST = 512  # clients at once

_log = logging.getLogger("hermetic.mcp")


class TooMany(Exception):
    """The server has as many clients as it takes."""


class Clients:
    """Clients by key.

    With a lease, one that sends nothing for so many seconds, and has nothing open, is closed.
    """

    def __init__(self, lease: float | None) -> None:
        self._lease = lease
        self._clients: dict[Hashable, Client] = {}
        self._requests: Counter[Hashable] = Counter()  # that are being served
        self._timers: dict[Hashable, asyncio.TimerHandle] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"<Clients: {len(self._clients)}>"

    def get(self, key: Hashable, make: Callable[[], Client]) -> Client:
        """The client with this key, made if there is none. Raises TooMany."""
        if key not in self._clients:
            if len(self._clients) >= MOST:
                raise TooMany(f"{MOST} clients are connected; try again later")
            self._clients[key] = make()
            self._watch(key)
        return self._clients[key]

    @contextmanager
    def present(self, key: Hashable) -> Iterator[None]:
        """The client is there for the length of the block; its lease runs from the end of the last
        one.
        """
        self._requests[key] += 1
        self._watch(key)
        try:
            yield
        finally:
            self._requests[key] -= 1
            if not self._requests[key]:
                del self._requests[key]
            self._watch(key)

    async def leave(self, key: Hashable) -> None:
        """Closes a client that has said good-bye."""
        client = self._clients.pop(key, None)
        self._watch(key)
        if client is not None:
            await shielded(client.close())

    async def close(self) -> None:
        """Closes all of them."""
        for timer in self._timers.values():
            timer.cancel()
        clients, self._clients = list(self._clients.values()), {}
        # shielded: an impatient parent sends a second signal
        closing = (shielded(client.close()) for client in clients)
        await asyncio.gather(*closing, *self._closing)

    def _watch(self, key: Hashable) -> None:
        """Starts the lease of a client that has no request, and stops it for one that has."""
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()
        if self._lease is not None and key in self._clients and not self._requests[key]:
            self._timers[key] = asyncio.get_running_loop().call_later(
                self._lease, self._expire, key
            )

    def _expire(self, key: Hashable) -> None:
        if self._clients[key].calls.is_waiting:  # its user has a question open
            self._watch(key)
            return
        _log.info("a client has sent nothing for %g s: its environments end", self._lease or 0)
        task = asyncio.create_task(self.leave(key))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
