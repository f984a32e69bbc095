"""The answers of a resident as types. Every answer is validated by one of them before use."""

import builtins
import errno
from collections.abc import Callable
from typing import Annotated, Literal

import msgspec

from hermetic.contract import errors
from hermetic.contract.endings import Ending
from hermetic.contract.environment import EnvironmentInfo, Started
from hermetic.contract.files import FileStatus, Findings, Written
from hermetic.contract.process import InputRecord, ProcessInfo

Count = Annotated[int, msgspec.Meta(ge=0)]


class Hello(msgspec.Struct, frozen=True):
    """The answer to the greeting."""

    version: int
    resident: str
    pid: int
    python: str = ""
    weak: tuple[str, ...] = ()
    environment: str = ""


class Done(msgspec.Struct, frozen=True):
    """Success without data."""


class SessionEnded(msgspec.Struct, frozen=True):
    """Whether there was such a session."""

    ended: bool = True


class Tagged(msgspec.Struct, frozen=True):
    """Whether the tag was changed, whether the client holds the claim on the process, and the
    current tag.
    """

    done: bool = True
    claimed: bool = True
    tag: str | None = None  # None: a resident that does not compare


class Ran(msgspec.Struct, frozen=True):
    """A command ended or was yielded; (total, head, tail) count the output bytes, and those in the
    body.
    """

    ending: Ending
    duration: float
    cwd: str
    out: tuple[Count, Count, Count]
    err: tuple[Count, Count, Count] | None = None
    notes: tuple[str, ...] = ()
    log: str = ""
    waiting: bool | None = None
    changes: int | None = None  # of its session, where the request named a number of them
    is_stale: bool = False  # the session had another number before it began, and nothing was run


class Described(msgspec.Struct, frozen=True):
    """One process."""

    process: ProcessInfo
    existing: bool = False
    waiting: bool | None = None


class Listed(msgspec.Struct, frozen=True):
    """How many processes there are; the body describes the newest of them."""

    processes: Count


class Frozen(msgspec.Struct, frozen=True):
    """How many processes were frozen, or go on."""

    processes: Count


class Place(msgspec.Struct, frozen=True):
    """The cwd of a session; the body holds its exported variables."""

    cwd: str


class Defined(msgspec.Struct, frozen=True):
    """The cwd and the state version of a session; the body holds its definitions."""

    cwd: str
    changes: int
    is_there: bool = True
    is_same: bool = False  # as the client knows it: no body
    fits: bool = True  # the body; else it was too long for a frame


class Reader(msgspec.Struct, frozen=True):
    """A program that reads the terminal."""

    pid: int
    program: str
    argv: tuple[str, ...] = ()


class Readers(msgspec.Struct, frozen=True):
    """The programs that read the input of a process."""

    readers: tuple[Reader, ...]
    programs: tuple[str, ...] = ()  # of all its processes: any of them may read next


class Usage(msgspec.Struct, frozen=True):
    """What an environment uses."""

    cpu: float  # seconds, of everything that ran there
    memory: Count  # bytes, of what runs
    processes: Count


class TreeMember(msgspec.Struct, frozen=True):
    """One process of a tree."""

    pid: int
    parent: int
    command: str
    rss: Count = 0  # bytes
    cpu_seconds: float = 0.0


class Tree(msgspec.Struct, frozen=True):
    """The processes of a job, parents first, and the ports that they listen on."""

    members: tuple[TreeMember, ...]
    ports: tuple[int, ...] = ()


class ReadFromLog(msgspec.Struct, frozen=True):
    """The range of a log in the body."""

    start: Count
    end: Count
    total: Count
    ended: bool


class LogOffset(msgspec.Struct, frozen=True):
    """An offset of a log."""

    offset: Count


class LogPiece(msgspec.Struct, frozen=True):
    """The offset of the body of a `follow` event."""

    start: Count


class FollowEnd(msgspec.Struct, frozen=True):
    """The end of a followed log."""

    end: Count
    ending: Ending | None = None


class DriveEnd(msgspec.Struct, frozen=True):
    """Why a person does not drive a process any more."""

    reason: Literal["given", "taken", "expired", "ended"]


class DriveEvent(msgspec.Struct, frozen=True):
    """The person drives now, or input of the person was taken, or the process takes no more."""

    types: bool = False  # with the first event: events of the client are input
    typed: int = 0
    closed: bool = False


class ProcessNews(msgspec.Struct, frozen=True):
    """An event of `events`."""

    event: Literal["started", "ended", "control", "resized"]
    process: ProcessInfo


class PasswordAsked(msgspec.Struct, frozen=True):
    """An event of `askpass`: the path of the askpass program, or a question."""

    program: str = ""
    ask: Count = 0
    asker: Count = 0
    prompt: str = ""


class Bridged(msgspec.Struct, frozen=True):
    """An event of `bridge`: the address for programs, or a message of one; `end`: it disconnected."""

    socket: str = ""
    channel: Count = 0
    end: bool = False


class Said(msgspec.Struct, frozen=True):
    """The result of sending bytes to a program: `gone` when it disconnected."""

    gone: bool


class FilePiece(msgspec.Struct, frozen=True):
    """The range of a file in the body, up to `end` of `size`, and the file's properties."""

    size: Count
    end: Count
    path: str = ""
    kind: Literal["file", "directory", "other"] = "other"
    mode: int = 0
    mtime: float = 0.0
    signature: str = ""


class LinesPiece(msgspec.Struct, frozen=True):
    """The lines of a file in the body, and the file's properties."""

    path: str
    kind: Literal["file", "directory", "other"]
    size: Count
    mode: int
    mtime: float
    signature: str
    total: Count = 0
    first: Count = 1
    lines: Count = 0
    cut: tuple[tuple[Count, Count], ...] = ()
    encoding: Literal["utf-8", "utf-16-le", "utf-16-be"] = "utf-8"
    mark: bytes = b""
    binary: bool = False


class Size(msgspec.Struct, frozen=True):
    """The current size of a blob or file."""

    size: Count


class Refusal(msgspec.Struct, frozen=True):
    """The reason why a request failed."""

    error: str
    message: str
    argument: str = ""
    capability: str = ""
    process: str = ""
    driver: str = ""  # the person who drives it
    errno: str = ""  # of a file's error, by name
    path: str = ""


hello = msgspec.msgpack.Decoder(Hello)
started = msgspec.msgpack.Decoder(Started)
done = msgspec.msgpack.Decoder(Done)
tagged = msgspec.msgpack.Decoder(Tagged)
session_ended = msgspec.msgpack.Decoder(SessionEnded)
ran = msgspec.msgpack.Decoder(Ran)
described = msgspec.msgpack.Decoder(Described)
listed = msgspec.msgpack.Decoder(Listed)
log_offset = msgspec.msgpack.Decoder(LogOffset)
read_from_log = msgspec.msgpack.Decoder(ReadFromLog)
log_piece = msgspec.msgpack.Decoder(LogPiece)
follow_end = msgspec.msgpack.Decoder(FollowEnd)
password_asked = msgspec.msgpack.Decoder(PasswordAsked)
bridged = msgspec.msgpack.Decoder(Bridged)
said = msgspec.msgpack.Decoder(Said)
drive_event = msgspec.msgpack.Decoder(DriveEvent)
drive_end = msgspec.msgpack.Decoder(DriveEnd)
input_records = msgspec.msgpack.Decoder(list[InputRecord])  # a body
process_news = msgspec.msgpack.Decoder(ProcessNews)
place = msgspec.msgpack.Decoder(Place)
defined = msgspec.msgpack.Decoder(Defined)
readers = msgspec.msgpack.Decoder(Readers)
frozen = msgspec.msgpack.Decoder(Frozen)
usage = msgspec.msgpack.Decoder(Usage)
tree = msgspec.msgpack.Decoder(Tree)
processes = msgspec.msgpack.Decoder(list[ProcessInfo])  # a body
exports = msgspec.msgpack.Decoder(dict[str, str])  # a body
file_piece = msgspec.msgpack.Decoder(FilePiece)
size = msgspec.msgpack.Decoder(Size)
file_status = msgspec.msgpack.Decoder(FileStatus)
lines_piece = msgspec.msgpack.Decoder(LinesPiece)
findings = msgspec.msgpack.Decoder(Findings)  # a body
names = msgspec.msgpack.Decoder(list[str])  # a body
written = msgspec.msgpack.Decoder(Written)
changed = msgspec.msgpack.Decoder(list[Written])  # a body
info = msgspec.msgpack.Decoder(EnvironmentInfo)
refusal = msgspec.msgpack.Decoder(Refusal)

_ERRORS: dict[str, Callable[[Refusal], Exception]] = {
    "InvalidArgument": lambda said: errors.InvalidArgument(said.message, argument=said.argument),
    "FileChanged": lambda said: errors.FileChanged(said.message, argument="expect"),
    "ConfigError": lambda said: errors.ConfigError(said.message, setting=said.argument),
    "NotPermitted": lambda said: errors.NotPermitted(said.message),
    "EnvironmentUnavailable": lambda said: errors.EnvironmentUnavailable(said.message),
    "Full": lambda said: errors.Unreachable(said.message, state="full"),
    "Unsupported": lambda said: errors.Unsupported(said.message, capability=said.capability),
    "UnknownProcess": lambda said: errors.UnknownProcess(said.message, process_id=said.process),
    "Driven": lambda said: errors.Driven(said.message, process_id=said.process, driver=said.driver),
    "InputClosed": lambda said: errors.InputClosed(
        f'{said.message}; to write to one, start it anew with start(…, stdin="pipe")',
        process_id=said.process,
    ),
    "BridgeError": lambda said: errors.BridgeError(said.message),
}


def error_for(said: Refusal) -> Exception:
    """The exception for a refusal: one of ours, or an OSError for files."""
    if make := _ERRORS.get(said.error):
        return make(said)
    kind = getattr(builtins, said.error, None)
    if isinstance(kind, type) and issubclass(kind, OSError):
        number = getattr(errno, said.errno, None)
        if isinstance(number, int):
            return OSError(number, said.message.removeprefix(f"{said.path}: "), said.path)
        return kind(said.message)
    return errors.ExecutionError(f"{said.error}: {said.message}")
