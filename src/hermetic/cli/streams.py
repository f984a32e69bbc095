"""Our standard streams: reopened when the parent closed them, discarded when they fail."""

import codecs
import io
import os
import sys
from typing import TextIO

SPELLING = "hermetic-spelled"
USUAL = os.terminal_size((80, 24))
# Non-ASCII characters of our own messages.
PLAIN = {"…": "...", "→": "->", "⏎": "\\n", "�": "?", "–": "-", "’": "'", "×": "x"}


def open_missing_streams() -> None:
    """Opens the null device for every closed one of 0, 1 and 2: the next file would get that
    number.
    """
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            # the lowest free number is this one
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    if sys.stdin is None:
        sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)


def escape_unencodable() -> None:
    """Replaces characters that the output's encoding lacks:

    `…` by three dots, others by escapes.
    """
    codecs.register_error(SPELLING, _escaped)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=SPELLING)


def _escaped(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    wrong = error.object[error.start : error.end]
    plain = "".join(
        PLAIN.get(char) or char.encode("ascii", "backslashreplace").decode() for char in wrong
    )
    return plain, error.end


def terminal_size(fd: int) -> os.terminal_size:
    """The size of a terminal; 24 lines of 80 columns without one, and of one that knows no size,
    such as a serial line.
    """
    size = os.get_terminal_size(fd) if os.isatty(fd) else USUAL
    return os.terminal_size((size.columns or USUAL.columns, size.lines or USUAL.lines))


def discard_output(stream: TextIO | None = None) -> None:
    """Redirects a stream, or stdout, to the null device, so that the flush at exit does not fail
    again.
    """
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, (stream or sys.stdout).fileno())
    os.close(null)
