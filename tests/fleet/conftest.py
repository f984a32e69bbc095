"""Each test of a fleet has a runtime directory to itself: what lies there at its end is its own."""

from collections.abc import Iterator
from tempfile import TemporaryDirectory

import pytest


@pytest.fixture(autouse=True)
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with TemporaryDirectory(prefix="hm-", dir="/tmp", ignore_cleanup_errors=True) as directory:
        monkeypatch.setenv("HERMETIC_RUNTIME_DIR", directory)
        yield
