"""Lists of names, written the way people read them, and patterns that cost nothing until they are
used.
"""

from __future__ import annotations

import re
from typing import Any, cast


def names(text: str) -> tuple[str, ...]:
    """The words of a text."""
    return tuple(text.split())


class _Lazy:
    def __init__(self, pattern: str) -> None:
        self.pattern = pattern

    def __getattr__(self, name: str) -> Any:
        value = getattr(re.compile(self.pattern), name)
        setattr(self, name, value)
        return value


def regex(pattern: str) -> re.Pattern[str]:
    """A pattern that is compiled at its first use: most texts need few of them, and compiling all
    takes long.
    """
    return cast("re.Pattern[str]", _Lazy(pattern))
