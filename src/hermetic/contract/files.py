"""Files of an environment, as their callers see them."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from hermetic.contract.brief import Brief


class FileStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A file at one moment.

    `signature` differs when it was changed or replaced; that of a missing file is "".
    """

    path: str  # absolute and resolved
    kind: Literal["file", "directory", "other", "missing"]
    size: int  # bytes
    mode: int
    mtime: float  # seconds since 1970
    signature: str


class FileContent(Brief, frozen=True, kw_only=True):
    """A file's content and its status when it was read."""

    data: bytes
    status: FileStatus


class FilePage(Brief, frozen=True, kw_only=True):
    """Lines of a file, and their total number."""

    status: FileStatus
    text: str = ""  # the lines, joined by newlines; a carriage return at the end of one stays
    first: int = 1  # the number of the first, from 1
    lines: int = 0  # number of lines in `text`
    total: int = 0  # number of lines in the file
    cut: dict[int, int] = {}  # of cut lines: number → bytes of the line
    encoding: str = "utf-8"
    mark: bytes = b""  # the byte order mark that the file begins with
    is_binary: bool = False  # then there are no lines
    head: bytes = b""  # first bytes of a binary file


class Found(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """One line in the result of a search."""

    path: str  # below the searched directory
    line: int
    text: str
    is_match: bool  # False for a context line


class Findings(Brief, frozen=True, kw_only=True):
    """Result of a search, sorted by path; files by name with the newest first."""

    total: int  # matches; files with output_mode files_only and for names
    shown: int  # matches or files in this result
    truncated: bool  # there are more
    engine: str  # ripgrep or python
    matches: tuple[Found, ...] = ()
    counts: tuple[tuple[str, int], ...] = ()  # file and number of matching lines


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """A file that was written, moved or deleted."""

    path: str  # the true one
    size: int = 0  # bytes
    signature: str = ""
    created: bool = False  # there was none before
    made: tuple[str, ...] = ()  # directories that were missing


class FileChange(msgspec.Struct, frozen=True, kw_only=True):
    """What a file is to hold, or that it is to go."""

    path: str
    content: bytes | None  # None: it goes
    expect: str | None = None  # the signature it must have; "" is that of a missing file
    mode: int | None = None  # None: that of the file before


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """Where files may be read or changed; enforced in the environment itself, on the resolved path."""

    root: str | None = None  # nowhere but below it
    # patterns of resolved paths: `*` is anything, `~/` the home directory there
    deny: Sequence[str] = ()
    exact: bool = False  # the path is resolved; a link in it is an error
