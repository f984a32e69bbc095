"""Parses patches in the V4A format into operations, in their order.

*** Begin Patch
*** Update File: src/a.py
*** Move to: src/b.py           only where the file gets another name
@@ def f():                     optional: a line above the place; several narrow it down
 a line that stays
-a line that goes
+a line that comes
*** End of File                 optional: the lines above are the last of the file
*** Add File: new.txt
+its text
*** Delete File: old.txt
*** Move File: c.txt -> d.txt
*** End Patch
"""

import re
from typing import NoReturn

import msgspec

from hermetic.contract.errors import EditRefused

_HEADER = re.compile(r"\*\*\* (Add|Update|Delete|Move) File:[ \t]*(.*?)[ \t]*\Z")
_NUMBERS = re.compile(r"\A-\d+(?:,\d+)? \+\d+(?:,\d+)? ?@@")
_ESCAPES = {"n": "\n", "t": "\t", "r": "", '"': '"', "\\": "\\"}
_NO_NEWLINE = "\\ No newline at end of file"
HINT = "begin it with *** Add File: PATH, *** Update File: PATH, *** Delete File: PATH or *** Move File: OLD -> NEW"


class Hunk(msgspec.Struct, frozen=True, kw_only=True):
    """One place of a file: lines with their sign, which is a space, - or +."""

    number: int  # the line of the patch that it begins in
    hints: tuple[str, ...] = ()
    lines: tuple[tuple[str, str], ...] = ()
    at_end: bool = False

    @property
    def old(self) -> list[str]:
        """The lines that are there before."""
        return [text for sign, text in self.lines if sign != "+"]

    @property
    def new(self) -> list[str]:
        """The lines that are there after."""
        return [text for sign, text in self.lines if sign != "-"]


class Add(msgspec.Struct, frozen=True, kw_only=True):
    """A new file."""

    path: str
    number: int
    text: str


class Update(msgspec.Struct, frozen=True, kw_only=True):
    """Changes of a file; with `to` it also gets another name."""

    path: str
    number: int
    hunks: tuple[Hunk, ...] = ()
    to: str | None = None


class Delete(msgspec.Struct, frozen=True, kw_only=True):
    """A file that goes."""

    path: str
    number: int


Operation = Add | Update | Delete


def parse(patch: str) -> list[Operation]:
    """What the patch asks for. Raises EditRefused that names the line."""
    reader = _Reader(patch)
    operations = []
    while (line := reader.next_header()) is not None:
        operations.append(_operation(reader, line))
    if not operations:
        raise EditRefused(
            f"the patch asks for nothing; {HINT}", reason="malformed", argument="patch"
        )
    return operations


class _Reader:
    """The lines of a patch, one at a time, without what wraps it."""

    def __init__(self, patch: str) -> None:
        if "\n" not in patch.strip():  # escaped once too often
            patch = re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[0]), patch)
        self._lines = patch.replace("\r\n", "\n").split("\n")
        begins = [at for at, line in enumerate(self._lines) if line.strip() == "*** Begin Patch"]
        self._at = begins[0] + 1 if begins else 0
        self._has_begin = bool(begins)
        self._text_at = -1

    @property
    def number(self) -> int:
        """Of the line that was read last."""
        return self._at

    def next_header(self) -> str | None:
        """The next line that is not blank, in which an operation begins; None at the end."""
        while (line := self.peek()) is not None:
            self._at += 1
            if line.strip() == "*** End Patch":
                break
            if line.strip() and not (line.startswith("```") and not self._has_begin):
                return line
        return None

    def peek(self) -> str | None:
        """The next line, which stays; None at the end."""
        return self._lines[self._at] if self._at < len(self._lines) else None

    def peek_pair(self) -> tuple[str, ...]:
        """How the next two lines begin."""
        return tuple(line[:4] for line in self._lines[self._at : self._at + 2])

    def body(self) -> str | None:
        """The next line, if it is no header of another operation."""
        line = self.peek()
        if line is None or _HEADER.match(line) or line.strip() == "*** End Patch":
            return None
        self._at += 1
        return line

    def blank_until_header(self) -> bool:
        """True where nothing but blank lines comes before the next header."""
        if self._text_at < self._at:  # else the next line with text is the one found before
            self._text_at = self._at
            while self._text_at < len(self._lines) and not self._lines[self._text_at].strip():
                self._text_at += 1
        return self._text_at == len(self._lines) or self._lines[self._text_at].startswith(
            ("*** ", "@@", "```")
        )


def _operation(reader: _Reader, line: str) -> Operation:
    number = reader.number
    header = _HEADER.match(line)
    if header is None:
        _malformed(number, f"{line.strip()[:80]!r} is no operation; {HINT}")
    kind, path = header[1], _unquoted(header[2])
    if kind == "Move":
        path, arrow, to = (part.strip() for part in path.partition("->"))
        if not arrow or not to:
            _malformed(number, "a move is written *** Move File: OLD -> NEW")
        return Update(path=_path(path, number), number=number, to=_path(_unquoted(to), number))
    _path(path, number)
    if kind == "Delete":
        while (rest := reader.body()) is not None:
            if rest.strip():
                _malformed(reader.number, "a deletion has no lines of its own")
        return Delete(path=path, number=number)
    if kind == "Add":
        return Add(path=path, number=number, text=_added(reader))
    return _update(reader, path, number)


def _added(reader: _Reader) -> str:
    lines: list[str] = []
    while not reader.blank_until_header() and (line := reader.body()) is not None:
        if line == _NO_NEWLINE:
            return "\n".join(lines)
        if line.strip() and not line.startswith("+"):
            _malformed(reader.number, "each line of a new file begins with +")
        lines.append(line[1:])
    while (line := reader.body()) is not None and not line.strip():
        pass
    return "".join(f"{line}\n" for line in lines)


def _update(reader: _Reader, path: str, number: int) -> Update:
    to = None
    line = reader.peek()
    if line is not None and line.startswith("*** Move to:"):
        reader.body()
        to = _path(_unquoted(line.partition(":")[2].strip()), reader.number)
    if reader.peek_pair() == ("--- ", "+++ "):  # the names of a unified diff, once more
        reader.body()
        reader.body()
    hunks = []
    while (hunk := _hunk(reader)) is not None:
        hunks.append(hunk)
    if not hunks and to is None:
        _malformed(
            number,
            f"the update of {path} has no lines; give what stays with a space, what goes with -, what comes with +",
        )
    return Update(path=path, number=number, hunks=tuple(hunks), to=to)


def _hunk(reader: _Reader) -> Hunk | None:
    hints: list[str] = []
    lines: list[tuple[str, str]] = []
    at_end = False
    number = 0
    while not at_end and (line := reader.peek()) is not None:
        if line.startswith("@@") and lines:
            break
        blank = not line.strip() and reader.blank_until_header()
        if reader.body() is None:
            break
        if blank or line == _NO_NEWLINE or line.startswith("```"):
            continue
        number = number or reader.number
        if line.startswith("@@"):
            hints += filter(None, [_hint(line)])
        elif line.strip() == "*** End of File":
            at_end = True
        else:
            lines.append(_signed(line, reader.number))
    if not lines:
        if hints:
            _malformed(number, "no lines follow after @@; give what changes there with - and +")
        return None
    if all(sign == " " for sign, _ in lines):
        _malformed(number, "no line of it begins with - or +, so that nothing would change")
    return Hunk(number=number, hints=tuple(hints), lines=tuple(lines), at_end=at_end)


def _signed(line: str, number: int) -> tuple[str, str]:
    if not line:
        return " ", ""
    if line[0] not in " +-":
        _malformed(
            number,
            f"{line[:80]!r} begins with neither a space, - nor +; a line that stays begins with a space",
        )
    return line[0], line[1:]


def _hint(line: str) -> str:
    text = line.removeprefix("@@").strip()
    return _NUMBERS.sub("", text).removesuffix("@@").strip()


def _unquoted(path: str) -> str:
    return path[1:-1] if len(path) > 1 and path[0] == path[-1] and path[0] in "\"'`" else path


def _path(path: str, number: int) -> str:
    if not path:
        _malformed(number, "the path is missing")
    if ".." in path.split("/"):
        _malformed(
            number,
            f"{path}: a path in a patch holds no ..; name the file from the working directory or from /",
        )
    return path


def _malformed(number: int, why: str) -> NoReturn:
    raise EditRefused(f"line {number} of the patch: {why}", reason="malformed", argument="patch")
