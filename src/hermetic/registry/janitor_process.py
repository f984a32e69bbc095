"""The janitor process: removes what residents leave on this host. Started by janitor.py; standard
library only.

Run as `python3 -I -S janitor_process.py ROOT`. Standard input is the connection of its starter,
whose first message brings a descriptor that locks the runtime directory. Each opener sends, one
message each:

    {"id": …, "spool": …, "check": …}   before it makes anything; the reply is "."
    made                                its directory exists
    up PID                              the resident answers; the reply is "+" if the janitor sees its process, else "-"
    done                                nothing was started
    stalled                             a known resident does not answer

The janitor waits for the end of a resident that it sees. For one that it does not see (another
machine, a virtual machine), it waits for the opener to disconnect and runs the opener's check once
a lease without it is over. The check also runs when a stalled resident has been unattended for as
long as it may. The janitor exits when it has no opener and no resident to wait for.
"""

import contextlib
import fcntl
import json
import os
import resource
import select
import signal
import socket
import stat
import struct
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

NAME = b"hermetic-janitor"
MESSAGE_BYTES = 1 << 16
BACKLOG = 4096
SLACK_SECONDS = 1.0  # a lease ends there a little later than here
UNREACHABLE = 3  # exit code of a check that could not reach the environment
MOST_FAILURES = 12  # failed checks in a row before the janitor gives up
LONGEST_PAUSE = 86400.0  # seconds between two checks; the pause doubles up to this
RECORD, STALLED = "env.json", "stalled"  # files in an environment's directory
SOCKET_DEPTH = 2  # directories between an environment's and the resident's socket, at most
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class LivenessCheck:
    """A program that removes an environment if its resident is gone, and the times after which to
    run it.
    """

    def __init__(
        self,
        lease: float,
        unattended: float,
        argv: list[str],
        environ: dict[str, str],
        orphans: bool = False,
    ) -> None:
        self.lease, self.unattended, self.argv, self.environ = lease, unattended, argv, environ
        self.orphans = orphans  # it also ends what an opener has created elsewhere that was killed

    def run(self) -> bool:
        """False when the program could not reach the environment."""
        null = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        try:
            pid = os.posix_spawn(self.argv[0], self.argv, self.environ, file_actions=null)
        except OSError:
            return False
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != UNREACHABLE


class HostFiles:
    """Directory and spool of one life of an environment."""

    def __init__(
        self, root: str, id: str, spool: str = "", check: LivenessCheck | None = None
    ) -> None:
        self.id, self.directory, self.spool, self.check = id, f"{root}/{id}", spool, check
        # of the directory; while it is open, no later directory has the same inode
        self.fd: int | None = None

    def made(self) -> None:
        """The directory exists."""
        with contextlib.suppress(OSError):
            self.fd = os.open(self.directory, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW)

    @property
    def has_directory(self) -> bool:
        """False once the directory was removed, or the path belongs to another life of the same
        task.
        """
        try:
            return self.fd is not None and os.path.samestat(
                os.fstat(self.fd), os.stat(self.directory)
            )
        except FileNotFoundError:
            return False

    def close(self) -> None:
        """Closes the descriptor of the directory."""
        if self.fd is not None:
            os.close(self.fd)


class Janitor:
    """Residents and openers of one runtime directory, and the reaction to the end of each."""

    def __init__(self, root: str) -> None:
        self.root, self.path = root, f"{root}/janitor"
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.poll = select.poll()
        self.reactions: dict[int, Callable[[], None]] = {}  # by descriptor

    def listen(self) -> None:
        """Listens in the runtime directory, whose lock is held: no other janitor does."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)  # of one that was killed
        self.listener.bind(self.path)
        self.listener.listen(BACKLOG)
        self.listener.setblocking(False)
        self.wait(self.listener.fileno(), self.accept)

    def run(self) -> None:
        """Returns when no opener and no resident is left."""
        while len(self.reactions) > 1:
            for fd, _ in self.poll.poll():
                self.reactions[fd]()
        # In this order: a client that connects between the two is disconnected and starts the next
        # janitor.
        with contextlib.suppress(FileNotFoundError):  # the runtime directory was removed
            os.unlink(self.path)
        self.listener.close()

    def wait(self, fd: int, reaction: Callable[[], None]) -> None:
        self.poll.register(fd, select.POLLIN)
        self.reactions[fd] = reaction

    def forget(self, fd: int) -> None:
        self.poll.unregister(fd)
        del self.reactions[fd]

    def accept(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                self.serve(self.listener.accept()[0])

    def serve(self, connection: socket.socket) -> None:
        self.wait(connection.fileno(), OpenerConnection(self, connection).read)

    def wait_for_resident(self, files: HostFiles, pidfd: int) -> None:
        def ended() -> None:
            self.forget(pidfd)
            os.close(pidfd)
            self.fork(clean, files)

        self.wait(pidfd, ended)

    def fork(self, work: Callable[[str, HostFiles], None], files: HostFiles) -> None:
        """Runs the last work for an environment in a child: the holder of a record's lock may be
        waiting for us.
        """
        if os.fork():
            files.close()
            return
        try:
            for fd in self.reactions:
                os.close(fd)  # above all the listener: clients could connect to it and get no reply
            work(self.root, files)
        finally:
            os._exit(0)


class OpenerConnection:
    """The connection of a process that opens an environment."""

    def __init__(self, janitor: Janitor, connection: socket.socket) -> None:
        self.janitor, self.connection = janitor, connection
        self.files: HostFiles | None = None
        self.is_up = False  # the resident lives where this host does not see it

    def read(self) -> None:
        try:
            word, _, rest = (
                self.connection.recv(MESSAGE_BYTES)
                .decode("utf-8", "surrogateescape")
                .partition(" ")
            )
        except ConnectionResetError:  # it left our reply unread; what it sent before comes next
            return
        except OSError:
            word = rest = ""
        files = self.files
        if files is None and (files := self.opened(f"{word} {rest}")):
            self.files = files
            self.reply(b".")  # a client of a janitor that was about to exit gets none
        elif word == "made" and files and files.fd is None:
            files.made()
        elif word == "stalled" and files and files.check:
            self.disconnect()
            self.janitor.fork(check_stalled, files)
        elif word == "up" and files and not self.is_up and rest.isdigit():
            self.up(files, int(rest))
        else:
            self.disconnect()
            if files is not None:
                self.closed(files, is_done=bool(word))

    def opened(self, message: str) -> HostFiles | None:
        """What the first message names; None for another message."""
        try:
            fields: dict[str, Any] = json.loads(message)
            check = LivenessCheck(**fields["check"]) if fields["check"] else None
        except (ValueError, KeyError, TypeError):
            return None
        id, spool = fields["id"], fields["spool"]
        is_own = is_id(id) and (not spool or os.path.basename(spool).startswith(f"{id}."))
        return HostFiles(self.janitor.root, id, spool, check) if is_own else None

    def up(self, files: HostFiles, pid: int) -> None:
        """The resident answers.

        Waits for its end or, where this host cannot see it, for that of the connection.
        """
        pidfd = None
        if pid and files.has_directory:
            with contextlib.suppress(OSError):
                pidfd = os.pidfd_open(pid)
        self.reply(b"-" if pidfd is None else b"+")
        if pidfd is not None:
            self.disconnect()
            self.janitor.wait_for_resident(files, pidfd)
        elif files.check is not None:
            self.is_up = True
        else:
            self.disconnect()
            files.close()

    def closed(self, files: HostFiles, *, is_done: bool) -> None:
        """The opener is done, or disconnected without saying so."""
        if is_done:
            files.close()
        else:
            self.janitor.fork(check_later if self.is_up else clean_up_after_opener, files)

    def disconnect(self) -> None:
        self.janitor.forget(self.connection.fileno())
        self.connection.close()

    def reply(self, answer: bytes) -> None:
        with contextlib.suppress(OSError):
            self.connection.send(answer)


def is_id(text: str) -> bool:
    return text[:2] in ("t-", "e-") and text[2:].isalnum()


def clean_up_after_opener(root: str, files: HostFiles) -> None:
    """The opener died before `up`.

    A resident that it started may run, and lives until its lease is over.
    """
    wait_until_unused(files.directory)
    with lock(root, files.id):
        resident = resident_in(files.directory) if files.has_directory else None
    if resident is not None:
        poll = select.poll()
        poll.register(resident, select.POLLIN)
        poll.poll()
    was_killed = os.path.lexists(files.directory)  # an open that failed has removed its own
    clean(root, files)
    if was_killed and files.check is not None and files.check.orphans:
        end_orphans(files.check)


def end_orphans(check: LivenessCheck) -> None:
    """Runs the check after a lease, in which a request that the killed opener had sent takes
    effect.
    """
    for _ in range(MOST_FAILURES):
        time.sleep(check.lease)
        if check.run():
            return


def check_later(root: str, files: HostFiles) -> None:
    """The opener released a resident elsewhere, which ends by its lease unless it has other clients
    or processes.
    """
    assert files.check is not None, "it is up there"
    check_again(root, files, files.check, files.check.lease, lambda: True)


def check_stalled(root: str, files: HostFiles) -> None:
    """A resident does not answer. The check ends it from outside after its `unattended` time."""
    assert files.check is not None, "it came with `open`"
    is_stalled = f"{files.directory}/{STALLED}"
    check_again(
        root, files, files.check, files.check.unattended, lambda: os.path.exists(is_stalled)
    )


def check_again(
    root: str, files: HostFiles, check: LivenessCheck, pause: float, is_needed: Callable[[], bool]
) -> None:
    """Checks until the directory is gone, with growing pauses; gives up after too many failures in
    a row.
    """
    watch_removals(root)
    failures = 0
    while is_there_after(pause + SLACK_SECONDS, files) and is_needed():
        failures = 0 if check.run() else failures + 1
        if failures == MOST_FAILURES:
            note(root, files, f"{failures} checks in a row could not reach it, so no more is tried")
            return
        longer = check.lease if failures else max(check.lease, check.unattended)
        pause = max(longer, min(2 * (pause + SLACK_SECONDS), LONGEST_PAUSE))


def note(root: str, files: HostFiles, text: str) -> None:
    """Adds a sentence to the notes of a record."""
    with lock(root, files.id), contextlib.suppress(OSError, ValueError):
        if files.has_directory:
            path = f"{files.directory}/{RECORD}"
            with open(path, "rb") as file:
                record = json.load(file)
            date = time.strftime("%Y-%m-%d %H:%M")
            advice = f"`hermetic gc {files.id}` looks again, `hermetic rm {files.id}` ends it"
            record["notes"] = [*record.get("notes", ()), f"{date}, the janitor: {text}; {advice}"]
            with open(
                os.open(f"{path}.janitor", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w"
            ) as file:
                json.dump(record, file)
            os.rename(f"{path}.janitor", path)


def watch_removals(root: str) -> None:
    """Has the kernel send SIGIO, which is blocked and waited for, when an entry of the directory is
    removed.

    Uses dnotify, since the standard library has no inotify. Without it a removal is noticed when
    the pause is over.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGIO,))
    with contextlib.suppress(OSError):
        fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY)  # for the rest of this process
        fcntl.fcntl(fd, fcntl.F_NOTIFY, fcntl.DN_DELETE | fcntl.DN_RENAME | fcntl.DN_MULTISHOT)


def is_there_after(seconds: float, files: HostFiles) -> bool:
    """False as soon as the directory is gone."""
    until = time.monotonic() + seconds
    while files.has_directory:
        left = until - time.monotonic()
        if left <= 0:
            return True
        signal.sigtimedwait((signal.SIGIO,), left)
    return False


def wait_until_unused(directory: str) -> None:
    """Waits for programs that the opener started and that still use the directory; see
    file_lock.hold_directory.
    """
    with contextlib.suppress(OSError):
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(fd, fcntl.LOCK_EX)
        os.close(fd)


def clean(root: str, files: HostFiles) -> None:
    """Removes directory and spool of an ended resident, unless they belong to another life by now."""
    with lock(root, files.id):
        if files.has_directory:
            remove_tree(files.directory)
        else:
            with contextlib.suppress(OSError):
                os.rmdir(files.directory)  # of an opener that died before it could send `made`
        if files.spool:
            remove_tree(files.spool)


def resident_in(directory: str) -> int | None:
    """A pidfd of the process that listens in this directory; None where there is none that this
    host sees.
    """
    for path in sockets_in(directory):
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as stream:
            stream.connect(path)
            pid, _, _ = struct.unpack(
                "3i", stream.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            )
            if pid > 0:  # 0: in a PID namespace that this host does not see
                return os.pidfd_open(pid)
    return None


def sockets_in(directory: str | os.PathLike[str]) -> Iterator[str]:
    """The sockets where residents have theirs. Commands may have made what is deeper."""
    folders = [(os.fspath(directory), 0)]
    while folders:
        folder, depth = folders.pop()
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if depth < SOCKET_DEPTH:
                        folders.append((entry.path, depth + 1))
                elif not entry.is_file(follow_symlinks=False):
                    with contextlib.suppress(OSError):
                        if stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode):
                            yield entry.path


@contextlib.contextmanager
def lock(root: str, id: str) -> Iterator[None]:
    """The lock of a record, as Records.lock has it: its holder removes the file."""
    path = f"{root}/{id}.lock"
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(fd, fcntl.LOCK_EX)
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(fd), os.stat(path)):
                break
        os.close(fd)
    try:
        yield
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        os.close(fd)


def remove_tree(path: str | os.PathLike[str]) -> None:
    """Removes a directory without following links, however deep it is and whatever its permissions
    are; what cannot be removed stays.

    Commands may have made it. What is deeper is moved to the top first, so that neither the stack
    nor descriptors nor the length of paths limit the depth.
    """
    with contextlib.suppress(OSError):
        os.rmdir(path)  # an empty one takes no descriptor, of which there may be none
        return
    with contextlib.suppress(OSError):
        top = os.open(path, _DIRECTORY)
        try:
            mark, count = f".{os.urandom(8).hex()}.", 0
            waiting = _emptied(top)
            while waiting:
                name = waiting.pop()
                with contextlib.suppress(OSError):
                    folder = _opened(name, top)
                    try:
                        for inner in _emptied(folder):
                            count += 1
                            with contextlib.suppress(OSError):
                                _moved(inner, folder, f"{mark}{count}", top)
                                waiting.append(f"{mark}{count}")
                    finally:
                        os.close(folder)
                    os.rmdir(name, dir_fd=top)
        finally:
            os.close(top)
        os.rmdir(path)


def _emptied(directory: int) -> list[str]:
    """Removes all but the directories from a directory; returns their names."""
    if ~os.fstat(directory).st_mode & stat.S_IRWXU:
        os.fchmod(directory, stat.S_IRWXU)
    folders = []
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
            else:
                with contextlib.suppress(OSError):
                    os.unlink(entry.name, dir_fd=directory)
    return folders


def _opened(name: str, parent: int) -> int:
    try:
        return os.open(name, _DIRECTORY, dir_fd=parent)
    except PermissionError:
        _permit(name, parent)
        return os.open(name, _DIRECTORY, dir_fd=parent)


def _moved(name: str, parent: int, target: str, top: int) -> None:
    try:
        os.rename(name, target, src_dir_fd=parent, dst_dir_fd=top)
    except PermissionError:  # of a directory that its owner may not write to
        _permit(name, parent)
        os.rename(name, target, src_dir_fd=parent, dst_dir_fd=top)


def _permit(name: str, parent: int) -> None:
    handle = os.open(name, _DIRECTORY | os.O_PATH, dir_fd=parent)
    try:
        os.chmod(f"/proc/self/fd/{handle}", stat.S_IRWXU)
    finally:
        os.close(handle)


def set_title() -> None:
    """Sets the name that `ps` shows, by overwriting the process' arguments."""
    with contextlib.suppress(OSError, ValueError):
        with open("/proc/self/comm", "wb") as comm:
            comm.write(NAME)
        with open("/proc/self/stat", "rb") as status:
            start, end = map(int, status.read().rpartition(b")")[2].split()[45:47])
        with open("/proc/self/mem", "r+b", 0) as memory:
            memory.seek(start)
            memory.write(NAME[: end - start - 1].ljust(end - start, b"\0"))


def main() -> None:
    first = socket.socket(fileno=0)
    os.closerange(3, 1 << 20)
    os.chdir("/")
    set_title()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # two for each environment
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel collects the children of `fork`
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    _, locks, _, _ = socket.recv_fds(first, MESSAGE_BYTES, 1)
    janitor = Janitor(sys.argv[1])
    janitor.listen()
    for fd in locks:
        os.close(fd)
    janitor.serve(first)
    janitor.run()


if __name__ == "__main__":
    main()
