"""Results of commands in the terms of frameworks."""

from collections.abc import Callable

from hermetic import Result
from hermetic.contract.endings import TimedOut

MOST_OUTPUT = 64 << 20  # bytes of each stream of a command


def exit_code(
    result: Result, *, late: Callable[[], Exception], gone: Callable[[str], Exception]
) -> int:
    """The exit code.

    Raises what `late` returns after a timeout, and what `gone` returns for a lost environment.
    """
    if isinstance(result.ending, TimedOut):
        raise late()
    if result.exit_code is None:
        raise gone(str(result.ending))
    return result.exit_code
