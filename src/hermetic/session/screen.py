"""What a terminal would show: a process' output replayed into a screen."""

import asyncio
import inspect
import re
from collections.abc import Callable
from itertools import groupby
from typing import Any, Protocol, TypeVar
from unicodedata import combining, east_asian_width

from hermetic.contract.errors import Unsupported
from hermetic.contract.limits import SCREEN_CELLS, SCREEN_REPLAY
from hermetic.contract.process import Chunk, Shown

_SECOND_SCREEN = frozenset({47, 1047, 1049})  # private modes that switch to it
# those that change every cell: the last is the number of columns
_WHOLE_SCREEN = _SECOND_SCREEN | {3}
_REVERSED = 5
_APPLICATION_KEYS = 1 << 5  # as pyte writes the private mode 1
STEP = 1 << 14  # bytes replayed before a cancelled look ends
LAST = 1 << 16  # bytes that are replayed where all of them are too much work
# cells and lines that controls of one replay may touch; each takes a fraction of a microsecond
MOST_WORK = 10_000_000
MOST_SAVED = 100  # positions of the cursor
TOO_MUCH = "the output changes the screen more often than is drawn; the screen shows the last part of it, or nothing"
MOST_MARKS = 8  # combining characters of one cell; pyte normalises the cell again for each

# What controls touch, by the methods of pyte that they call.
_COSTS: dict[str, Callable[[Any], int]] = {
    "alignment_display": lambda screen: screen.lines * screen.columns,
    "erase_in_display": lambda screen: len(screen.buffer),
    **dict.fromkeys(
        ("erase_in_line", "insert_characters", "delete_characters", "erase_characters"),
        lambda screen: len(screen.buffer[screen.cursor.y]),
    ),
    **dict.fromkeys(
        ("index", "reverse_index", "insert_lines", "delete_lines"), lambda screen: screen.lines
    ),
    "reset": lambda screen: screen.lines + screen.columns,
    "tab": lambda screen: len(screen.tabstops),
}

T = TypeVar("T")


class TooMuch(Exception):
    """The controls of a replay touch more than is drawn."""


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
        self._note = ""
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
        """What the screen shows once the log is replayed up to `total`, or to its end.

        Raises Unsupported.
        """
        rows, cols = self._size
        if rows * cols > SCREEN_CELLS:
            raise Unsupported(
                f"a terminal of {rows} rows and {cols} columns is too large for a screen, "
                f"the most is {SCREEN_CELLS:,} cells; resize it",
                capability="screen",
            )
        async with self._looks:
            self._screen.work = MOST_WORK
            if (self._screen.lines, self._screen.columns) != (rows, cols):
                self._screen.resize(rows, cols)
            return await self._look(total)

    async def _look(self, total: int) -> Shown:
        self._note = ""
        if total - self.position > SCREEN_REPLAY:
            self._skip(total - SCREEN_REPLAY)
        while self.position < total:
            chunk = await self._read(self.position)
            if not chunk.data:
                break
            try:
                await self._replay(chunk)
            except TooMuch:
                self._skip(total if self._note else max(self.position, total - LAST))
                self._note = TOO_MUCH
        return await _in_thread(self._shown)

    def _skip(self, position: int) -> None:
        """Begin anew from a later position: a program that prints that much redraws what it shows."""
        self.position = position
        self._controls = Controls()
        kept = self._screen.mode & {_APPLICATION_KEYS}  # programs set it once
        self._screen.work = MOST_WORK
        self._screen.reset()
        self._screen.mode |= kept

    def _shown(self) -> Shown:
        screen = self._screen
        return Shown(
            lines=tuple(_row(screen.buffer[y], screen.columns) for y in range(screen.lines)),
            rows=screen.lines,
            cols=screen.columns,
            cursor=(screen.cursor.y, min(screen.cursor.x, screen.columns - 1)),
            alternate=screen.before is not None,
            note=self._note,
        )

    async def _replay(self, chunk: Chunk) -> None:
        start = chunk.end - len(chunk.data)
        for at in range(0, len(chunk.data), STEP):
            piece = chunk.data[at : at + STEP]
            self.position = start + at + len(piece)  # it is replayed even if this look is cancelled
            await _in_thread(self._feed, piece)

    def _feed(self, data: bytes) -> None:
        self._stream.feed(self._controls.feed(data))


async def _in_thread(work: Callable[..., T], *given: object) -> T:
    """The result of the work, done in a thread; a cancelled caller waits for its end, so that no
    two overlap.
    """
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
            "a screen needs the package pyte; install it with: pip install 'hermetic[screen]'",
            capability="screen",
        ) from None

    class Tolerant(pyte.Screen):
        """Takes the private forms of sequences, which pyte's own methods refuse, as not there; has
        a second screen.
        """

        work = MOST_WORK  # that is left
        before: Any = None  # what was shown before a program took the whole screen

        def draw(self, data: str) -> None:
            if data.isascii():
                super().draw(data)
                return
            for is_mark, characters in groupby(data, combining_mark):
                run = "".join(characters)
                super().draw(
                    run[: max(0, MOST_MARKS + 1 - len(self._cell_before()))] if is_mark else run
                )

        def _cell_before(self) -> str:
            """The text of the cell that a combining character goes to."""
            x, y = self.cursor.x, self.cursor.y
            text: str = (
                self.buffer[y if x else y - 1][(x or self.columns) - 1].data if x or y else ""
            )
            return text

        def touch(self, cells: int) -> None:
            self.work -= cells
            if self.work < 0:
                raise TooMuch

        def alignment_display(self) -> None:
            for y in range(self.lines):
                self.buffer[y].update(dict.fromkeys(range(self.columns), pyte.screens.Char("E")))

        # What is erased is not there: colours are not shown.
        def erase_in_line(self, how: int = 0, private: bool = False) -> None:
            line, x = self.buffer[self.cursor.y], self.cursor.x
            for gone in [
                at for at in line if how == 2 or (how == 0 and at >= x) or (how == 1 and at <= x)
            ]:
                del line[gone]

        def erase_in_display(self, how: int = 0, *others: int, **private: bool) -> None:
            y = self.cursor.y
            for gone in [
                at
                for at in self.buffer
                if how in (2, 3) or (how == 0 and at > y) or (how == 1 and at < y)
            ]:
                del self.buffer[gone]
            if how in (0, 1):
                self.erase_in_line(how)

        def insert_characters(self, count: int | None = None) -> None:
            self._move(self.cursor.x, self.cursor.x, count or 1)

        def delete_characters(self, count: int | None = None) -> None:
            self._move(self.cursor.x, self.cursor.x + (count or 1), -(count or 1))

        def erase_characters(self, count: int | None = None) -> None:
            self._move(self.cursor.x, self.cursor.x + (count or 1), 0)

        def _move(self, start: int, rest: int, by: int) -> None:
            """Move the rest of the cursor's line; what lies between the start and the rest is
            erased.
            """
            line = self.buffer[self.cursor.y]
            kept = {at: cell for at, cell in line.items() if at < start}
            kept.update(
                {
                    at + by: cell
                    for at, cell in line.items()
                    if at >= rest and at + by < self.columns
                }
            )
            line.clear()
            line.update(kept)

        def save_cursor(self) -> None:
            super().save_cursor()
            del self.savepoints[:-MOST_SAVED]

        def set_mode(self, *modes: int, **private: bool) -> None:
            modes = self._modes(modes, **private)
            if (
                private.get("private")
                and _SECOND_SCREEN.intersection(modes)
                and self.before is None
            ):
                self.before = (
                    {y: dict(line) for y, line in self.buffer.items()},
                    self.cursor.y,
                    self.cursor.x,
                )
                self.erase_in_display(2)
            super().set_mode(*modes, **private)

        def _modes(self, modes: tuple[int, ...], private: bool = False) -> tuple[int, ...]:
            """The modes without that of reversed colours, which would change every cell and nothing
            that is shown.
            """
            if private and _WHOLE_SCREEN.intersection(modes):
                self.touch(self.lines * self.columns)
            return tuple(mode for mode in modes if not private or mode != _REVERSED)

        def reset_mode(self, *modes: int, **private: bool) -> None:
            modes = self._modes(modes, **private)
            super().reset_mode(*modes, **private)
            if (
                private.get("private")
                and _SECOND_SCREEN.intersection(modes)
                and self.before is not None
            ):
                lines, y, x = self.before
                self.before = None
                self.erase_in_display(2)
                for number, line in lines.items():
                    self.buffer[number].update(line)
                self.cursor_position(y + 1, x + 1)

        def report_device_status(self, mode: int = 0, *others: int, **private: bool) -> None:
            """The report has no reader."""

        def report_device_attributes(self, mode: int = 0, *others: int, **private: bool) -> None:
            """The report has no reader."""

    own = {"set_mode", "reset_mode", "report_device_status", "report_device_attributes"}
    for name in set(pyte.Stream.csi.values()) - own:
        setattr(Tolerant, name, _tolerant(getattr(Tolerant, name)))
    for name, cost in _COSTS.items():
        setattr(Tolerant, name, _counted(cost, getattr(Tolerant, name)))
    screen = Tolerant(cols, rows)
    return screen, pyte.ByteStream(screen)


def combining_mark(character: str) -> bool:
    return combining(character) != 0


def _counted(cost: Callable[[Any], int], method: Callable[..., None]) -> Callable[..., None]:
    """The method, after what it touches was counted."""

    def call(self: Any, *given: Any, **named: Any) -> None:
        self.touch(cost(self))
        method(self, *given, **named)

    return call


def _tolerant(method: Callable[..., None]) -> Callable[..., None]:
    """The method, for any numbers that a program may send; a private form that it does not know is
    not there.
    """
    parameters = inspect.signature(method).parameters
    kinds = [parameter.kind for parameter in parameters.values()]
    knows_private = "private" in parameters or inspect.Parameter.VAR_KEYWORD in kinds
    most = (
        None
        if inspect.Parameter.VAR_POSITIONAL in kinds
        else len(kinds) - 1 - ("private" in parameters)
    )

    def call(self: Any, *numbers: int, private: bool = False) -> None:
        if not private or knows_private:
            try:
                method(self, *numbers[:most])
            except TooMuch:
                raise
            except Exception:
                pass  # pyte fails in many ways over a number that means nothing

    return call


LONGEST = 1 << 16  # bytes of a control that has not ended; a longer one is given up

# Strings for other programs than a screen (DCS, SOS, PM, APC), sequences with a private mark other
# than "?" or with intermediate bytes, and those that a byte ends which cannot belong to them, as
# ESC. What has not ended has a name. Every alternative takes the whole of what it has begun with,
# so that a text is gone through once.
_UNKNOWN = re.compile(
    rb"\x1b[PX^_](?:[^\x1b\x18\x1a]|\x1b(?!\\|\Z))*+(?:\x1b\\|[\x18\x1a]|(?P<string>\x1b?\Z))"
    rb"|(?:\x1b\[|\xc2\x9b)(?:[<=>][0-?]*+[ -/]*+[@-~]|[0-?]*+[ -/]++[@-~]|[ -?]*+(?=[\x80-\xff\x1b]))"
    rb"|(?P<start>(?:\x1b|(?:\x1b\[|\xc2\x9b)[ -?]*+)\Z)"
)


class Controls:
    """Lets a stream of bytes through, whatever its pieces, without what is unknown."""

    def __init__(self) -> None:
        self._held = b""  # the start of a control that has not ended

    def feed(self, data: bytes) -> bytes:
        """What is left of the bytes up to now."""
        unfinished = b""

        def known(match: "re.Match[bytes]") -> bytes:
            nonlocal unfinished
            unfinished = match[0] if match.lastgroup else b""
            return b""

        left = _UNKNOWN.sub(known, self._held + data)
        self._held = unfinished if len(unfinished) <= LONGEST else b""
        return left
