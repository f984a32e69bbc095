"""Records of this host's environments: one private directory each, found by task or id."""

import contextlib
import hashlib
import os
import secrets
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import lru_cache
from pathlib import Path

import msgspec

from hermetic.contract.environment import EnvironmentRecord
from hermetic.contract.errors import ConfigError, Unreachable
from hermetic.registry.file_lock import locked, locked_at_once
from hermetic.registry.janitor_process import remove_tree
from hermetic.registry.private import make_private

RECORD = "env.json"
STALLED = "stalled"  # a file in the same directory while the resident does not answer
SETTING = "HERMETIC_RUNTIME_DIR"
LONGEST_ROOT = 70  # of the 107 bytes of a Unix socket's path; the rest is for names below it


def runtime_path() -> Path:
    """The runtime directory of this user, which may not exist."""
    return Path(runtime_name()).absolute()


def runtime_name() -> str:
    """The same as it is configured, perhaps relative."""
    if chosen := os.environ.get(SETTING):
        return chosen
    if session := os.environ.get("XDG_RUNTIME_DIR"):
        return f"{session}/hermetic"
    return f"/tmp/hermetic-{os.geteuid()}"


def real_runtime_path() -> str:
    """The runtime directory with links resolved, cached by inode."""
    path = runtime_name()
    try:
        status = os.stat(path)
    except OSError:
        return os.path.realpath(path)
    return _resolved(path, status.st_dev, status.st_ino)


@lru_cache(maxsize=16)
def _resolved(path: str, device: int, inode: int) -> str:
    return os.path.realpath(path)


def runtime_root() -> Path:
    """The same directory, private, made if missing. Raises ConfigError."""
    root = runtime_path()
    if len(os.fsencode(root)) > LONGEST_ROOT:
        raise ConfigError(
            f"{root} is too long for the path of a socket; set {SETTING} to a shorter one",
            setting=SETTING,
        )
    return make_private(root, SETTING)


def check_own(record: EnvironmentRecord, name: str, is_own: bool) -> None:
    """Raises Unreachable for a name in a record that was not made for it, so that nothing else is
    removed.
    """
    if not is_own:
        message = f"the record of {record.id} names {name!r}, which was not made for it; nothing was removed there"
        raise Unreachable(message, environment=record.id, state="damaged")


def is_own_directory(record: EnvironmentRecord, path: str) -> bool:
    """Whether a directory on another machine is that of the record's resident, by its name."""
    return os.path.basename(path) == record.resident and record.resident.startswith(f"{record.id}.")


class DamagedRecord(Unreachable):
    """A record cannot be read, or names files of others.

    The environment may live; its token is unknown.
    """

    def __init__(self, path: Path, why: str) -> None:
        id = path.parent.name
        message = f"the record {path} is damaged ({why}); `hermetic rm {id}` ends what lives there"
        super().__init__(message, environment=id, state="damaged")


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
        """The environment of a task: made for it, or made ahead and given to it later.

        Raises as `read` does.
        """
        if record := self.read(id_for_task(task)):
            return record
        return next((record for record in self._usable("e-") if record.task == task), None)

    def read(self, id: str) -> EnvironmentRecord | None:
        """The record with this id; None when there is none. Raises DamagedRecord, OSError."""
        path = self.root / id / RECORD
        try:
            record = msgspec.json.decode(path.read_bytes(), type=EnvironmentRecord)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (msgspec.MsgspecError, UnicodeDecodeError, IsADirectoryError) as error:
            raise DamagedRecord(path, str(error)) from error
        if fault := self._fault(record, id):
            raise DamagedRecord(path, fault)
        return record

    def _fault(self, record: EnvironmentRecord, id: str) -> str | None:
        """The first path of a record that was not made for it, described; only own paths are
        removed.
        """
        if record.id != id:
            return f"it names the id {record.id!r}"
        own = f"{self.root}/{id}"
        if record.directory != own and os.path.realpath(record.directory) != os.path.realpath(own):
            return f"it names the directory {record.directory!r}"
        if record.spool is not None:
            folder, _, last = record.spool.rpartition("/")
            rest = last.removeprefix(f"{id}.{tag_of(os.path.dirname(record.directory))}.")
            is_whole = bool(folder) and os.path.normpath(record.spool) == record.spool
            if not is_whole or rest == last or not rest.isalnum():
                return f"it names the spool {record.spool!r}"
        return None

    def all(self) -> list[EnvironmentRecord]:
        """Every record that can be used, oldest first; whether its resident lives is not known from
        it.
        """
        return sorted(self._usable(), key=lambda record: record.created)

    def _usable(self, start: str = "") -> Iterator[EnvironmentRecord]:
        """The records whose ids begin so, without the damaged ones."""
        for name in os.listdir(self.root):
            with contextlib.suppress(DamagedRecord):
                if name.startswith(start) and is_id(name) and (record := self.read(name)):
                    yield record

    def damaged(self) -> list[DamagedRecord]:
        """The records that cannot be used; `environment` is the id of each."""
        found = []
        for name in filter(is_id, os.listdir(self.root)):
            try:
                self.read(name)
            except DamagedRecord as error:
                found.append(error)
        return found

    def set_stalled(self, id: str, is_stalled: bool) -> None:
        """Remembers since when an environment does not answer, for the next caller; or that it
        answers again.
        """
        path = f"{self.root}/{id}/{STALLED}"
        with contextlib.suppress(OSError):  # the directory goes with the environment
            if is_stalled:
                fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                with open(fd, "w") as file:
                    file.write(f"{_boot()} {time.monotonic()}")
            else:
                os.unlink(path)

    def stalled_since(self, id: str) -> float | None:
        """When the environment was first seen stalled, in seconds since 1970; None while it
        answers.
        """
        try:
            return (self.root / id / STALLED).stat().st_mtime
        except OSError:
            return None

    def stalled_for(self, id: str) -> float:
        """Seconds since it stalled, without those for which this machine was suspended or off."""
        try:
            boot, noted = (self.root / id / STALLED).read_text().split()
            return time.monotonic() - (float(noted) if boot == _boot() else 0.0)
        except (OSError, ValueError):
            return 0.0

    def make_directory(self, id: str) -> Path:
        """A new directory for a resident; removes that of an earlier one with this id."""
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
        # Moved away first: a late cleanup of the old resident must not find the new one's files.
        aside = self.root / f".{id}.{secrets.token_hex(4)}"
        with contextlib.suppress(FileNotFoundError):
            (self.root / id).rename(aside)
            remove_tree(aside)

    @property
    def tag(self) -> str:
        """Tag of this runtime directory in names of shared directories."""
        return tag_of(self.root)

    @asynccontextmanager
    async def lock(self, id: str) -> AsyncIterator[None]:
        """Held by the one process that opens, replaces or removes this environment."""
        async with locked(self.root / f"{id}.lock"):
            yield

    def lock_at_once(self, id: str) -> AbstractAsyncContextManager[bool]:
        """The same without waiting: False if another process holds it."""
        return locked_at_once(self.root / f"{id}.lock")


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def tag_of(root: str | Path) -> str:
    """The tag of a runtime directory."""
    return hashlib.sha256(os.fsencode(root)).hexdigest()[:16]


def id_for_task(task: str) -> str:
    """The id of a task's environment: the same in every process."""
    return f"t-{hashlib.sha256(task.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def new_id() -> str:
    """The id of an environment without a task."""
    return f"e-{secrets.token_hex(6)}"


def is_id(text: str) -> bool:
    """True for a valid id of an environment, which is the name of its directory."""
    return text[:2] in ("t-", "e-") and text[2:].isalnum()
