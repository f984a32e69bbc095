"""Our own standard streams: there even when our starter closed them, and given up when they take no more."""

import codecs
import io
import os
import sys

SPELLING = "hermetic-spelled"
# What we print ourselves beyond ASCII.
PLAIN = {"…": "...", "→": "->", "⏎": "\\n", "�": "?", "–": "-", "’": "'", "×": "x"}


def open_missing_streams() -> None:
    """Puts the null device on every closed one of 0, 1 and 2: else the next file or socket would get its number."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free number is this one
    if sys.stdin is None:
        sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)


def print_what_can_be_printed() -> None:
    """Characters that our output's encoding lacks are spelled in others: `…` as three dots, the rest as escapes."""
    codecs.register_error(SPELLING, _spelled)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=SPELLING)


def _spelled(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    wrong = error.object[error.start : error.end]
    plain = "".join(PLAIN.get(char) or char.encode("ascii", "backslashreplace").decode() for char in wrong)
    return plain, error.end


def discard_output() -> None:
    """Nothing more goes to standard output; Python would complain about it once more when it flushes at the end."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)
