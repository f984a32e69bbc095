"""Every limit there is, in one table: name, value, unit, meaning."""

from typing import Generic, TypeVar

import msgspec

N = TypeVar("N", int, float)


class Limit(msgspec.Struct, Generic[N], frozen=True):
    """One limit. `value` counts `unit`s."""

    name: str
    value: N
    unit: str
    meaning: str


FRAME_BODY = Limit("frame_body", 1 << 20, "bytes", "most body in one frame; longer input and files go in pieces")
FRAME_HEADER = Limit("frame_header", 1 << 16, "bytes", "most header in one frame")
FIRST_FRAME = Limit("first_frame", 4096, "bytes", "longest frame before the greeting has been answered")
FRAME_DEPTH = Limit("frame_depth", 8, "levels", "deepest nesting in a header")
GREETING = Limit("greeting", 5.0, "seconds", "time for the greeting of a new connection")

INLINE_OUTPUT = Limit("inline_output", 1 << 18, "bytes", "most output that comes back inside the answer to `run`")
INLINE_INPUT = Limit("inline_input", 1 << 18, "bytes", "most of command and input in one frame; more goes in a blob")
RETURNED_OUTPUT = Limit("returned_output", 1 << 20, "bytes", "most output in a result, unless `limit` says otherwise")
READ = Limit("read", 1 << 20, "bytes", "most output from one read of a log, unless `limit` says otherwise")
FOLLOW_CREDIT = Limit("follow_credit", 1 << 20, "bytes", "output under way to a live reader before it has taken any")
SPOOL = Limit("spool", 64 << 20, "bytes", "most of one log on disk; what falls out between head and tail is counted")
PENDING_INPUT = Limit("pending_input", 1 << 20, "bytes", "input that waits inside for a process that does not read")
FILE = Limit("file", 256 << 20, "bytes", "largest file that is read into memory; larger ones are downloaded")
COMMAND = Limit("command", 64 << 20, "bytes", "longest command text; of an argv the kernel takes less")
COMMAND_SHOWN = Limit("command_shown", 4096, "bytes", "most of a command's text in lists of processes")
ID_LENGTH = Limit("id_length", 64, "characters", "longest id of a process or log")
EVENTS = Limit("events", 4096, "events", "most events that wait for a slow reader; more are told as missed")

GRACE = Limit("grace", 0.25, "seconds", "between TERM and KILL, when a tree is ended")
LEASE = Limit("lease", 300.0, "seconds", "life with nobody attached and nothing running")
UNATTENDED = Limit("unattended", 86400.0, "seconds", "life with nobody attached though something runs")
LOGIN = Limit("login", 30.0, "seconds", "time for the user's profile when a session starts")
START = Limit("start", 30.0, "seconds", "time for a local resident to say that it is ready")

SCREEN_REPLAY = Limit("screen_replay", 4 << 20, "bytes", "most output that is replayed to draw a screen")
SEARCH_WINDOW = Limit("search_window", 1 << 20, "bytes", "longest stretch of output that a pattern can match in")

LIMITS: tuple[Limit[int] | Limit[float], ...] = (
    FRAME_BODY, FRAME_HEADER, FIRST_FRAME, FRAME_DEPTH, GREETING,
    INLINE_OUTPUT, INLINE_INPUT, RETURNED_OUTPUT, READ, FOLLOW_CREDIT, SPOOL, PENDING_INPUT,
    FILE, COMMAND, COMMAND_SHOWN, ID_LENGTH, EVENTS,
    GRACE, LEASE, UNATTENDED, LOGIN, START,
    SCREEN_REPLAY, SEARCH_WINDOW,
)  # fmt: skip
