"""Finding a text or pattern in output that is still coming, across the borders of pieces."""

import re

from hermetic.contract.errors import InvalidArgument
from hermetic.contract.limits import SEARCH_WINDOW
from hermetic.session.arguments import encode_text


def compile_search(text: str, *, pattern: bool) -> "re.Pattern[bytes]":
    """What to look for, as a pattern over bytes. Raises InvalidArgument."""
    encoded = encode_text(text, "text")
    if not encoded:
        raise InvalidArgument("there is nothing to wait for: the text is empty", argument="text")
    try:
        return re.compile(encoded if pattern else re.escape(encoded), re.MULTILINE)
    except re.error as error:
        raise InvalidArgument(f"{text!r} is no regular expression: {error}", argument="text") from None


class Search:
    """Looks through a log piece by piece."""

    def __init__(self, wanted: "re.Pattern[bytes]", start: int) -> None:
        self.position = start  # up to where the log was looked through
        self._wanted = wanted
        self._window = b""

    def feed(self, start: int, data: bytes) -> tuple[int, int] | None:
        """The offsets of the first match that ends in the log so far, or None."""
        if start != self.position:  # a hole in the log: nothing matches across it
            self._window = b""
        window = self._window + data
        self.position = start + len(data)
        if match := self._wanted.search(window):
            base = self.position - len(window)
            return base + match.start(), base + match.end()
        self._window = window[-SEARCH_WINDOW.value :]
        return None
