"""How big fuzzing, soaks and repeats are: a tenth by default, everything with HERMETIC_FULL=1 (`./test --full`)."""

import os


def is_full() -> bool:
    """True when tests run at full size."""
    return os.environ.get("HERMETIC_FULL", "") not in ("", "0")


def scale(n: int) -> int:
    """`n` at full size, else a tenth of it, at least 1."""
    return n if is_full() else max(1, n // 10)
