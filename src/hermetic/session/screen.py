"""What a terminal would show: a process' output replayed into a screen."""

import asyncio
from typing import Any, Protocol

from hermetic.contract.errors import Unsupported
from hermetic.contract.limits import SCREEN_REPLAY
from hermetic.contract.process import Chunk

STEP = 1 << 16  # bytes replayed between two turns of the event loop


class ReadOutput(Protocol):
    """Reads a log from an offset on."""

    async def __call__(self, offset: int, *, wait: float | None = None) -> Chunk: ...


class Screen:
    """A screen that follows one log: each look replays what came since the last one."""

    def __init__(self, read: ReadOutput, rows: int, cols: int) -> None:
        self.position = 0  # of the log, up to where it was replayed
        self._read = read
        self._screen, self._stream = _make(rows, cols)

    def resize(self, rows: int, cols: int) -> None:
        """The terminal's new size."""
        self._screen.resize(rows, cols)

    async def look(self, total: int) -> str:
        """The screen's text once the log is replayed up to `total`, or to its end."""
        if total - self.position > SCREEN_REPLAY.value:
            # A program that prints that much redraws what it shows.
            self.position = total - SCREEN_REPLAY.value
            self._screen.reset()
        while self.position < total:
            chunk = await self._read(self.position)
            if not chunk.data:
                break
            await self._replay(chunk.data)
            self.position = chunk.end
        return "\n".join(line.rstrip() for line in self._screen.display)

    async def _replay(self, data: bytes) -> None:
        for at in range(0, len(data), STEP):
            self._stream.feed(data[at : at + STEP])
            await asyncio.sleep(0)


def _make(rows: int, cols: int) -> tuple[Any, Any]:
    try:
        import pyte
    except ImportError:
        raise Unsupported(
            "a screen needs the package pyte; install it with: pip install 'hermetic[screen]'", capability="screen"
        ) from None

    class Tolerant(pyte.Screen):
        """Takes the private forms of sequences, which pyte's own methods refuse, as not there."""

        def select_graphic_rendition(self, *attributes: int, private: bool = False) -> None:
            if not private:
                super().select_graphic_rendition(*attributes)

        def report_device_status(self, mode: int, **private: bool) -> None:
            """Nobody reads the report."""

        def report_device_attributes(self, mode: int = 0, **private: bool) -> None:
            """Nobody reads the report."""

    screen = Tolerant(cols, rows)
    return screen, pyte.ByteStream(screen)
