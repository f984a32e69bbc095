"""Servers keep tokens in the runtime directory: each test starts and ends without them."""

import shutil
from collections.abc import Iterator

import pytest

from hermetic.registry.records import runtime_path
from hermetic.serve import environments
from hermetic.serve.tokens import FOLDER


@pytest.fixture(autouse=True)
def no_tokens_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Removes the tokens of a test.

    Snapshots of new workspaces are taken only where a test asks for them.
    """
    monkeypatch.setattr(environments, "YOUNG_SECONDS", 0.0)
    yield
    shutil.rmtree(runtime_path() / FOLDER, ignore_errors=True)
