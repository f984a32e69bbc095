"""Everything that a text does, harmless or not, for rules that name programs, paths and hosts."""

from __future__ import annotations

from typing import Literal

import msgspec

from .marks import UNKNOWN, shown

Deed = Literal["run", "write", "delete", "read", "reach"]
Scope = Literal["", "one", "tree"]


class Act(msgspec.Struct, frozen=True):
    """One thing that a text does."""

    deed: Deed
    words: tuple[str, ...] = ()  # of a program that runs
    path: str = ""  # that is written, deleted or read; whole
    host: str = ""  # that is reached
    scope: Scope = ""  # of a path that is deleted and not moved: itself, or with all below it

    @property
    def is_known(self) -> bool:
        """False when a part of it is only known when it runs."""
        return not any(
            mark in text for text in (*self.words, self.path, self.host) for mark in UNKNOWN
        )

    def shown(self) -> str:
        """It as a person should see it."""
        return shown(" ".join(self.words) or self.path or self.host)
