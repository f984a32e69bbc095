"""Known values in hexadecimal dumps: pairs of digits with blanks or colons between them, over several lines."""

import bisect
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

# An address, pairs or groups of pairs, as xxd, hexdump -C and od print it. The last line of a dump may be short.
_ADDRESS = r"[ \t]{0,8}+(?:(?:0x)?[0-9A-Fa-f]{6,16}:?[ \t]{1,4})?"
_GROUP = r"(?:\\x|0x)?+(?:[0-9A-Fa-f]{2}){1,8}+(?:,?[ \t]{1,2}|[:,-])?+"
_LINE = re.compile(rf"{_ADDRESS}((?:{_GROUP}){{4,64}}+)")
_LAST_LINE = re.compile(rf"{_ADDRESS}((?:{_GROUP}){{1,64}}+)")
_BEGINS = frozenset("0123456789abcdefABCDEF\\ \t")
_BETWEEN = str.maketrans("", "", ":,-\\x")


class _Dumped(NamedTuple):
    """A line of a dump: where its first byte is among all, and where it stands in the text."""

    at: int
    start: int
    end: int


def find_dumped(text: str, values: Iterable[tuple[bytes, str]]) -> Iterator[tuple[int, int, str]]:
    """The parts of lines that show a value's bytes, with the value's name; each line to its end, where its text is."""
    data, lines, place, pattern = bytearray(), list[_Dumped](), 0, _LINE
    for line in text.split("\n"):
        match = pattern.match(line) if line[:1] in _BEGINS else None
        if match:
            lines.append(_Dumped(len(data), place + match.start(1), place + len(line)))
            data += bytes.fromhex(match[1].replace("0x", "").translate(_BETWEEN))
        pattern = _LAST_LINE if match else _LINE
        place += len(line) + 1
    for value, name in values if lines else ():
        at = data.find(value)
        while at >= 0:
            first = bisect.bisect_right(lines, at, key=lambda line: line.at) - 1
            last = bisect.bisect_left(lines, at + len(value), key=lambda line: line.at)
            yield from ((line.start, line.end, name) for line in lines[first:last])
            at = data.find(value, at + len(value))
