"""A place where commands run: how it is started, reached, remembered and described."""

import socket
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol

import msgspec


class Isolation(msgspec.Struct, frozen=True, kw_only=True):
    """What isolates a command from its caller's machine."""

    kind: str  # of the environment
    separate_files: bool = False  # it does not see the caller's files
    separate_processes: bool = False  # it does not see the caller's processes
    separate_user: bool = False  # it has no more rights than a user that is not the caller
    separate_network: bool = False  # it cannot reach the network, nor the caller's ports
    shared_paths: tuple[str, ...] = ()  # the caller's paths that it can write
    # its own paths that show the caller's files, writable or not; None: unknown
    mounts: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()  # weaknesses and missing limits, one sentence each


class EnvironmentRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What a host remembers of an environment, so that another process can reach it."""

    id: str
    kind: str
    task: str | None
    options: dict[str, Any]
    created: float  # seconds since 1970
    directory: str
    spool: str | None
    socket: str
    token: bytes
    resident: str  # the id of this life of the resident
    pid: int  # as the place itself counts
    guardian: int | None
    # what the backend needs to find the place again: a container's id, a host's address
    place: dict[str, str] = {}
    # what this place is weaker in than it was asked to be, one sentence each
    notes: tuple[str, ...] = ()


class ResidentConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What a starter tells a new resident."""

    id: str
    token: bytes
    directory: str  # empty: the resident makes one, and a spool, where it lives
    spool: str | None
    environ: dict[str, str]
    # commands also get what the resident itself was started with: the image's variables
    inherit: bool = False
    cwd: str
    lease: float
    unattended: float
    arrival: float = 5.0  # least seconds for the first client to come, however short the lease
    login: bool
    login_timeout: float
    guardian: bool
    label: str
    # a filter of system calls that the resident puts on itself and all that it starts
    seccomp: bytes | None = None
    # the process that was started is the resident itself; nothing is forked, no guardian
    foreground: bool = False
    # where the host passes on a socket to listen at; it can be connected to, not created
    host_socket: str = ""
    opener: int | None = None  # a user besides the resident's own and root that may connect
    own_sockets: bool = False  # abstract sockets of others are closed to its commands
    fences: tuple[str, ...] = ()  # what its network does not reach: metadata, neighbours
    outside: int = 0  # the network that has to be another than its own for that, by its number
    init_files: tuple[str, ...] = ()  # what a login shell reads besides its profile
    keep_path: bool = False  # entries of PATH stay in front of those that the profile sets
    last_path: str = ""  # a directory behind all of PATH
    home: str = ""  # HOME where the inherited one is no directory that its user can write
    make_cwd: bool = False  # cwd is made there where it is missing
    spool_name: str = ""  # the spool as people outside know it; empty: by its own path
    shared: tuple[str, ...] = ()  # directories there whose files outlive the resident
    bash: str = ""  # the bash of its shells; empty: the one on PATH
    needs_ctypes: bool = False  # a Python without ctypes is refused: the starter has a better one
    runtime: str = "image"  # whose Python and bash are in use, as `info` reports it
    # no other place shares its cgroup: what the kernel kills there for memory was its own
    own_cgroup: bool = False


class NewEnvironment(msgspec.Struct, frozen=True, kw_only=True):
    """What a backend is given to start an environment with, besides its options."""

    id: str
    directory: str  # on this host, for its socket; the record lies there too
    spool: str | None  # a directory on a disk of this host, if there is one
    token: bytes  # that clients show to the resident
    label: str  # the task, or the id


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """What a new resident says when it is ready."""

    socket: str
    pid: int
    guardian: int | None = None
    resident: str
    spool: str | None = None
    place: dict[str, str] = {}  # for the record; filled in by the backend
    notes: tuple[str, ...] = ()  # likewise


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Whether something is usable here, why, and what to do."""

    state: Literal["ok", "weak", "missing", "broken"]
    found: str
    advice: str = ""  # what to do, unless all is well


# Called with an environment's id. True inside means that it has no record and no opener, as long as
# that lasts.
Abandoned = Callable[[str], AbstractAsyncContextManager[bool]]


class Backend(Protocol):
    """A way to start a resident somewhere and to reach it.

    A class may also have these attributes:

    `leaves_files = True`
        Its resident cannot remove the directory and the spool itself. The janitor does when it
        ends, also without a caller: at once where it listens in `directory`, after its lease where
        it is elsewhere.
    `variables`
        Beginnings of names of the opener's variables that the janitor's check needs.
    `orphans = True`
        What its start has created elsewhere outlives an opener that was killed; `collect` ends
        that too.
    `noticed_after`
        Seconds after the end of a killed caller until it is noticed there; its lease begins then.
    `answers_within`
        Seconds that a living resident may take to answer a ping over this transport.
    `notices_silence = True`
        Its transport ends the stream itself when the resident's machine is not heard any more.
    `option_shape`
        The Struct of its options, by which settings are checked before anything is opened.

    and these coroutines; `doctor` and `collect` are class methods:

    `is_gone(self, record: EnvironmentRecord) -> bool`
        Whether the resident's process or container has ended; only that proves that an environment
        is gone when its socket is missing. Raises OSError or Unreachable where it cannot be seen.
        Without it, a missing socket is taken as proof.
    `is_paused(self, record: EnvironmentRecord) -> bool`
        Whether the environment is held on purpose. A resident that does not answer is then not
        ended when its lease is over.
    `doctor(cls) -> Finding`
        Whether this kind is usable here; quick, and leaves nothing.
    `collect(cls, root: str, abandoned: Abandoned) -> list[str]`
        Removes the abandoned environments of this kind that were made for the runtime directory
        `root`, and names them.
    `disk_bytes(self, record: EnvironmentRecord) -> int`
        What a living environment of its takes on a disk.
    """

    kind: str

    def __init__(self, options: Mapping[str, Any]) -> None:
        """Checks the options; raises ConfigError that names the valid ones."""

    @property
    def options(self) -> dict[str, Any]:
        """All options, defaults filled in, as they are remembered and compared."""

    @property
    def isolation(self) -> Isolation:
        """What stands between a command there and this machine."""

    async def start(self, new: NewEnvironment) -> Started:
        """Starts a resident that keeps its socket in the directory. Raises EnvironmentUnavailable."""

    async def reach(self, record: EnvironmentRecord) -> socket.socket:
        """A connected, non-blocking stream socket to the resident.

        Raises: ConnectionRefusedError where the socket is and no process listens, so that the
        resident is gone; FileNotFoundError where there is no socket; Unreachable when the transport is
        broken, so that trying again may help; EnvironmentUnavailable when trying again will not.
        """

    async def remove(self, record: EnvironmentRecord) -> str | None:
        """Ends the resident and all that runs there without its help, and removes what is left; may
        say what it did.

        It removes only what was made for this record, whatever the record says. Raises Unreachable.
        """


class EnvironmentInfo(msgspec.Struct, frozen=True, kw_only=True):
    """An environment and its resident at this moment."""

    id: str = ""
    kind: str = ""
    task: str | None = None
    resident: str
    pid: int
    guardian: int | None = None
    uptime: float  # seconds
    rss: int | None = None  # bytes
    python: str
    bash: str | None = None
    # "image": Python and bash are the environment's own; else which are of the portable runtime
    runtime: str = "image"
    weak: tuple[str, ...] = ()  # what this place cannot do well, one sentence each
    sessions: int
    clients: int
    processes: int
    lease: float  # seconds
    unattended: float  # seconds
    descriptors: int | None = None
    spool_bytes: int | None = None  # of output on a disk


class SessionState(msgspec.Struct, frozen=True, kw_only=True):
    """What a session's next command sees."""

    cwd: str
    env: dict[str, str]  # exported variables

    def __repr__(self) -> str:
        return f"SessionState(cwd={self.cwd!r}, env=<{len(self.env)} variables>)"  # some are secret
