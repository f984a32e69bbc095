"""How big fuzzing, soaks and repeats are: a twentieth by default, everything with HERMETIC_FULL=1
(`./test --full`).
"""

import os
from typing import Any

import pytest


def is_full() -> bool:
    """True when tests run at full size."""
    return os.environ.get("HERMETIC_FULL", "") not in ("", "0")


def scale(n: int) -> int:
    """`n` at full size, else a twentieth of it, at least 1."""
    return n if is_full() else max(1, n // 20)


def at_full_size(*values: Any) -> list[Any]:
    """Values of a parameter that a test gets at full size only."""
    return [pytest.param(value, marks=pytest.mark.full) for value in values]
