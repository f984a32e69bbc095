"""Our own standard streams: there even when our starter closed them, and given up when they take no more."""

import logging
import os
import sys


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


def discard_output() -> None:
    """Nothing more goes to standard output; Python would complain about it once more when it flushes at the end."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


def tell_progress() -> None:
    """From now on what takes its time, such as building an image, is told on stderr line by line."""
    told = logging.StreamHandler()
    told.setFormatter(logging.Formatter("hermetic: %(message)s"))
    log = logging.getLogger("hermetic")
    log.addHandler(told)
    log.setLevel(logging.INFO)
