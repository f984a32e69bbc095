"""Parts of the standard library without their slow imports.

Signals, queues and heaps come from the C modules below their wrappers, and `re` is imported with
the first expression that is used.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    import signal
    from collections import deque
    from heapq import heapify, heappop, heappush
else:
    import _signal as signal
    from _collections import deque
    from _heapq import heapify, heappop, heappush

try:
    import ctypes
except ImportError:  # Debian's python3-minimal
    ctypes = None  # type: ignore[assignment]  # looked at before its uses

__all__ = ["ctypes", "deque", "heapify", "heappop", "heappush", "pattern", "signal"]


def pattern(text: bytes, dot_is_all: bool = False) -> re.Pattern[bytes]:
    """A regular expression that is compiled on first use."""
    return _Pattern(text, dot_is_all)  # type: ignore[return-value]  # from then on it has the methods of one


class _Pattern:
    def __init__(self, text: bytes, dot_is_all: bool) -> None:
        self.text, self.dot_is_all = text, dot_is_all

    def __getattr__(self, name: str) -> object:
        re = __import__("re")
        compiled = re.compile(self.text, re.DOTALL if self.dot_is_all else 0)
        for method in ("findall", "finditer", "fullmatch", "match", "search"):
            setattr(self, method, getattr(compiled, method))
        return getattr(compiled, name)
