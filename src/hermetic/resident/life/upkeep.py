"""Upkeep of the resident's directory: recreates what a cleanup of /tmp has removed."""

from __future__ import annotations

import errno
import os

from ..limits import GRACE
from .directories import is_ours
from .fast_stdlib import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .lease import Life
    from .resident import Resident
    from .server import Server

LOOK_SECONDS = 5.0
# the host's record of this environment, if its directory is on the same machine
RECORD = "env.json"
RECORD_BYTES = 1 << 20
END_SECONDS = 1.0
LASTING = (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.EROFS)
OTHER_BASES = ("/dev/shm", "/tmp", "/var/tmp")


class NoDirectory(OSError):
    """No directory can be created for the channels, now or later."""


class Upkeep:
    """Checks the directory periodically. A failure changes nothing, and the next check retries."""

    def __init__(self, resident: Resident, life: Life, server: Server) -> None:
        self.resident, self.life, self.server = resident, life, server
        self.directory = resident.directory
        self.inode = os.stat(self.directory).st_ino
        self.record: bytes | None = None
        self.record_signature: tuple[int, int] | None = None
        resident.regain_directory = self.regain
        resident.look_after_directory = life.look_after = self.look
        life.loop.call_later(LOOK_SECONDS, self._look_again)

    def _look_again(self) -> None:
        self.life.loop.call_later(LOOK_SECONDS, self._look_again)
        self.look()

    def look(self) -> None:
        try:
            self.restore()
        except OSError:  # no descriptor, a full disk, or another user's directory
            pass

    def restore(self) -> None:
        """Recreates the directory and its missing files. Raises OSError."""
        if self.life.ending:
            return
        inode = _inode(self.directory)
        try:
            if inode is None:
                self._make_directory()
        finally:
            self._restore_channels()
        if inode is not None and inode != self.inode:
            # it belongs to another resident of the same task: only channel names include the
            # resident
            return
        self.server.listener.restore()
        self.resident.askpass.restore()
        if self.resident.bridge.listener is not None:
            self.resident.bridge.listener.restore()
        self._keep_record()

    def regain(self) -> None:
        """Makes sure that a channel can be created. Raises OSError."""
        self.look()
        probe = "%s/%s-0" % (self.resident.channel_directory, self.resident.id)
        try:
            os.symlink("/dev/null", probe)
            os.unlink(probe)
        except FileNotFoundError:
            try:
                self._move_channels()
            except NoDirectory:
                self.life.loop.call_later(END_SECONDS, self._end)  # answers go out first
                raise

    def _end(self) -> None:
        """Ends the resident once nothing runs: no session can start a shell any more."""
        if not self.resident.running():
            self.life.end(GRACE, lambda: None)

    def _make_directory(self) -> None:
        before = os.umask(0o077)
        try:
            base = os.path.dirname(self.directory)
            os.makedirs(base, exist_ok=True)
            if not is_ours(base):
                raise PermissionError("%s: others own it or may write to it" % base)
            os.mkdir(self.directory)
        finally:
            os.umask(before)
        self.inode = os.stat(self.directory).st_ino
        self.record_signature = None
        if self.life.guardian is not None:
            # it removes only the directory that it knows
            os.kill(self.life.guardian, signal.SIGUSR1)

    def _restore_channels(self) -> None:
        try:
            for session in self.resident.sessions.values():
                for shell in session.pool.shells.values():
                    shell.restore(self.resident.descriptors_path)
        except FileNotFoundError:
            self._move_channels()

    def _move_channels(self) -> None:
        """Moves the channels to another private directory: ours cannot be recreated, for example a
        removed mount.
        """
        self.resident.channel_directory = _another_directory(self.resident.id)
        for session in self.resident.sessions.values():
            session.pool.move_channels(self.resident.channel_directory)

    def _keep_record(self) -> None:
        """Caches the host's record, and restores a removed one."""
        path = "%s/%s" % (self.directory, RECORD)
        try:
            seen = os.stat(path)
        except FileNotFoundError:
            if self.record is not None:
                _write(path, self.record)
            return
        signature = seen.st_ino, seen.st_mtime_ns
        if signature != self.record_signature:
            with open(path, "rb") as file:
                self.record = file.read(RECORD_BYTES)
            self.record_signature = signature


def _another_directory(id: str) -> str:
    """Creates another private directory. Raises OSError."""
    problems: list[OSError] = []
    for base in OTHER_BASES:
        path = "%s/hermetic-%s.%s" % (base, id, os.urandom(4).hex())
        try:
            os.mkdir(path, 0o700)
            return path
        except OSError as error:
            problems.append(error)
    kind = NoDirectory if all(problem.errno in LASTING for problem in problems) else OSError
    said = "; ".join(map(str, problems))
    raise kind(
        errno.ENOENT, "the environment's directory was removed, and no other can be made: " + said
    )


def _write(path: str, data: bytes) -> None:
    aside = "%s.%d" % (path, os.getpid())
    fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as file:
        file.write(data)
    os.rename(aside, path)


def _inode(path: str) -> int | None:
    try:
        return os.stat(path).st_ino
    except FileNotFoundError:
        return None
