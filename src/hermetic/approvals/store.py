"""Answers "always", in a file that a person can read, and that nobody else can write."""

import fcntl
import os
import stat
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from hermetic.contract.approval import Approval
from hermetic.contract.errors import ConfigError

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
        """What was approved. Raises ConfigError for a file that is broken, unreadable, or open to others."""
        try:
            status = self._path.lstat()
        except FileNotFoundError:
            self._seen, self._approvals = None, ()
            return ()
        except OSError as error:
            raise self._refused(f"cannot be looked at: {error.strerror}") from None
        seen = (status.st_mtime_ns, status.st_ino, status.st_size)
        self._check(status)
        if seen != self._seen:
            self._approvals = self._parsed()
            self._seen = seen
        return self._approvals

    def add(self, *approvals: Approval) -> None:
        """Keeps approvals, those of the same act replaced. Raises ConfigError."""
        keys = {(one.key, one.environment) for one in approvals}
        self._change(lambda kept: [*(one for one in kept if (one.key, one.environment) not in keys), *approvals])

    def remove(self, key: str) -> bool:
        """Takes an approval back; False when there is none."""
        before = len(self.read())
        self._change(lambda kept: [one for one in kept if one.key != key])
        return len(self.read()) < before

    def _change(self, change: Callable[[tuple[Approval, ...]], list[Approval]]) -> None:
        """Writes the file anew, aside and renamed, while nobody else does."""
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _locked(self._path.with_name(self._path.name + ".lock")):
                text = _HEAD + "".join(map(_block, change(self.read())))
                aside = self._path.with_name(f".{self._path.name}.{os.getpid()}")
                descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
                with open(descriptor, "w", encoding="utf-8") as stream:
                    stream.write(text)
                    stream.flush()
                    os.fsync(descriptor)
                os.replace(aside, self._path)
        except OSError as error:
            raise self._refused(f"cannot be written: {error.strerror}") from None

    def _check(self, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise self._refused("is no plain file")
        if status.st_uid not in (os.geteuid(), 0):
            raise self._refused("belongs to another user")
        if stat.S_IMODE(status.st_mode) & 0o077:
            raise self._refused(f"is open to others; look at what it says, then run chmod 600 {self._path}")

    def _parsed(self) -> tuple[Approval, ...]:
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                self._check(os.fstat(descriptor))  # what is read is what was looked at
                data = os.read(descriptor, MOST_BYTES + 1)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise self._refused(f"cannot be read: {error.strerror}") from None
        if len(data) > MOST_BYTES:
            raise self._refused(f"is larger than {MOST_BYTES:,} bytes")
        try:
            return tuple(msgspec.convert(tomllib.loads(data.decode()), _File).approval)
        except (UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
            raise self._refused(f"cannot be understood ({error})") from None

    def _refused(self, problem: str) -> ConfigError:
        return ConfigError(
            f"the approvals in {self._path} count for nothing: the file {problem}; mend it, or move it away",
            setting="approvals.file",
        )


class _File(msgspec.Struct, forbid_unknown_fields=True):
    approval: list[Approval] = []


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _block(approval: Approval) -> str:
    lines = ["\n[[approval]]"]
    for name, value in msgspec.structs.asdict(approval).items():
        if value is None:
            continue
        if isinstance(value, float):
            told = datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%d %H:%M UTC")
            lines.append(f"{name} = {value:.0f}.0  # {told}")
        else:
            lines.append(f"{name} = {_quoted(str(value))}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """The text as a basic string of TOML."""
    out = []
    for char in text.encode("utf-8", "replace").decode():
        code = ord(char)
        plain = code >= 0x20 and code != 0x7F and char not in '"\\'
        out.append(char if plain else f"\\{char}" if char in '"\\' else f"\\u{code:04x}")
    return f'"{"".join(out)}"'
