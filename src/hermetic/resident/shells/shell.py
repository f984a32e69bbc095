"""One bash that waits for orders on its own channel.

All shells of a session are equal: each takes orders from a FIFO and reports to the resident's event
pipe. An order is a short text to run, or the descriptor of a long one: run a command with its
options, fork a standby on another channel, or report the state. `orders` holds these texts. A shell
inherits no descriptor: it opens channels, output and input by path while it needs them, so there is
no control descriptor that a command could close, reuse or leak.
"""

from __future__ import annotations

import fcntl
import os
import struct

from ..life.fast_stdlib import deque, signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .command import Command

FIONREAD = 0x541B
HELD_DESCRIPTORS = 64


class HeldDescriptors:
    """Descriptors of orders whose shell died before it answered.

    A subshell of the dead shell may open them by number a moment later. The numbers stay in use
    until then; otherwise the subshell would truncate a file that got the number since, such as
    another order or output.
    """

    def __init__(self) -> None:
        self.fds: deque[int] = deque()

    def add(self, fds: list[int]) -> None:
        self.fds.extend(fds)
        while len(self.fds) > HELD_DESCRIPTORS:
            os.close(self.fds.popleft())


class Shell:
    """One bash, idle or busy, and its channel.

    The name of a channel is never reused: a fork that is late finds no file.
    """

    def __init__(self, directory: str, file: str, age: int, depth: int) -> None:
        self.file, self.age = file, age
        self.path = path = "%s/%s" % (directory, file)
        self.name = b"%d" % age  # in its reports
        self.depth = depth  # number of forks between this shell and a bash that was started
        self.starting = False  # a first bash that still reads its profile
        self.has_run = False  # the first command of a fork restores its traps
        self.flags = b""  # its `$-`
        self.statuses: list[int] = []  # PIPESTATUS after its last command
        self.held_traps: dict[bytes, bytes] = {}  # set while a command's text runs
        # of a standby that has run nothing: its first command sets them
        self.unset_traps: dict[bytes, bytes] = {}
        # as last reported, while no text can have changed them
        self.known_traps: dict[bytes, bytes] | None = None
        self.changes = 0  # number of texts that may have changed its traps
        self.is_distrusted = False  # killed when its command ends
        self.last_order_bytes = 0
        os.mkfifo(path, 0o600)
        try:
            self.fd: int | None = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            os.unlink(path)
            raise
        self.pid: int | None = None
        self.command: Command | None = None
        self.answers: dict[
            int, Callable[[bool], None]
        ] = {}  # by the number of an order that is not a command: callback(is_alive)

    def __repr__(self) -> str:
        return "<Shell %s: pid %s, %s>" % (self.path, self.pid, "busy" if self.command else "idle")

    def send(self, *fields: bytes) -> None:
        """Writes an order, as made by `short_order`, `plain_order` or `long_order`."""
        assert self.fd is not None, "the shell was dropped"
        self.last_order_bytes = os.write(self.fd, b"\0".join(fields) + b"\0")

    def unread_bytes(self) -> int:
        """Size of the orders that were never begun: a shell reads an order whole before it acts on
        it.
        """
        assert self.fd is not None, "the shell was dropped"
        count: int = struct.unpack("i", fcntl.ioctl(self.fd, FIONREAD, bytes(4)))[0]
        return count

    @property
    def is_waiting(self) -> bool:
        """Whether it runs no command: it has none, or has not read its order."""
        return self.fd is not None and (self.command is None or self.unread_bytes() > 0)

    def restore(self, descriptors_path: str) -> None:
        """Names the channel again after its file was removed. Raises OSError."""
        if self.fd is not None and not os.path.lexists(self.path):
            os.symlink("%s%d" % (descriptors_path, self.fd), self.path)

    def move(self, directory: str, descriptors_path: str) -> None:
        """Names the channel in another directory. Raises OSError."""
        self.path = "%s/%s" % (directory, self.file)
        self.restore(descriptors_path)

    @property
    def is_traced(self) -> bool:
        return b"x" in self.flags or b"v" in self.flags

    def may_have_changed_traps(self) -> None:
        self.known_traps = None
        self.changes += 1

    def drop(self, kill: bool = True) -> None:
        if self.fd is None:
            return
        if kill and self.pid is not None:
            try:
                os.kill(self.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        os.close(self.fd)
        self.fd = None
        try:
            os.unlink(self.path)
        except FileNotFoundError:
            pass
