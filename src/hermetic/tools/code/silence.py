"""Output of tools that a script calls: what their handlers print is not the host program's output."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hermetic.contract.tool import IS_SILENT


class _PerCall:
    """The program's stdout for all but those calls."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        return len(text) if IS_SILENT.get() else int(self.stream.write(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


class Silence:
    """Drops what is printed to stdout in calls that are served within `held`, and nothing else of the program's."""

    def __init__(self) -> None:
        self._calls = 0
        self._stdout: _PerCall | None = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """For one call: its task, tasks that it starts, and functions that it runs by `asyncio.to_thread`."""
        if not self._calls:
            self._stdout = _PerCall(sys.stdout)
            sys.stdout = self._stdout
        self._calls += 1
        token = IS_SILENT.set(True)
        try:
            yield
        finally:
            IS_SILENT.reset(token)
            self._calls -= 1
            if not self._calls and self._stdout is not None and sys.stdout is self._stdout:
                sys.stdout = self._stdout.stream
