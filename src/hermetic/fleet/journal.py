"""The journal of a batch: a file of JSON lines that says which tasks began and how they ended.

It is also the batch's result file. A line is complete or ignored, so a caller that is killed while
it writes one loses that line alone.
"""

import asyncio
import fcntl
import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import msgspec

from hermetic.contract.errors import ConfigError, InvalidArgument
from hermetic.contract.variables import is_text

VERSION = 1


class BatchTask(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line of a task file."""

    id: str = ""  # unique in the file; else the number of its line
    command: str | tuple[str, ...]
    stdin: str = ""
    timeout: float | None = None  # seconds; None: that of the batch
    cwd: str | None = None
    env: dict[str, str] = {}
    options: dict[str, Any] = {}  # of its environment, besides those of the batch


class Header(msgspec.Struct, frozen=True, kw_only=True, tag="batch"):
    """The first line: which tasks the journal is for."""

    version: int = VERSION
    name: str  # of the batch, in the names of its environments
    kind: str
    tasks: str  # digest of the tasks
    total: int


class Began(msgspec.Struct, frozen=True, kw_only=True, tag="began"):
    """The command of a task is about to start in this environment."""

    task: str
    environment: str
    resident: str


class Ended(msgspec.Struct, frozen=True, kw_only=True, tag="ended"):
    """The one result of a task."""

    task: str
    outcome: Literal["passed", "failed", "timed out", "lost"]
    exit_code: int | None
    ending: str
    output: str = ""  # head and tail
    total_bytes: int = 0
    seconds: float = 0.0
    environment: str = ""


class Troubled(msgspec.Struct, frozen=True, kw_only=True, tag="troubled"):
    """No environment could be used for a task; its command did not begin.

    A later run tries it again.
    """

    task: str
    error: str


class Interrupted(msgspec.Struct, frozen=True, kw_only=True, tag="interrupted"):
    """The caller was stopped and has ended the task's environment.

    A later run begins the task anew.
    """

    task: str


_decoder = msgspec.json.Decoder(Header | Began | Ended | Troubled | Interrupted)


def read_tasks(path: Path) -> list[BatchTask]:
    """The tasks of a file of JSON lines. Raises InvalidArgument that names the line."""
    found: list[BatchTask] = []
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        message = f"the tasks cannot be read from {path}: {error.strerror or error}; give a file of JSON lines"
        raise InvalidArgument(message, argument="tasks") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            task = msgspec.json.decode(line, type=BatchTask)
        except msgspec.DecodeError as error:
            message = f'{path}, line {number}: {error}; a line is {{"id": …, "command": …}}'
            raise InvalidArgument(message, argument="tasks") from error
        found.append(task if task.id else msgspec.structs.replace(task, id=str(number)))
    if not found:
        message = f'{path} names no task; a line is {{"id": …, "command": …}}'
        raise InvalidArgument(message, argument="tasks")
    ids = [task.id for task in found]
    if twice := next((id for id, count in Counter(ids).items() if count > 1), None):
        raise InvalidArgument(f"{path}: the id {twice!r} occurs twice", argument="tasks")
    if wrong := next((id for id in ids if not is_text(id) or len(id) > MOST_ID), None):
        raise InvalidArgument(
            f"{path}: the id {wrong[:MOST_ID]!r} is too long or no text", argument="tasks"
        )
    return found


MOST_ID = 200  # characters


class Journal:
    """The journal of one batch, held by one process at a time. Use `opened`."""

    def __init__(self, path: Path, fd: int, header: Header) -> None:
        self.path, self.header = path, header
        self.began: dict[str, Began] = {}
        self.ended: dict[str, Ended] = {}
        self._fd = fd

    def __repr__(self) -> str:
        return f"<Journal {self.path}: {len(self.ended)} of {self.header.total} ended>"

    async def write(self, line: Began | Ended | Troubled) -> None:
        """Appends a line; returns when it is on the disk."""
        if isinstance(line, Ended):
            if line.task in self.ended:
                return
            self.ended[line.task] = line
        elif isinstance(line, Began):
            self.began[line.task] = line
        await asyncio.to_thread(self._append, line)

    def interrupted(self, task: str) -> None:
        """Appends that line at once: a cancelled task may not wait."""
        if task not in self.ended and self.began.pop(task, None) is not None:
            self._append(Interrupted(task=task))

    def _append(self, line: msgspec.Struct) -> None:
        os.write(self._fd, msgspec.json.encode(line) + b"\n")
        os.fdatasync(self._fd)

    def take(self, lines: Iterator[bytes]) -> None:
        """Reads what earlier runs wrote."""
        for line in lines:
            entry = _decoder.decode(line)
            if isinstance(entry, Ended):
                self.ended.setdefault(entry.task, entry)
            elif isinstance(entry, Began):
                self.began[entry.task] = entry
            elif isinstance(entry, Interrupted):
                self.began.pop(entry.task, None)


@contextmanager
def opened(path: Path, kind: str, tasks: Sequence[BatchTask], name: str) -> Iterator[Journal]:
    """The journal at a path, with what earlier runs of the same tasks wrote.

    Raises ConfigError where another batch wrote it, or another process runs it.
    """
    header = Header(name=name, kind=kind, tasks=_digest(tasks), total=len(tasks))
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(
                f"another process runs the batch of {path}; wait for it", setting="results"
            ) from None
        data = path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        os.ftruncate(fd, len(whole))  # the rest was being written when its writer was killed
        lines = iter(whole.splitlines())
        try:
            first = next(lines, None)
            earlier = header if first is None else _decoder.decode(first)
            if not isinstance(earlier, Header) or earlier.version != VERSION:
                raise msgspec.DecodeError("it does not begin as one")
            if (earlier.tasks, earlier.kind) != (header.tasks, header.kind):
                message = (
                    f"{path} has the results of other tasks or another kind; name another file"
                )
                raise ConfigError(message, setting="results")
            journal = Journal(path, fd, earlier)
            journal.take(lines)
        except msgspec.DecodeError as error:
            raise ConfigError(
                f"{path} is no result file of a batch: {error}", setting="results"
            ) from error
        if first is None:
            journal._append(header)
        yield journal
    finally:
        os.close(fd)


def _digest(tasks: Sequence[BatchTask]) -> str:
    return hashlib.sha256(msgspec.json.encode(tasks)).hexdigest()


def counts(ended: Mapping[str, Ended]) -> dict[str, int]:
    """Outcome → number of tasks."""
    found = dict.fromkeys(("passed", "failed", "timed out", "lost"), 0)
    for one in ended.values():
        found[one.outcome] += 1
    return found
