"""Output of a running command, handed to the caller as it comes."""

import asyncio
from collections.abc import Callable
from typing import Any

from hermetic.link.calls import Call, Following
from hermetic.link.link import Link


class LiveOutput:
    """Follows the logs of one open `run`; what follows a log gets every byte of it, in order."""

    def __init__(self, link: Link, command: Call[Any]) -> None:
        self.error: Exception | None = None  # what `on_output` raised; the command is then cancelled
        self._link = link
        self._command = command
        self._followings: list[Following] = []
        self._moved = asyncio.Event()

    def follow(self, log: str, on_output: Callable[[bytes], object]) -> None:
        """Starts to follow a log from its first byte."""
        following = Following(log, 0, lambda _, data: self._take(data, on_output))
        self._link.send(following)
        self._followings.append(following)

    async def drain(self, totals: list[int]) -> None:
        """Returns when as many bytes of each log have been handed over."""
        for following, total in zip(self._followings, totals, strict=True):
            self._link.expect(following)
            while following.position < total and not following.future.done():
                self._moved.clear()
                following.future.add_done_callback(self._wake)
                await self._moved.wait()

    def close(self) -> None:
        """Stops following."""
        for following in self._followings:
            if following.future.done():
                following.future.cancelled() or following.future.exception()
            else:
                following.future.cancel()
                self._link.cancel(following)

    def _take(self, data: bytes, on_output: Callable[[bytes], object]) -> None:
        self._moved.set()
        if self.error is not None:
            return
        try:
            on_output(data)
        except Exception as error:  # the caller's own: it travels to the caller of `run`
            self.error = error
            self._link.cancel(self._command)

    def _wake(self, _future: object) -> None:
        self._moved.set()
