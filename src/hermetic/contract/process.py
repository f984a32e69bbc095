"""Something running, as data."""

from typing import Literal

import msgspec

from hermetic.contract.brief import Brief
from hermetic.contract.endings import Ending

PERSON = "console:"  # start of the tag of what a person started; the person's name follows


class DriverInfo(msgspec.Struct, frozen=True):
    """A person who drives a process: it takes no other input."""

    name: str
    since: float  # seconds since 1970
    present: bool = True  # False: the person's connection is gone, and its lease runs


class Handover(msgspec.Struct, frozen=True):
    """The last time that a person gave a process back."""

    by: str
    note: str
    at: float  # seconds since 1970


class InputRecord(msgspec.Struct, frozen=True, array_like=True):
    """Input of one writer to a process, without a pause. What was written is not kept."""

    first: float  # seconds since 1970
    last: float
    by: str
    is_person: bool
    count: int  # bytes
    secret: int  # bytes of them that were a secret
    offset: int  # in the output, when it began


class ProcessInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A process as the resident describes it."""

    id: str
    kind: Literal["process", "command"]  # "command": one of `run`
    session: str
    command: str  # its start, for display
    pid: int | None
    pty: bool = False
    rows: int = 24
    cols: int = 80
    cwd: str
    started: float  # seconds since 1970
    duration: float  # seconds
    state: Literal["running", "ended"]
    ending: Ending | None = None
    out: int  # bytes of output so far
    err: int | None = None  # bytes of a separate stderr
    input: Literal["open", "closed"] = "closed"
    tag: str = ""  # text that its starter stored with it
    left: int = 0  # processes that it left running
    driver: DriverInfo | None = None
    handed: Handover | None = None
    personal: bool = False  # a person's terminal: all its processes end with it
    cleared: tuple[str, ...] = ()  # command lines of processes that ended with it

    @property
    def is_running(self) -> bool:
        """True while it runs, or anything that it has left behind."""
        return self.ending is None or self.left > 0

    @property
    def is_of_person(self) -> bool:
        """True for what a person started, not an agent."""
        return self.personal or self.tag.startswith(PERSON)


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """State of a process."""

    state: Literal["running", "ended"]
    pid: int | None
    started: float  # seconds since 1970
    ending: Ending | None
    waiting_for_input: bool | None  # None: the kernel does not tell


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """Content of a terminal."""

    lines: tuple[str, ...]  # one for each row, without the spaces at its end
    rows: int
    cols: int
    cursor: tuple[int, int]  # row and column, from 0
    alternate: bool  # a program has taken the whole screen, as editors and pagers do
    note: str = ""  # why it may differ from what a terminal shows

    @property
    def text(self) -> str:
        """The lines as one text."""
        return "\n".join(self.lines)


class Chunk(Brief, frozen=True, kw_only=True):
    """The bytes `[start, end)` of an output log."""

    data: bytes
    start: int  # beyond the requested offset: the bytes between were dropped
    end: int
    ended: bool  # the process has ended, and `end` is the end of its log


class ProcessEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A process started or ended; `missed` means that events were dropped: list the processes
    again.

    `control` and `resized`, for those that ask for them: another person or none drives it, its
    terminal has a new size.
    """

    event: Literal["started", "ended", "missed", "control", "resized"]
    process: ProcessInfo | None = None
