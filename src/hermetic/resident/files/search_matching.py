"""Matching lines of files, found by ripgrep or in Python."""

from __future__ import annotations

import os
import re

from ..limits import FILE_SAMPLE, SEARCH_BLOCK
from ..wire.fields import invalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..wire.fields import Refusal
    from .search_rules import Glob

_CLASSES = {
    "alpha": "a-zA-Z",
    "digit": "0-9",
    "alnum": "a-zA-Z0-9",
    "upper": "A-Z",
    "lower": "a-z",
    "xdigit": "0-9A-Fa-f",
    "space": r"\s",
    "word": r"\w",
    "punct": r"!-/:-@\[-`{-~",
    "blank": r" \t",
}
_CLASS = re.compile(r"\[:(\w+):\]")
_LOOKS_AROUND = re.compile(r"\(\?<?[=!]|\(\?>|\\[AZzGB]|\(\?[a-z]*-|[*+?}]\+")


class Pattern:
    """A regular expression for one line, in the syntax that ripgrep and Python share."""

    def __init__(self, text: str) -> None:
        if "\n" in text or "\\n" in text:
            raise _invalid("it has a newline in it, and lines are looked at one by one")
        plain = _CLASS.sub(lambda found: _CLASSES.get(found.group(1), found.group(0)), text)
        plain = re.sub(r"(?<!\\)((?:\\\\)*)\\z", r"\1\\Z", plain).replace("(?<", "(?P<")
        plain = plain.replace("(?P<=", "(?<=").replace("(?P<!", "(?<!")
        try:
            self.line = re.compile(plain)
            self.anywhere = None if _LOOKS_AROUND.search(plain) else re.compile(plain, re.MULTILINE)
        except (re.error, OverflowError, RecursionError) as error:
            raise _invalid(str(error)) from error

    def matches(self, line: str) -> bool:
        return self.line.search(line) is not None

    def may_match(self, text: str) -> bool:
        """False if no line of the text can match: faster than testing each line."""
        return self.anywhere is None or self.anywhere.search(text.replace("\r\n", "\n")) is not None


def _invalid(why: str) -> Refusal:
    message = (
        "the pattern cannot be searched for: %s; escape what is meant literally with a backslash"
        % why
    )
    return invalid("pattern", message)


class File:
    """An open file to search, below an open directory. Raises OSError."""

    def __init__(self, path: str, directory: int) -> None:
        self.path = path
        self.fd = os.open(
            path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW, dir_fd=directory
        )

    def read(self, size: int) -> bytes:
        """Its next bytes."""
        try:
            return os.read(self.fd, size)
        except OSError:  # a failing disk, or an unreadable kernel file
            return b""

    def __enter__(self) -> File:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)


def texts(file: File) -> Iterator[str]:
    """A file in pieces that end at line ends; nothing for a binary file."""
    data = file.read(SEARCH_BLOCK)
    if data[:2] in (b"\xff\xfe", b"\xfe\xff") and data[:4] != b"\xff\xfe\0\0":
        while piece := file.read(SEARCH_BLOCK):
            data += piece
        yield data.decode("utf-16", "replace")
        return
    if b"\0" in data[:FILE_SAMPLE]:
        return
    data = data[3:] if data[:3] == b"\xef\xbb\xbf" else data
    while data:
        end = data.rfind(b"\n") + 1
        more = file.read(SEARCH_BLOCK)
        if not more:
            end = len(data)
        elif not end:  # one long line
            data += more
            continue
        yield data[:end].decode("utf-8", "surrogateescape")
        data = data[end:] + more


def count(file: File, pattern: Pattern) -> int:
    """Number of matching lines."""
    return sum(1 for _, _, is_match in lines(file, pattern, 0) if is_match)


def lines(file: File, pattern: Pattern, context: int) -> Iterator[tuple[int, str, bool]]:
    """`(number, text, is_match)` of matching lines and their context."""
    before: list[tuple[int, str]] = []
    after, number = 0, 0
    for text in texts(file):
        if not context and not pattern.may_match(text):
            number += text.count("\n")
            continue
        split = text.split("\n")
        if not split[-1]:
            split.pop()
        for line in split:
            number += 1
            line = line[:-1] if line.endswith("\r") else line
            if pattern.matches(line):
                for earlier in before:
                    yield earlier[0], earlier[1], False
                before, after = [], context
                yield number, line, True
            elif after:
                after -= 1
                yield number, line, False
            elif context:
                before = [*before, (number, line)][-context:]


def opened(path: str, directory: int) -> File | None:
    """The file; None if it cannot be opened. The caller closes it."""
    try:
        return File(path, directory)
    except OSError:
        return None


_OPTIONS = (
    "--no-config",
    "--color=never",
    "--no-messages",
    "--no-ignore-global",
    "--no-ignore-exclude",
    "--no-require-git",
    "--null",
)
RECORD_BYTES = 64 << 10  # more than any path and shown line
_MATCHING = ("--text", "--crlf")


class Unfit(Exception):
    """ripgrep cannot perform this search."""


class Ripgrep:
    """Runs ripgrep in the searched directory. Created in a child, which changes its cwd."""

    def __init__(self, program: str, directory: int, name: str | None) -> None:
        self.program, self.target = program, "./" + name if name is not None else "."
        os.fchdir(directory)

    def names(self) -> Iterator[str]:
        for record in self._records(["--files", *_OPTIONS, "--", self.target], b"\0"):
            yield _path(record)

    def counts(self, pattern: str, glob: Glob | None) -> Iterator[tuple[str, int]]:
        options = ["--count", "--with-filename", *_OPTIONS, *_MATCHING]
        if glob is not None and not glob.has_slash and self.target == ".":
            options += ["--type-add", "wanted:" + glob.text, "--type", "wanted"]
        for record in self._records([*options, "-e", pattern, "--", self.target], b"\n"):
            path, _, number = record.rstrip(b"\r").rpartition(b"\0")
            if number.isdigit():
                yield _path(path), int(number)

    def lines(self, pattern: str, path: str, context: int) -> Iterator[tuple[int, str, bool]]:
        options = [
            "--line-number",
            "--no-heading",
            "--with-filename",
            "--no-context-separator",
            "--context=%d" % context,
            *_OPTIONS,
            *_MATCHING,
        ]
        for record in self._records([*options, "-e", pattern, "--", "./" + path], b"\n"):
            rest = record.partition(b"\0")[2]
            digits = len(rest) - len(rest.lstrip(b"0123456789"))
            text = rest[digits + 1 :]
            text = text[:-1] if text.endswith(b"\r") else text
            yield (
                int(rest[:digits] or b"0"),
                text.decode("utf-8", "surrogateescape"),
                rest[digits : digits + 1] == b":",
            )

    def _records(self, arguments: list[str], end: bytes) -> Iterator[bytes]:
        """Records of ripgrep's output, split at `end`. Raises Unfit if it failed without output."""
        read, write = os.pipe2(os.O_CLOEXEC)
        null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        actions = [
            (os.POSIX_SPAWN_DUP2, null, 0),
            (os.POSIX_SPAWN_DUP2, write, 1),
            (os.POSIX_SPAWN_DUP2, null, 2),
        ]
        pid = os.posix_spawn(self.program, ["rg", *arguments], os.environ, file_actions=actions)
        os.close(write)
        os.close(null)
        said, rest = False, b""
        try:
            while data := os.read(read, 1 << 18):
                said = True
                *records, rest = (rest + data).split(end)
                yield from records
                rest = rest[:RECORD_BYTES]  # a longer line is not shown whole
            if rest:
                yield rest
        finally:
            os.close(read)  # SIGPIPE ends ripgrep if the caller stopped early
            status = os.waitpid(pid, 0)[1]
        if not said and os.WIFEXITED(status) and os.WEXITSTATUS(status) > 1:
            raise Unfit


def _path(record: bytes) -> str:
    return os.fsdecode(record[2:] if record.startswith(b"./") else record)
