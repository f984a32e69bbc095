"""What takes its time is told on stderr: the start of an environment, the building of an image."""

import asyncio
import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from hermetic.contract.printable import one_line

SLOW_SECONDS = 1.5  # for a start before it is told of


class _OneLine(logging.Formatter):
    """A line for people; what is logged may quote an engine."""

    def format(self, record: logging.LogRecord) -> str:
        return f"hermetic: {one_line(record.getMessage(), 1000)}"


@contextmanager
def slow_start(kind: str, options: Mapping[str, Any], is_open: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """Tells a person at a terminal what is waited for when an environment takes its time to start."""

    def tell() -> None:
        if not is_open():
            image = options.get("image")
            of = f" from the image {image}; it is pulled or built first where it is not here yet" if image else ""
            sys.stderr.write(f"hermetic: starting {one_line(f'{kind}{of}')}\n")

    if not sys.stderr.isatty():
        yield
        return
    timer = asyncio.get_running_loop().call_later(SLOW_SECONDS, tell)
    try:
        yield
    finally:
        timer.cancel()


def tell_progress() -> None:
    """From now on what takes its time, such as building an image, is told on stderr line by line."""
    told = logging.StreamHandler()
    told.setFormatter(_OneLine())
    log = logging.getLogger("hermetic")
    log.addHandler(told)
    log.setLevel(logging.INFO)
