"""The last bytes of an output, searched as they come; run as a program, for a caller who must not
wait for a pattern.

A search with a pattern can take hours, and Python does nothing else meanwhile: then only a process
can be ended.
"""

import re
import struct
import sys

ORDER = struct.Struct("!?I")  # whether a new text begins, bytes that follow
ANSWER = struct.Struct("!qq")  # what `find` gives; NOTHING for None
NOTHING = (-1, -1)


class Window:
    """The end of a text that grows."""

    def __init__(self, wanted: "re.Pattern[bytes]", most_bytes: int) -> None:
        self._wanted, self._most = wanted, most_bytes
        self._kept = b""

    def find(self, data: bytes, is_new: bool) -> "tuple[int, int] | None":
        """Where the first match begins and ends, in bytes before the end of the text so far."""
        text = data if is_new else self._kept + data
        self._kept = text[-self._most :]
        match = self._wanted.search(text)
        return (len(text) - match.start(), len(text) - match.end()) if match else None


def main() -> None:
    """Answers orders on stdin until there are no more; the pattern and the window's size are the
    first two lines.
    """
    orders, answers = sys.stdin.buffer, sys.stdout.buffer
    pattern, most = (bytes.fromhex(orders.readline().decode()) for _ in range(2))
    window = Window(re.compile(pattern, re.MULTILINE), int(most))
    while head := orders.read(ORDER.size):
        is_new, size = ORDER.unpack(head)
        answers.write(ANSWER.pack(*(window.find(orders.read(size), is_new) or NOTHING)))
        answers.flush()


if __name__ == "__main__":
    main()
