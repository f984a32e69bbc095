"""Output of a running command, handed to the caller as it comes."""

import asyncio
from collections.abc import Callable
from functools import partial

from hermetic.link import answers
from hermetic.link.calls import Call, Following
from hermetic.link.link import Link

Takers = tuple[Callable[[bytes], object], Callable[[bytes], object]]  # of stdout and stderr as they come


class LiveOutput:
    """Follows the logs of one open `run` from their first byte, each to its taker."""

    def __init__(self, link: Link, command: Call[answers.Ran], takers: Takers) -> None:
        self.error: Exception | None = None  # what a taker raised; the command is then cancelled
        self._link = link
        self._command = command
        self._moved = asyncio.Event()
        log, logs = str(command.fields["id"]), 2 if command.fields.get("separate") else 1
        self._followings = [
            Following(name, 0, partial(self._take, take))
            for name, take in zip((log, f"{log}/err")[:logs], takers, strict=False)
        ]
        for following in self._followings:
            link.send(following)

    async def drain(self, said: answers.Ran) -> None:
        """Returns when all output of the command has been handed over."""
        totals = [said.out[0]] if said.err is None else [said.out[0], said.err[0]]
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

    def _take(self, take: Callable[[bytes], object], _start: int, data: bytes) -> None:
        self._moved.set()
        if self.error is not None:
            return
        try:
            take(data)
        except Exception as error:  # the caller's own: it travels to the caller of `run`
            self.error = error
            self._link.cancel(self._command)

    def _wake(self, _future: object) -> None:
        self._moved.set()
