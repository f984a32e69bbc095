"""The private directory through which approval requests reach consoles in other processes, and the
messages there.

A process with pending requests listens on a socket in it (`publisher`); consoles connect
(`watching`). The requests themselves never leave the process that asks: its death withdraws them,
the death of a console changes nothing.
"""

import contextlib
import fcntl
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from hermetic.contract.approval import Answer, ApprovalRequest
from hermetic.contract.printable import one_line
from hermetic.registry.peers import is_inside
from hermetic.registry.private import make_private
from hermetic.registry.records import SETTING, runtime_path, runtime_root

NAME = "approvals"
SOCKET, WATCH, ATTENDS = "ask-", "watch-", "attend-"  # starts of names in the directory
MADE_ASIDE = ".new-"
MOST_MESSAGE = 8 << 20  # bytes; a request holds the whole command

T = TypeVar("T")
Outcome = Literal["answered", "expired", "withdrawn"]


class Where(msgspec.Struct, frozen=True, kw_only=True):
    """The process that asks."""

    pid: int
    program: str
    environment: str = ""  # id of the environment where the command would run, if it is open
    # the process itself runs inside an environment: an agent may have made the request up
    inside: bool = False


class SharedRequest(ApprovalRequest, frozen=True, kw_only=True):
    """A request of any process of this user."""

    where: Where


class Listed(msgspec.Struct, frozen=True, tag="listed"):
    """The first message to a console: how many requests are pending, which follow."""

    count: int


class Asked(msgspec.Struct, frozen=True, tag="asked"):
    """One request."""

    request: SharedRequest


class Settled(msgspec.Struct, frozen=True, kw_only=True, tag="settled"):
    """A request that is not pending any more."""

    id: str
    outcome: Outcome
    answer: str = ""  # of an answered one
    reason: str = ""
    by: str = ""  # who answered, in words
    token: str = ""  # of the message `Give` that counted

    def described(self) -> str:
        """What became of it, in words."""
        by = one_line(self.by) or "its program"
        return f"answered with {one_line(self.answer)} by {by}" if self.answer else self.outcome


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """The publisher serves this console no more."""

    why: str


class Give(msgspec.Struct, frozen=True, kw_only=True, tag="give"):
    """A console's answer."""

    id: str
    answer: Answer
    reason: str = ""
    name: str = ""  # of the console
    token: str


Message = Listed | Asked | Settled | Refused
_reading = msgspec.json.Decoder(Message)


def packed(message: Message | Give) -> bytes:
    """The message as one line."""
    try:
        return msgspec.json.encode(message) + b"\n"
    except UnicodeEncodeError:  # a lone surrogate in a command, which JSON cannot hold
        return msgspec.json.encode(_encodable(msgspec.to_builtins(message))) + b"\n"


def read_message(line: bytes) -> Message:
    """Raises msgspec.MsgspecError."""
    message: Message = _reading.decode(line)
    return message


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_encodable(name): _encodable(one) for name, one in value.items()}
    return [_encodable(one) for one in value] if isinstance(value, list | tuple) else value


def exchange_path() -> Path:
    """The directory, which may not exist."""
    return runtime_path() / NAME


def place(start: str, make: Callable[[Path], T]) -> tuple[Path, T]:
    """The path of a new file in the directory, which is made if missing, and what `make` returned.

    `make` gets another path: other processes see the file when it is complete. Raises ConfigError,
    OSError.
    """
    while True:
        directory = make_private(runtime_root() / NAME, SETTING)
        name = secrets.token_hex(4)
        aside, final = directory / f"{MADE_ASIDE}{name}", directory / f"{start}{name}"
        try:
            directory.chmod(0o700)
            made = make(aside)
            aside.rename(final)
        except FileNotFoundError:  # the directory was empty and has just been removed
            continue
        return final, made


def remove(path: Path) -> None:
    """Removes a file of the directory, and the directory with the last one."""
    path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # it is not empty, or gone
        path.parent.rmdir()


def hold(start: str) -> tuple[Path, int]:
    """A file in the directory that is locked as long as the descriptor is open, and the descriptor."""
    return place(f"{start}{os.getpid()}-", _locked)


def _locked(path: Path) -> int:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX)
    return fd


def names() -> list[str]:
    """What the directory holds, without the files of consoles that were killed, which are removed."""
    directory = exchange_path()
    try:
        found = sorted(os.listdir(directory))
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [
        name
        for name in found
        if not name.startswith((WATCH, ATTENDS)) or _is_held(directory / name)
    ]


def is_attended() -> bool:
    """Whether a console of this user waits for requests.

    One inside an environment does not count.
    """
    found = (name for name in names() if name.startswith(ATTENDS))
    pids = (name.split("-")[1] for name in found)
    return any(pid.isdecimal() and not is_inside(int(pid)) for pid in pids)


def _is_held(path: Path) -> bool:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    remove(path)
    return False
