"""What this host remembers of its environments: one private directory each, found by task or id."""

import contextlib
import hashlib
import os
import secrets
import shutil
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import msgspec

from hermetic.contract.environment import EnvironmentRecord
from hermetic.contract.errors import ConfigError
from hermetic.environments.file_lock import locked, locked_at_once
from hermetic.environments.private import make_private

RECORD = "env.json"
SETTING = "HERMETIC_RUNTIME_DIR"
LONGEST_ROOT = 70  # of the 107 bytes that the path of a Unix socket has; the rest is for what lies inside


def runtime_path() -> Path:
    """Where the records of this user lie, made or not."""
    if chosen := os.environ.get(SETTING):
        return Path(chosen).absolute()
    if session := os.environ.get("XDG_RUNTIME_DIR"):
        return Path(session, "hermetic")
    return Path(f"/tmp/hermetic-{os.geteuid()}")


def runtime_root() -> Path:
    """The same directory, private, made if missing. Raises ConfigError."""
    root = runtime_path()
    if len(os.fsencode(root)) > LONGEST_ROOT:
        raise ConfigError(
            f"{root} is too long for the path of a socket; set {SETTING} to a shorter one", setting=SETTING
        )
    return make_private(root, SETTING)


class Records:
    """The environments of one runtime directory."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def __repr__(self) -> str:
        return f"<Records in {self.root}>"

    def find(self, task_or_id: str) -> EnvironmentRecord | None:
        """The environment of a task, or with that id; None when there is no record of it."""
        return self.of_task(task_or_id) or (self.read(task_or_id) if is_id(task_or_id) else None)

    def of_task(self, task: str) -> EnvironmentRecord | None:
        """The environment of a task: made for it, or made ahead and given to it later."""
        if record := self.read(id_for_task(task)):
            return record
        ahead = (self.read(name) for name in os.listdir(self.root) if is_id(name) and name.startswith("e-"))
        return next((record for record in ahead if record is not None and record.task == task), None)

    def read(self, id: str) -> EnvironmentRecord | None:
        """The record with this id; None when there is none that can be read."""
        try:
            return msgspec.json.decode((self.root / id / RECORD).read_bytes(), type=EnvironmentRecord)
        except (OSError, msgspec.DecodeError):
            return None

    def all(self) -> list[EnvironmentRecord]:
        """Every record there is, oldest first; whether its resident lives is not known from it."""
        found = [self.read(entry.name) for entry in self.root.iterdir() if is_id(entry.name)]
        return sorted((record for record in found if record), key=lambda record: record.created)

    def make_directory(self, id: str) -> Path:
        """A fresh directory for a resident; what an earlier one with this id left is taken away."""
        self.discard(id)
        directory = self.root / id
        directory.mkdir(mode=0o700)
        return directory

    def write(self, record: EnvironmentRecord) -> None:
        """Remembers an environment, all at once or not at all."""
        directory = self.root / record.id
        aside = directory / f"{RECORD}.new"
        fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(fd, "wb") as file:
            file.write(msgspec.json.encode(record))
        aside.rename(directory / RECORD)

    def discard(self, id: str) -> None:
        """Forgets an environment whose resident is gone."""
        # Moved away first: a resident that is still cleaning up must not meet a new one's files.
        aside = self.root / f".{id}.{secrets.token_hex(4)}"
        with contextlib.suppress(FileNotFoundError):
            (self.root / id).rename(aside)
            shutil.rmtree(aside, ignore_errors=True)

    @property
    def mark(self) -> str:
        """Tells what was made for this runtime directory, where others are at work too."""
        return hashlib.sha256(os.fsencode(self.root)).hexdigest()[:16]

    @asynccontextmanager
    async def lock(self, id: str) -> AsyncIterator[None]:
        """Held by one process at a time: who opens, replaces or removes this environment."""
        async with locked(self.root / f"{id}.lock"):
            yield

    def lock_at_once(self, id: str) -> AbstractAsyncContextManager[bool]:
        """The same without waiting: False where another one holds it."""
        return locked_at_once(self.root / f"{id}.lock")


def id_for_task(task: str) -> str:
    """The id of a task's environment: the same in every process."""
    return f"t-{hashlib.sha256(task.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def new_id() -> str:
    """The id of an environment without a task."""
    return f"e-{secrets.token_hex(6)}"


def is_id(text: str) -> bool:
    """True for what can be the id of an environment, and so the name of its directory."""
    return text[:2] in ("t-", "e-") and text[2:].isalnum()
