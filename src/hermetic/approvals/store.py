"""Stored answers "always": a file that its user can read, and only its user can write."""

import errno
import json
import os
import stat
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from hermetic.contract.approval import Approval
from hermetic.contract.errors import ConfigError
from hermetic.registry.file_lock import locked_in_thread

MOST_BYTES = 1 << 20
_HEAD = """\
# What was approved for always. Each block covers one command, and nothing else.
# Delete a block to take an approval back. Others must not be able to read or write this file (mode 0600).
"""


class Store:
    """The file, read anew whenever it has changed."""

    def __init__(self, path: Path) -> None:
        """Raises ConfigError when the file is there and cannot be trusted."""
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self._approvals: tuple[Approval, ...] = ()
        self.read()

    def __repr__(self) -> str:
        return f"<Store {self._path}: {len(self._approvals)} approvals>"

    @property
    def path(self) -> Path:
        """Where the file is."""
        return self._path

    def read(self) -> tuple[Approval, ...]:
        """What was approved.

        Raises ConfigError for a file that is broken, unreadable, or open to others.
        """
        try:
            descriptor = os.open(
                self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            )
        except FileNotFoundError:
            self._seen, self._approvals = None, ()
            return ()
        except OSError as error:
            is_link = error.errno == errno.ELOOP
            raise self._refused(
                "is no plain file" if is_link else f"cannot be read: {error.strerror}"
            ) from None
        try:
            status = os.fstat(descriptor)
            if problem := distrusted(status, 0o077):
                raise self._refused(problem.format(self._path))
            seen = (status.st_mtime_ns, status.st_ino, status.st_size)
            if seen != self._seen:
                self._approvals = self._parsed(os.read(descriptor, MOST_BYTES + 1))
                self._seen = seen
        finally:
            os.close(descriptor)
        return self._approvals

    def add(self, *approvals: Approval) -> None:
        """Keeps approvals, those of the same act replaced. Raises ConfigError."""
        keys = {(one.key, one.environment) for one in approvals}
        self._change(
            lambda kept: [
                *(one for one in kept if (one.key, one.environment) not in keys),
                *approvals,
            ]
        )

    def remove(self, key: str) -> bool:
        """Takes an approval back; False when there is none."""
        before = len(self.read())
        self._change(lambda kept: [one for one in kept if one.key != key])
        return len(self.read()) < before

    def _change(self, change: Callable[[tuple[Approval, ...]], list[Approval]]) -> None:
        """Writes the file anew, aside and renamed, under a lock."""
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with locked_in_thread(self._path.with_name(self._path.name + ".lock")):
                text = _HEAD + "".join(map(_block, change(self.read())))
                aside = self._path.with_name(f".{self._path.name}.{os.getpid()}")
                descriptor = os.open(
                    aside,
                    os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC,
                    0o600,
                )
                with open(descriptor, "w", encoding="utf-8") as stream:
                    stream.write(text)
                    stream.flush()
                    os.fsync(descriptor)
                os.replace(aside, self._path)
        except OSError as error:
            raise self._refused(f"cannot be written: {error.strerror}") from None

    def _parsed(self, data: bytes) -> tuple[Approval, ...]:
        if len(data) > MOST_BYTES:
            raise self._refused(f"is larger than {MOST_BYTES:,} bytes")
        try:
            return tuple(msgspec.toml.decode(data, type=_File).approval)
        except (UnicodeDecodeError, msgspec.DecodeError) as error:
            raise self._refused(f"cannot be understood ({error})") from None

    def _refused(self, problem: str) -> ConfigError:
        return ConfigError(
            f"the approvals in {self._path} count for nothing: the file {problem}; mend it, or move it away",
            setting="approvals.file",
        )


class _File(msgspec.Struct, forbid_unknown_fields=True):
    approval: list[Approval] = []


def _block(approval: Approval) -> str:
    lines = ["\n[[approval]]"]
    for name, value in msgspec.structs.asdict(approval).items():
        if isinstance(value, float):
            date = datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%d %H:%M UTC")
            lines.append(f"{name} = {value:.0f}.0  # {date}")
        elif value is not None:
            text = value.encode("utf-8", "replace").decode()
            # a string of TOML
            quoted = json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
            lines.append(f"{name} = {quoted}")
    return "\n".join(lines) + "\n"


def distrusted(status: os.stat_result, forbidden: int) -> str:
    """Why a file cannot be trusted; empty when it can.

    `forbidden` are the mode bits that others must not have.
    """
    if not stat.S_ISREG(status.st_mode):
        return "is no plain file"
    if status.st_uid not in (os.geteuid(), 0):
        return "belongs to another user"
    if status.st_mode & forbidden:
        return "is open to others; look at what it says, then run chmod 600 {}"
    return ""


def state_directory(environ: Mapping[str, str]) -> Path | None:
    """Where approvals and decisions of this user are stored; None without a home."""
    base = environ.get("XDG_STATE_HOME") or (
        f"{environ['HOME']}/.local/state" if environ.get("HOME") else ""
    )
    return Path(base, "hermetic") if base.startswith("/") else None
