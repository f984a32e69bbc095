"""Files of an environment, as their callers see them."""

from collections.abc import Sequence
from typing import Literal

import msgspec


class FileStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A file at one moment. `signature` differs when it was changed or replaced; that of a missing file is ""."""

    path: str  # the true one: whole, without links
    kind: Literal["file", "directory", "other"]
    size: int  # bytes
    mode: int
    mtime: float  # seconds since 1970
    signature: str


class FileContent(msgspec.Struct, frozen=True, kw_only=True):
    """What a file holds, and what it was like when it was read."""

    data: bytes
    status: FileStatus


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """A file that was written, moved or deleted."""

    path: str  # the true one
    size: int = 0  # bytes
    signature: str = ""
    created: bool = False  # there was none before
    made: tuple[str, ...] = ()  # directories that were missing


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """Where files may be read or changed; held to in the environment itself, by the true path."""

    root: str | None = None  # nowhere but below it
    deny: Sequence[str] = ()  # patterns of true paths: `*` is anything, `~/` the home directory there
