"""What takes long, on stderr: at a terminal one line that is drawn again, else one line for each
message.
"""

import asyncio
import logging
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from hermetic.cli.streams import terminal_size
from hermetic.contract.printable import one_line

SLOW_SECONDS = 1.0  # of work before it is shown at a terminal
SILENT_SECONDS = 10.0  # of work before it is shown elsewhere
REDRAW_SECONDS = 0.5
MOST_SHOWN = 1000  # characters of a message
ERASE = "\r\x1b[K"


class Progress:
    """Shows a text while the block lasts, if that is long.

    `finish` ends it earlier, for other output.
    """

    def __init__(self, text: str, *, is_over: Callable[[], bool] = lambda: False) -> None:
        self._text = one_line(text, MOST_SHOWN)
        self._is_over = is_over
        self._is_live = sys.stderr.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb")
        self._is_drawn = False
        self._began = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        return f"<Progress {self._text!r}>"

    def __enter__(self) -> "Progress":
        self._began = time.monotonic()
        at_terminal = sys.stderr.isatty()
        self._timer = _later(SLOW_SECONDS if at_terminal else SILENT_SECONDS, self._draw)
        if self._is_live and (log := _installed()) is not None:
            log.progress = self
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()

    def finish(self) -> None:
        """Removes the line. Nothing is shown after this."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if (log := _installed()) is not None and log.progress is self:
            log.progress = None
        self.erase()

    def erase(self) -> None:
        """Removes the line until it is drawn again."""
        if self._is_drawn:
            self._write(ERASE)
        self._is_drawn = False

    def say(self, text: str) -> None:
        """Shows this text from now on."""
        self._text = text
        if self._is_drawn:
            self._draw()

    def _draw(self) -> None:
        if self._is_over():
            self.finish()
            return
        if not self._is_live:
            self._write(f"hermetic: {self._text}\n")
            return
        if self._timer is not None:
            self._timer.cancel()
        self._is_drawn = True
        seconds = f", {time.monotonic() - self._began:.0f} s"
        room = terminal_size(sys.stderr.fileno()).columns - len("hermetic: ") - len(seconds) - 1
        self._write(f"{ERASE}hermetic: {one_line(self._text, max(room, 20))}{seconds}")
        self._timer = _later(REDRAW_SECONDS, self._draw)

    def _write(self, text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except OSError:  # stderr is closed
            self._is_live = False


def slow_start(
    kind: str, options: Mapping[str, Any], is_open: Callable[[], bool] = lambda: False
) -> Progress:
    """The start of an environment, until it is open."""
    text = f"starting {kind}"
    if image := options.get("image"):
        text += f" from the image {image}; it is pulled or built first where it is not here yet"
    return Progress(text, is_over=is_open)


class ProgressLog(logging.Handler):
    """Log messages as lines on stderr; those on what is being done are shown in a line that is
    drawn again, if any.
    """

    progress: Progress | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Shows the message in one printable line; it may quote an engine."""
        text = one_line(record.getMessage(), MOST_SHOWN)
        shown = self.progress
        if shown is not None and record.levelno <= logging.INFO:
            shown.say(text)
            return
        try:
            if shown is not None:
                shown.erase()
            sys.stderr.write(f"hermetic: {text}\n")
        except OSError:  # stderr is closed
            return


def log_progress() -> None:
    """From now on, log messages such as the build of an image go to stderr, line by line."""
    log = logging.getLogger("hermetic")
    if _installed() is None:
        log.addHandler(ProgressLog())
    log.setLevel(logging.INFO)


def _installed() -> ProgressLog | None:
    return next(
        (one for one in logging.getLogger("hermetic").handlers if isinstance(one, ProgressLog)),
        None,
    )


def _later(seconds: float, call: Callable[[], None]) -> asyncio.TimerHandle:
    return asyncio.get_running_loop().call_later(seconds, call)
