"""The trees of the sources are kept for as long as one module's tests use them."""

from collections.abc import Iterator

import pytest

from tests.architecture.arrows import forget


@pytest.fixture(autouse=True, scope="module")
def trees_are_freed() -> Iterator[None]:
    yield
    forget()
