"""Secrets whose values are known: hidden wherever they stand, in the spellings that programs give
them.
"""

import base64
import bisect
import json
import re
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from hermetic.environments.child_environment import is_credential, password_in

SHORTEST = 8  # characters of a variable's value; a shorter one would be found in ordinary words
SHORTEST_GIVEN = 4  # characters of a value that was given as a secret
# Characters from which on a text's end is taken for the start of a value; fewer end many ordinary
# words.
UNFINISHED = 4

_ORDINARY = re.compile(r"^(?:[a-z]{1,15}|[\d.,:-]+|(?:/|~/|\./)\S*|[a-z][a-z0-9+.-]*://[^@]*)$")

# Lines of one character each: a value that is printed letter by letter, with an end of line after
# each.
_COLUMN = re.compile(r"(?<![^\n])(?:[^\r\n]\r{0,2}\n){3,}[^\r\n]?")
_COLUMN_AT_END = re.compile(r"(?<![^\n])(?:[^\r\n]\r{0,2}\n){3,}[^\r\n]?\r{0,2}\Z")
_MOST_OF_A_LINE = 4  # characters of such a line, with its end


class KnownSecret(NamedTuple):
    """A value that must not be shown, and the name by which it can be used instead."""

    name: str
    value: str


def secrets_of(variables: Mapping[str, str]) -> list[KnownSecret]:
    """Values of variables with a credential's name, and passwords in URLs, that nothing ordinary
    looks like.
    """
    named = [KnownSecret(name, value) for name, value in variables.items() if is_credential(name)]
    inside = [
        KnownSecret(name, password)
        for name, value in variables.items()
        if (password := password_in(value))
    ]
    return [
        one
        for one in (*named, *inside)
        if len(one.value) >= SHORTEST and not _ORDINARY.match(one.value)
    ]


class ValueFinder:
    """Finds known values in a text."""

    def __init__(self, known: Iterable[KnownSecret]) -> None:
        known = list(known)
        self.needles: dict[str, str] = {}  # a spelling of a value → its name
        for secret in known:
            for spelling in _spellings(secret.value):
                self.needles.setdefault(spelling, secret.name)
        self._values = {secret.value.strip(): secret.name for secret in known}
        self._bytes = [
            (value.encode("utf-8", "surrogateescape"), name)
            for value, name in self._values.items()
            if len(value) >= SHORTEST
        ]

    def unfinished(self, text: str) -> int:
        """The number of trailing characters that a value may begin with, as one word or one
        character per line.
        """
        size = _longest_start(text, self.needles)
        longest = max(map(len, self._values), default=0)
        tail = text[-_MOST_OF_A_LINE * longest :] if longest else ""
        if column := _COLUMN_AT_END.search(tail):
            places = _column(column)
            letters = _longest_start("".join(tail[at] for at in places), self._values)
            size = max(size, len(tail) - places[-letters] if letters else 0)
        return size

    def find(self, text: str) -> Iterator[tuple[int, int, str]]:
        """The ranges of values, and their names."""
        for needle, name in self.needles.items():
            yield from ((at, at + len(needle), name) for at in _occurrences(text, needle))
        if self._bytes:
            yield from find_dumped(text, self._bytes)
        for column in _COLUMN.finditer(text) if self._values else ():
            places = _column(column)
            letters = "".join(text[at] for at in places)
            for value, name in self._values.items():
                if len(value) >= SHORTEST_GIVEN:
                    for at in _occurrences(letters, value):
                        yield places[at], places[at + len(value) - 1] + 1, name

    def find_parts(self, text: str) -> Iterator[tuple[int, int, str]]:
        """The ranges of parts of values, at least half of one in its own spelling, and their names."""
        for value, name in self._values.items():
            size = max(SHORTEST, (len(value) + 1) // 2)
            for begin in range(len(value) - size + 1):
                part = value[begin : begin + size]
                yield from ((at, at + size, name) for at in _occurrences(text, part, step=1))


def _occurrences(text: str | bytearray, part: str | bytes, step: int = 0) -> Iterator[int]:
    """The offsets of a part, without overlaps unless `step` is less than its length."""
    at = text.find(part)  # type: ignore[arg-type]
    while at >= 0:
        yield at
        at = text.find(part, at + (step or len(part)))  # type: ignore[arg-type]


def _longest_start(text: str, values: Iterable[str]) -> int:
    """The length of the longest start of a value, not all of it, that the text ends with."""
    most = 0
    for value in values:
        sizes = range(min(len(value) - 1, len(text)), max(most, UNFINISHED - 1), -1)
        most = next((size for size in sizes if text.endswith(value[:size])), most)
    return most


def _column(match: "re.Match[str]") -> list[int]:
    """Where the characters of a column stand."""
    return [at for at in range(*match.span()) if match.string[at] not in "\r\n"]


def _spellings(value: str) -> Iterator[str]:
    """The value as it is, quoted for a URL or for JSON, in base64 at any place of a longer text,
    and line by line.
    """
    value = value.strip()
    if len(value) < SHORTEST_GIVEN:
        return
    yield value
    yield urllib.parse.quote(value, safe="")
    yield urllib.parse.quote_plus(value)
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    if len(value) >= SHORTEST:
        yield from _in_base64(value.encode("utf-8", "surrogateescape"))
        yield value.encode("utf-8", "surrogateescape").hex()
        yield value.encode("utf-8", "surrogateescape").hex().upper()
    yield from (line.strip() for line in value.splitlines()[1:-1] if len(line.strip()) >= 20)


def _in_base64(data: bytes) -> Iterator[str]:
    """The characters that the data gives whatever stands before and behind it."""
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + data)
        first = (before * 8 + 5) // 6
        last = (before + len(data)) * 8 // 6
        for text in (encoded, encoded.translate(bytes.maketrans(b"+/", b"-_"))):
            yield text[first:last].decode()


# An address, pairs or groups of pairs, as xxd, hexdump -C and od print it. The last line of a dump
# may be short.
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
    """The parts of lines that show a value's bytes, with the value's name; each line to its end,
    where its text is.
    """
    data, lines, place, pattern = bytearray(), list[_Dumped](), 0, _LINE
    for line in text.split("\n"):
        match = pattern.match(line) if line[:1] in _BEGINS else None
        if match:
            lines.append(_Dumped(len(data), place + match.start(1), place + len(line)))
            data += bytes.fromhex(match[1].replace("0x", "").translate(_BETWEEN))
        pattern = _LAST_LINE if match else _LINE
        place += len(line) + 1
    for value, name in values if lines else ():
        for at in _occurrences(data, value):
            first = bisect.bisect_right(lines, at, key=lambda line: line.at) - 1
            last = bisect.bisect_left(lines, at + len(value), key=lambda line: line.at)
            yield from ((line.start, line.end, name) for line in lines[first:last])
