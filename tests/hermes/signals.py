"""A command of a test tells that it has come to a point."""

import os
import threading
from collections.abc import Callable
from pathlib import Path


class Point:
    """`text` in a command calls `act` in a thread, and waits until it begins."""

    def __init__(self, directory: Path, act: Callable[[], object]) -> None:
        self._path, self._act = directory / "point", act
        os.mkfifo(self._path)
        self.text = f"echo > {self._path}"
        self._thread = threading.Thread(target=self._wait)
        self._thread.start()

    def _wait(self) -> None:
        self._path.read_bytes()
        self._act()

    def join(self) -> None:
        """Returns when the command came to the point; a test that never does hangs here, and fails."""
        self._thread.join(60)
        assert not self._thread.is_alive(), "the command did not come to its point"
