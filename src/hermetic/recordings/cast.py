"""Recordings of terminals as asciicast version 2, which asciinema plays: written without secrets,
and read again.
"""

import codecs
import contextlib
import re
from collections.abc import Callable, Iterator
from typing import IO, Annotated, Any

import msgspec

from hermetic.contract.errors import InvalidArgument

MOST_BYTES = 64 << 20  # of one recording
MOST_LINE = 1 << 16  # characters of a line that is looked through for secrets as a whole
MOST_LABEL = 200  # characters of a mark
LONGEST_EVENT = 64 << 20  # bytes of one line of a file that is played
FULL = "recording ended: it has reached its size limit"
# What shells with integration (fish, and others with a plugin) print where a command begins and
# ends.
_BORDER = re.compile(r"\x1b\]133;([CD])((?:;-?\d+)?)[^\x07\x1b]*(?:\x07|\x1b\\)")
_LINE_END = re.compile(r"\r\n|[\r\n]")

Event = tuple[float, str, str]  # seconds since the start; o output, i input, m mark, r resize; text


class Header(msgspec.Struct, kw_only=True):
    """The first line of a recording."""

    version: int = 2
    width: Annotated[int, msgspec.Meta(ge=1, le=10_000)]
    height: Annotated[int, msgspec.Meta(ge=1, le=10_000)]
    timestamp: int = 0  # seconds since 1970
    title: str = ""
    command: str = ""
    env: dict[str, str] = {}
    hermetic: dict[str, str] = {}  # ids of the environment and the process


class CastWriter:
    """One recording. Output is written line by line, so that a secret which came in pieces is
    found.

    A line without a secret keeps the time of each of its pieces. The first byte beyond `most` ends
    the recording.
    """

    def __init__(
        self,
        file: IO[bytes],
        header: Header,
        *,
        redact: Callable[[str], str] = str,
        most: int = MOST_BYTES,
    ) -> None:
        self._file = file
        self._redact = redact
        self._left = most
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._line: list[tuple[float, str]] = []  # pieces of the line that is not complete
        self._length = 0  # characters of it
        self._last = 0.0
        self.is_full = False
        header.title, header.command = redact(_clean(header.title)), redact(_clean(header.command))
        self._put(header)

    def __repr__(self) -> str:
        return f"<CastWriter: {self._last:.1f} s, {self._left} bytes left>"

    def output(self, at: float, data: bytes) -> None:
        """Bytes that appeared `at` seconds after the start."""
        self._text(at, self._decoder.decode(data))

    def mark(self, at: float, label: str) -> None:
        """A mark, such as the border of a command. Players can jump to it."""
        self._end_line()
        self._event(at, "m", self._redact(_clean(label))[:MOST_LABEL])

    def resize(self, at: float, rows: int, cols: int) -> None:
        """The terminal has another size from now on."""
        self._end_line()
        self._event(at, "r", f"{cols}x{rows}")

    def close(self) -> None:
        """Writes what is left of the last line."""
        self._text(self._last, self._decoder.decode(b"", final=True))
        self._end_line()
        self._file.flush()

    def _text(self, at: float, text: str) -> None:
        while text:
            found = _LINE_END.search(text)
            end = found.end() if found else len(text)
            self._line.append((at, text[:end]))
            self._length += end
            text = text[end:]
            if self._length > MOST_LINE or (found and not self._is_key_open()):
                self._end_line()

    def _is_key_open(self) -> bool:
        """Whether a private key has begun, whose lines are looked at together."""
        _, begin, key = "".join(text for _, text in self._line).rpartition("-----BEGIN ")
        return bool(begin) and "PRIVATE KEY" in key[:MOST_LABEL] and "-----END " not in key

    def _end_line(self) -> None:
        pieces, self._line, self._length = self._line, [], 0
        whole = "".join(text for _, text in pieces)
        shown = self._redact(whole)
        if shown != whole:
            pieces = [(pieces[0][0], shown)]
        for at, text in pieces:
            self._event(at, "o", text)
        for border in _BORDER.finditer(shown):
            label = (
                "a command begins"
                if border[1] == "C"
                else f"a command ended{border[2].replace(';', ': ')[:8]}"
            )
            self._event(self._last, "m", label)

    def _event(self, at: float, kind: str, text: str) -> None:
        self._last = at = max(at, self._last)
        self._put((round(at, 6), kind, text))

    def _put(self, value: Any) -> None:
        if self.is_full:
            return
        line = msgspec.json.encode(value) + b"\n"
        if len(line) > self._left:
            self.is_full = True
            line = msgspec.json.encode((round(self._last, 6), "m", FULL)) + b"\n"
        self._left -= len(line)
        self._file.write(line)


def _clean(text: str) -> str:
    """The text with its broken characters spelled out."""
    return text.encode("utf-8", "backslashreplace").decode()


def read_cast(file: IO[bytes]) -> tuple[Header, Iterator[Event]]:
    """Header and events of a recording of version 2 or 3; times count from the start.

    Raises InvalidArgument.
    """
    first = _line(file)
    try:
        kind = msgspec.json.decode(first, type=dict[str, Any])
        if kind.get("version") == 3:
            terminal = kind.get("term") or {}
            kind |= {"width": terminal.get("cols", 80), "height": terminal.get("rows", 24)}
        header = msgspec.convert(kind, Header, strict=False)
        if header.version not in (2, 3):
            raise InvalidArgument(
                f"a recording of version {header.version} cannot be played; 2 and 3 can"
            )
    except (msgspec.MsgspecError, AttributeError) as error:
        raise InvalidArgument(f"this is no asciicast recording: {error}") from None
    return header, _events(file, is_relative=header.version == 3)


def _events(file: IO[bytes], *, is_relative: bool) -> Iterator[Event]:
    now = 0.0
    while line := _line(file):
        if not line.strip() or line.startswith(b"#"):
            continue
        try:
            at, kind, text = msgspec.json.decode(line, type=tuple[float, str, str])
        except msgspec.MsgspecError as error:
            raise InvalidArgument(f"the recording is damaged: {error}") from None
        now = now + at if is_relative else max(now, at)
        yield now, kind, text


def last_time(end: bytes) -> float:
    """Seconds of the last complete event in the last bytes of a recording of version 2; 0 without
    one.
    """
    for line in reversed(end.splitlines()):
        with contextlib.suppress(msgspec.MsgspecError):
            return msgspec.json.decode(line, type=tuple[float, str, str])[0]
    return 0.0


def _line(file: IO[bytes]) -> bytes:
    line = file.readline(LONGEST_EVENT + 1)
    if len(line) > LONGEST_EVENT:
        raise InvalidArgument(f"a line of the recording is longer than {LONGEST_EVENT} bytes")
    return line
