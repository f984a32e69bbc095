"""The recordings that this user keeps: files in one private directory, the oldest removed when
there are too many.
"""

import contextlib
import os
import re
import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import msgspec

from hermetic.approvals.store import state_directory
from hermetic.contract.errors import ConfigError, InvalidArgument
from hermetic.recordings.cast import Header, last_time, read_cast
from hermetic.registry.private import make_private

MOST_KEPT = 200
MOST_BYTES = 2 << 30  # of all together
LAST_BYTES = 1 << 18  # at the end of a recording, in which its last event is looked for
SUFFIX = ".cast"
_ID = re.compile(r"rec-[0-9]{8}-[0-9]{6}-[0-9a-f]{8}")


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """One kept recording."""

    id: str
    title: str
    command: str
    started: float  # seconds since 1970
    duration: float  # seconds until now
    size: int  # bytes
    width: int
    height: int
    environment: str = ""  # id
    process: str = ""  # id; empty: all commands of the environment
    is_running: bool = False  # it is being made by the server that answers


class Store:
    """The directory of recordings."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def __repr__(self) -> str:
        return f"<Store of recordings in {self.directory}>"

    @classmethod
    def of_user(cls, environ: Mapping[str, str]) -> "Store":
        """The user's own. Raises ConfigError without a home."""
        own = state_directory(environ)
        if own is None:
            raise ConfigError(
                "there is no home for recordings; set XDG_STATE_HOME, or name a file",
                setting="HOME",
            )
        return cls(own / "recordings")

    def create(self, now: float | None = None) -> tuple[str, IO[bytes]]:
        """The id of a new recording, and its file. Raises ConfigError, OSError."""
        make_private(self.directory, "XDG_STATE_HOME")
        self._prune()
        began = time.strftime("%Y%m%d-%H%M%S", time.localtime(now))
        id = f"rec-{began}-{secrets.token_hex(4)}"
        return id, create_file(self.path(id))

    def path(self, id: str) -> Path:
        """The file of a recording. Raises InvalidArgument for what is no id."""
        if not _ID.fullmatch(id):
            raise InvalidArgument(
                f"no recording {id!r} is kept; `hermetic record --list` lists them", argument="id"
            )
        return self.directory / f"{id}{SUFFIX}"

    def all(self) -> list[Recording]:
        """The newest first."""
        found = []
        for name in sorted(self._names(), reverse=True):
            with contextlib.suppress(OSError, InvalidArgument):  # removed meanwhile, or damaged
                found.append(self.read(name.removesuffix(SUFFIX)))
        return found

    def read(self, id: str) -> Recording:
        """What is known of one. Raises InvalidArgument for what is no id or damaged, OSError."""
        path = self.path(id)
        with open(path, "rb") as file:
            header: Header = read_cast(file)[0]
            size = os.fstat(file.fileno()).st_size
            file.seek(max(file.tell(), size - LAST_BYTES))
            duration = last_time(file.read())
        return Recording(
            id=id,
            title=header.title,
            command=header.command,
            started=header.timestamp,
            duration=duration,
            size=size,
            width=header.width,
            height=header.height,
            environment=header.hermetic.get("environment", ""),
            process=header.hermetic.get("process", ""),
        )

    def remove(self, id: str) -> None:
        """Raises InvalidArgument when there is none."""
        try:
            self.path(id).unlink()
        except FileNotFoundError:
            raise InvalidArgument(f"no recording {id!r} is kept", argument="id") from None

    def _names(self) -> list[str]:
        try:
            return [
                name
                for name in os.listdir(self.directory)
                if _ID.fullmatch(name.removesuffix(SUFFIX))
            ]
        except FileNotFoundError:
            return []

    def _prune(self) -> None:
        """Removes the oldest, so that one more fits."""
        paths = [self.directory / name for name in sorted(self._names(), reverse=True)]
        total = 0
        for number, path in enumerate(paths):
            with contextlib.suppress(OSError):
                total += path.stat().st_size
                if number >= MOST_KEPT - 1 or total > MOST_BYTES:
                    path.unlink()


def create_file(path: Path) -> IO[bytes]:
    """A new file that its user alone can read. Raises OSError where there is one."""
    return open(path, "xb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW, 0o600))
