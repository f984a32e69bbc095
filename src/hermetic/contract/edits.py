"""What an edit of files does and did."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from hermetic.contract.brief import Brief
from hermetic.contract.files import Written


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A file before and after an edit; None is a file that is not there."""

    path: str  # as it was given
    before: bytes | None
    after: bytes | None
    source: str | None = None  # the path it had before, whose mode it keeps


class Oversight(Protocol):
    """Who is asked about an edit; what it raises ends the edit with nothing written."""

    async def allow(self, paths: Sequence[str]) -> None:
        """May the files with these true paths be edited? Asked before anything is read."""

    def check(self, changes: Sequence[Change]) -> None:
        """Is this what should become of them? Asked before anything is written."""


class Patched(Brief, frozen=True, kw_only=True):
    """Result of an edit. Paths are as given."""

    diff: str  # unified, cut to a budget
    modified: tuple[str, ...] = ()
    created: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    strategy: str = ""  # replace: how the text was found
    lines: tuple[int, ...] = ()  # replace: first lines of the replaced parts, from 1
    written: tuple[Written, ...] = ()  # with resolved paths, deleted files too
