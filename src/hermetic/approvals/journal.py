"""The journal of decisions: one line each, only ever appended, without secrets."""

import contextlib
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from hermetic.approvals.store import distrusted, state_directory
from hermetic.contract.errors import ConfigError

DECISIONS = "decisions.jsonl"
MOST_CHARACTERS = 2000  # of a command in a line
MOST_READ = 4 << 20  # bytes of a journal that are read again

_log = logging.getLogger("hermetic.approvals")


class Decision(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line: what was to be done, and what became of it."""

    time: float  # seconds since 1970
    decision: str  # "allowed" or "refused"
    by: str  # policy, rule, mode, approval, budget, nobody, user, or why no person answered
    subject: str
    task: str
    environment: str
    label: str
    category: str = ""
    reason: str = ""
    command: str = ""
    answer: str = ""
    request: str = ""
    comment: str = ""  # a person's reason for "deny"


def default_journal(environ: Mapping[str, str]) -> Path | None:
    """Where toolboxes with settings write decisions, unless those name another file; None without a
    home.
    """
    own = state_directory(environ)
    return None if own is None else own / DECISIONS


def last_decisions(path: Path, most: int) -> list[Decision]:
    """The newest decisions of a journal, the newest first; of a long journal only its end is read."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.path.getsize(path) - MOST_READ))
            lines = file.read().splitlines()
    except OSError:
        return []
    found = []
    for line in reversed(lines):
        # the first line may be cut, and others can write here
        with contextlib.suppress(msgspec.MsgspecError):
            found.append(msgspec.json.decode(line, type=Decision))
        if len(found) >= most:
            break
    return found


class Journal:
    """The file of decisions, or nothing where no path is given."""

    def __init__(self, path: Path | None = None, redact: Callable[[str], str] = str) -> None:
        """Raises ConfigError when the file cannot be added to, or others can write it."""
        self.path = path  # None: nothing is written
        self._redact = redact
        if path is not None:
            try:
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                descriptor = self._open(path)
            except OSError as error:
                raise _refused(path, error.strerror or "it cannot be opened") from None
            status = os.fstat(descriptor)
            os.close(descriptor)
            if problem := distrusted(status, 0o022):
                raise _refused(path, f"the file {problem.format(path)}")

    def __repr__(self) -> str:
        return f"<Journal {self.path or 'of nothing'}>"

    def write(self, decision: Decision) -> None:
        """Adds a line. A failure to write is logged."""
        if self.path is None:
            return
        texts = {
            name: self._redact(getattr(decision, name)) for name in ("command", "reason", "comment")
        }
        texts["command"] = texts["command"][:MOST_CHARACTERS]
        line = msgspec.structs.replace(
            decision, **{name: _encodable(text) for name, text in texts.items()}
        )
        try:
            descriptor = self._open(self.path)
            try:
                os.write(descriptor, msgspec.json.encode(line) + b"\n")
            finally:
                os.close(descriptor)
        except (OSError, UnicodeEncodeError) as error:
            _log.error("a decision could not be written to %s: %s", self.path, error)

    @staticmethod
    def _open(path: Path) -> int:
        return os.open(
            path,
            os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC,
            0o600,
        )


def _encodable(text: str) -> str:
    """The text with its broken characters spelled out: what cannot be encoded could not be written
    down.
    """
    return text.encode("utf-8", "backslashreplace").decode()


def _refused(path: Path, problem: str) -> ConfigError:
    return ConfigError(f"decisions cannot be written to {path}: {problem}", setting="approvals.log")
