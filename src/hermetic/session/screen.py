"""What a terminal would show: a process' output replayed into a screen."""

import asyncio
import contextlib
import inspect
from collections.abc import Callable
from itertools import groupby
from typing import Any, Protocol, TypeVar
from unicodedata import combining, east_asian_width

from hermetic.contract.errors import Unsupported
from hermetic.contract.limits import SCREEN_CELLS, SCREEN_REPLAY
from hermetic.contract.process import Chunk, Shown
from hermetic.session.screen_controls import Controls

_SECOND_SCREEN = frozenset({47, 1047, 1049})  # private modes that switch to it
_APPLICATION_KEYS = 1 << 5  # as pyte writes the private mode 1
STEP = 1 << 14  # bytes replayed before a cancelled look ends
MOST_MARKS = 8  # combining characters of one cell; pyte normalises the cell again for each

T = TypeVar("T")


class ReadOutput(Protocol):
    """Reads a log from an offset on."""

    async def __call__(self, offset: int, *, wait: float | None = None) -> Chunk: ...


class Screen:
    """A screen that follows one log: each look replays what came since the last one."""

    def __init__(self, read: ReadOutput, rows: int, cols: int) -> None:
        self.position = 0  # of the log, up to where it was replayed
        self._read = read
        self._looks = asyncio.Lock()  # two at once would replay the same bytes twice
        self._controls = Controls()
        self._size = rows, cols
        self._screen, self._stream = _make(rows, cols)

    def resize(self, rows: int, cols: int) -> None:
        """The terminal's new size, for the next look."""
        self._size = rows, cols

    @property
    def has_application_keys(self) -> bool:
        """True when the program wants ESC O instead of ESC [ before the letter of a cursor key."""
        return _APPLICATION_KEYS in self._screen.mode

    async def look(self, total: int) -> Shown:
        """What the screen shows once the log is replayed up to `total`, or to its end. Raises Unsupported."""
        rows, cols = self._size
        if rows * cols > SCREEN_CELLS.value:
            raise Unsupported(
                f"a terminal of {rows} rows and {cols} columns is too large for a screen, "
                f"the most is {SCREEN_CELLS.value:,} cells; resize it",
                capability="screen",
            )
        async with self._looks:
            if (self._screen.lines, self._screen.columns) != (rows, cols):
                self._screen.resize(rows, cols)
            return await self._look(total)

    async def _look(self, total: int) -> Shown:
        if total - self.position > SCREEN_REPLAY.value:
            # A program that prints that much redraws what it shows.
            self.position = total - SCREEN_REPLAY.value
            kept = self._screen.mode & {_APPLICATION_KEYS}  # programs set it once
            self._screen.reset()
            self._screen.mode |= kept
        while self.position < total:
            chunk = await self._read(self.position)
            if not chunk.data:
                break
            await self._replay(chunk)
        return await _in_thread(self._shown)

    def _shown(self) -> Shown:
        screen = self._screen
        return Shown(
            lines=tuple(_row(screen.buffer[y], screen.columns) for y in range(screen.lines)),
            rows=screen.lines, cols=screen.columns,
            cursor=(screen.cursor.y, min(screen.cursor.x, screen.columns - 1)), alternate=screen.before is not None,
        )  # fmt: skip

    async def _replay(self, chunk: Chunk) -> None:
        start = chunk.end - len(chunk.data)
        for at in range(0, len(chunk.data), STEP):
            piece = chunk.data[at : at + STEP]
            self.position = start + at + len(piece)  # it is replayed even if this look is cancelled
            await _in_thread(self._feed, piece)

    def _feed(self, data: bytes) -> None:
        self._stream.feed(self._controls.feed(data))


async def _in_thread(work: Callable[..., T], *given: object) -> T:
    """The result of the work, done in a thread; a cancelled caller waits for its end, so that no two overlap."""
    done = asyncio.ensure_future(asyncio.to_thread(work, *given))
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        await asyncio.wait([done])
        raise


def _row(cells: Any, columns: int) -> str:
    """The text of a row. Half of a wide character, whose other half was drawn over, is a space."""
    texts = [cells[x].data for x in range(columns)]
    is_wide = [text != "" and east_asian_width(text[0]) in "WF" for text in texts]
    for x, text in enumerate(texts):
        follows_wide = x > 0 and is_wide[x - 1]
        if (text == "" and not follows_wide) or (is_wide[x] and texts[x + 1 : x + 2] != [""]):
            texts[x], is_wide[x] = " ", False
    return "".join(texts).rstrip()


def _make(rows: int, cols: int) -> tuple[Any, Any]:
    try:
        import pyte
    except ImportError:
        raise Unsupported(
            "a screen needs the package pyte; install it with: pip install 'hermetic[screen]'", capability="screen"
        ) from None

    class Tolerant(pyte.Screen):
        """Takes the private forms of sequences, which pyte's own methods refuse, as not there; has a second screen."""

        before: Any = None  # what was shown before a program took the whole screen

        def draw(self, data: str) -> None:
            if data.isascii():
                super().draw(data)
                return
            for is_mark, characters in groupby(data, combining_mark):
                run = "".join(characters)
                super().draw(run[: max(0, MOST_MARKS + 1 - len(self._cell_before()))] if is_mark else run)

        def _cell_before(self) -> str:
            """The text of the cell that a combining character goes to."""
            x, y = self.cursor.x, self.cursor.y
            text: str = self.buffer[y if x else y - 1][(x or self.columns) - 1].data if x or y else ""
            return text

        def set_mode(self, *modes: int, **private: bool) -> None:
            if private.get("private") and _SECOND_SCREEN.intersection(modes) and self.before is None:
                self.before = {y: dict(line) for y, line in self.buffer.items()}, self.cursor.y, self.cursor.x
                self.erase_in_display(2)
            super().set_mode(*modes, **private)

        def reset_mode(self, *modes: int, **private: bool) -> None:
            super().reset_mode(*modes, **private)
            if private.get("private") and _SECOND_SCREEN.intersection(modes) and self.before is not None:
                lines, y, x = self.before
                self.before = None
                self.erase_in_display(2)
                for number, line in lines.items():
                    self.buffer[number].update(line)
                self.cursor_position(y + 1, x + 1)

        def report_device_status(self, mode: int, **private: bool) -> None:
            """Nobody reads the report."""

        def report_device_attributes(self, mode: int = 0, **private: bool) -> None:
            """Nobody reads the report."""

    for name in set(pyte.Stream.csi.values()) - vars(Tolerant).keys():
        setattr(Tolerant, name, _tolerant(getattr(pyte.Screen, name)))
    screen = Tolerant(cols, rows)
    return screen, pyte.ByteStream(screen)


def combining_mark(character: str) -> bool:
    return combining(character) != 0


def _tolerant(method: Callable[..., None]) -> Callable[..., None]:
    """The method, for any numbers that a program may send; a private form that it does not know is not there."""
    parameters = inspect.signature(method).parameters
    kinds = [parameter.kind for parameter in parameters.values()]
    knows_private = "private" in parameters or inspect.Parameter.VAR_KEYWORD in kinds
    most = None if inspect.Parameter.VAR_POSITIONAL in kinds else len(kinds) - 1 - ("private" in parameters)

    def call(self: Any, *numbers: int, private: bool = False) -> None:
        if not private or knows_private:
            with contextlib.suppress(Exception):  # pyte fails in many ways over a number that means nothing
                method(self, *numbers[:most])

    return call
