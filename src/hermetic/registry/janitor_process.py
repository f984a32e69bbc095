"""The janitor itself, a process that takes away what residents leave on this host. Started by janitor.py.

Run as `python3 -I -S janitor_process.py ROOT`; standard library only. Standard input is the connection of its starter,
whose first message brings a descriptor that locks the runtime directory. Then each opener says, one message each:
`open ID` before anything else, which is answered at once, `spool PATH` before that is made, `made` once the directory
is there, `check LEASE UNATTENDED` and the words and variables of a program that looks whether the resident lives, `up`
once it does, or `done` when there is nothing to look after. An opener whose resident this host cannot see stays
connected; that program is run when a lease without it is over. `stalled` says that a resident does not answer: the same
program is run when it has been unattended for as long as it may be. The janitor wakes when a resident ends, or an
opener goes away, and ends when there is none of either.
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

NAME = b"hermetic-janitor"
MESSAGE_BYTES = 1 << 16
WAITING_OPENERS = 4096
SLACK_SECONDS = 1.0  # a lease is over there a little later than here
UNREACHABLE = 3  # the exit code of a check that could not look
MOST_FAILURES = 12  # checks in a row that could not look, before no more is tried
LONGEST_PAUSE = 86400.0  # seconds between two checks; it doubles each time up to this
RECORD, STALLED = "env.json", "stalled"  # files in an environment's directory


class Check:
    """How to find out whether a resident that this host cannot see still lives, and when it may have ended."""

    def __init__(self, text: str) -> None:
        times, words, variables = text.split("\0\0")
        self.lease, self.unattended = map(float, times.split())
        self.words = words.split("\0")
        self.environ = dict(variable.split("=", 1) for variable in variables.split("\0") if variable)

    def run(self) -> bool:
        """Runs the program, which removes what a gone resident left; False when it could not look."""
        null = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        try:
            pid = os.posix_spawn(self.words[0], self.words, self.environ, file_actions=null)
        except OSError:
            return False
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != UNREACHABLE


class Place:
    """What one life of an environment has on this host."""

    def __init__(self, root: str, id: str) -> None:
        self.id, self.directory, self.spool = id, f"{root}/{id}", ""
        self.check: Check | None = None
        self.fd: int | None = None  # of the directory; as long as it is open, no later directory has the same inode

    def made(self) -> None:
        """The directory is there."""
        with contextlib.suppress(OSError):
            self.fd = os.open(self.directory, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW)

    @property
    def has_directory(self) -> bool:
        """False once it was taken away, or another life of the same task has one there."""
        try:
            return self.fd is not None and os.path.samestat(os.fstat(self.fd), os.stat(self.directory))
        except FileNotFoundError:
            return False

    def close(self) -> None:
        """Lets go of the directory."""
        if self.fd is not None:
            os.close(self.fd)


class Janitor:
    """Residents and openers of one runtime directory, and what to do when one of them ends."""

    def __init__(self, root: str) -> None:
        self.root, self.path = root, f"{root}/janitor"
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.poll = select.poll()
        self.waits: dict[int, Callable[[], None]] = {}

    def listen(self) -> None:
        """Listens in the runtime directory; its lock is held, so nobody else does."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)  # of one that was killed
        self.listener.bind(self.path)
        self.listener.listen(WAITING_OPENERS)
        self.listener.setblocking(False)
        self.wait(self.listener.fileno(), self.accept)

    def run(self) -> None:
        """Returns when nobody is left to wait for."""
        while len(self.waits) > 1:
            for fd, _ in self.poll.poll():
                self.waits[fd]()
        # In this order: who connects between the two is cut off, and starts the next janitor.
        with contextlib.suppress(FileNotFoundError):  # the whole directory was taken away
            os.unlink(self.path)
        self.listener.close()

    def wait(self, fd: int, reaction: Callable[[], None]) -> None:
        self.poll.register(fd, select.POLLIN)
        self.waits[fd] = reaction

    def forget(self, fd: int) -> None:
        self.poll.unregister(fd)
        del self.waits[fd]

    def accept(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                self.serve(self.listener.accept()[0])

    def serve(self, connection: socket.socket) -> None:
        self.wait(connection.fileno(), Opener(self, connection).hear)

    def look_after(self, place: Place, resident: int) -> None:
        """`resident` is a descriptor of the process."""

        def ended() -> None:
            self.forget(resident)
            os.close(resident)
            self.apart(clean, place)

        self.wait(resident, ended)

    def apart(self, work: Callable[[str, Place], None], place: Place) -> None:
        """Does the last work for a place, in a process of its own: who holds a record's lock may be waiting for us."""
        if os.fork():
            place.close()
            return
        try:
            for fd in self.waits:
                os.close(fd)  # the listener, above all: else openers could connect to nobody
            work(self.root, place)
        finally:
            os._exit(0)


class Opener:
    """Somebody who opens an environment: says which, then that it is up, or goes away before."""

    def __init__(self, janitor: Janitor, connection: socket.socket) -> None:
        self.janitor, self.connection = janitor, connection
        self.place: Place | None = None
        self.is_up = False  # its resident lives where this host does not see it

    def hear(self) -> None:
        try:
            word, _, rest = os.fsdecode(self.connection.recv(MESSAGE_BYTES)).partition(" ")
        except OSError:
            word = rest = ""
        if word == "open" and self.place is None and is_id(rest):
            self.place = Place(self.janitor.root, rest)
            self.say(b".")  # who connected to a janitor that was about to end gets none
        elif word == "spool" and self.place and os.path.basename(rest).startswith(f"{self.place.id}."):
            self.place.spool = rest
        elif word == "made" and self.place and self.place.fd is None:
            self.place.made()
        elif word == "check" and self.place:
            with contextlib.suppress(ValueError):  # cut off, because its variables are very long
                self.place.check = Check(rest)
        elif word == "stalled" and self.place and self.place.check:
            self.part()
            self.janitor.apart(check_stalled, self.place)
        elif word == "up" and self.place and not self.is_up:
            self.up(self.place)
        else:
            self.part()
            if self.place is not None:
                self.leave(self.place, is_told=bool(word))

    def up(self, place: Place) -> None:
        """The resident lives: its end is waited for, or, where this host cannot see it, the opener's."""
        resident = resident_in(place.directory) if place.has_directory else None
        if resident is None and place.check is not None:
            self.is_up = True
            self.say(b"-")
            return
        self.say(b"-" if resident is None else b"+")
        self.part()
        if resident is None:
            place.close()
        else:
            self.janitor.look_after(place, resident)

    def leave(self, place: Place, *, is_told: bool) -> None:
        """The opener let go; untold, when it went away before it was done."""
        if is_told:
            place.close()
        else:
            self.janitor.apart(check_later if self.is_up else clean_up_after_opener, place)

    def part(self) -> None:
        self.janitor.forget(self.connection.fileno())
        self.connection.close()

    def say(self, answer: bytes) -> None:
        with contextlib.suppress(OSError):
            self.connection.send(answer)


def is_id(text: str) -> bool:
    return text[:2] in ("t-", "e-") and text[2:].isalnum()


def clean_up_after_opener(root: str, place: Place) -> None:
    """The opener went away: its resident may be up though nobody said so, and lives until its lease is over."""
    wait_until_at_rest(place.directory)
    with lock(root, place.id):
        resident = resident_in(place.directory) if place.has_directory else None
    if resident is not None:
        poll = select.poll()
        poll.register(resident, select.POLLIN)
        poll.poll()
    clean(root, place)


def check_later(root: str, place: Place) -> None:
    """The opener released a resident elsewhere, which ends by its lease unless others use it or something runs."""
    assert place.check is not None, "it is up there"
    check_again(root, place, place.check, place.check.lease, lambda: True)


def check_stalled(root: str, place: Place) -> None:
    """A resident does not answer. The check ends it from outside after its `unattended` time."""
    assert place.check is not None, "it was sent before"
    is_stalled = f"{place.directory}/{STALLED}"
    check_again(root, place, place.check, place.check.unattended, lambda: os.path.exists(is_stalled))


def check_again(root: str, place: Place, check: Check, pause: float, is_needed: Callable[[], bool]) -> None:
    """Checks until the place is gone, with growing pauses; gives up when too many in a row could not look."""
    hear_of_removals(root)
    failures = 0
    while is_there_after(pause + SLACK_SECONDS, place) and is_needed():
        failures = 0 if check.run() else failures + 1
        if failures == MOST_FAILURES:
            note(root, place, f"{failures} checks in a row could not reach it, so no more is tried")
            return
        longer = check.lease if failures else max(check.lease, check.unattended)
        pause = max(longer, min(2 * (pause + SLACK_SECONDS), LONGEST_PAUSE))


def note(root: str, place: Place, text: str) -> None:
    """Adds a sentence to the notes of a record."""
    with lock(root, place.id), contextlib.suppress(OSError, ValueError):
        if place.has_directory:
            path = f"{place.directory}/{RECORD}"
            with open(path, "rb") as file:
                record = json.load(file)
            date = time.strftime("%Y-%m-%d %H:%M")
            advice = f"`hermetic gc {place.id}` looks again, `hermetic rm {place.id}` ends it"
            record["notes"] = [*record.get("notes", ()), f"{date}, the janitor: {text}; {advice}"]
            with open(os.open(f"{path}.janitor", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
                json.dump(record, file)
            os.rename(f"{path}.janitor", path)


def hear_of_removals(root: str) -> None:
    """SIGIO, which is only ever waited for, comes when something is taken out of the directory; by every kernel's
    oldest way to tell, which the standard library knows. Without it, what is gone is noticed when the time is over."""
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGIO,))
    with contextlib.suppress(OSError):
        fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY)  # for the rest of this process
        fcntl.fcntl(fd, fcntl.F_NOTIFY, fcntl.DN_DELETE | fcntl.DN_RENAME | fcntl.DN_MULTISHOT)


def is_there_after(seconds: float, place: Place) -> bool:
    """False as soon as the place's directory is gone."""
    until = time.monotonic() + seconds
    while place.has_directory:
        left = until - time.monotonic()
        if left <= 0:
            return True
        signal.sigtimedwait((signal.SIGIO,), left)
    return False


def wait_until_at_rest(directory: str) -> None:
    """A program that the opener started may still make something that needs the directory, as `busy` tells."""
    with contextlib.suppress(OSError):
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(fd, fcntl.LOCK_EX)
        os.close(fd)


def clean(root: str, place: Place) -> None:
    """Takes the directory and the spool of an ended resident away, unless another life has them."""
    with lock(root, place.id):
        if place.has_directory:
            remove_tree(place.directory)
        else:
            with contextlib.suppress(OSError):
                os.rmdir(place.directory)  # an opener that went away before it could say that it was made
        if place.spool:
            remove_tree(place.spool)


def resident_in(directory: str) -> int | None:
    """A descriptor of the process that listens in this directory, as the kernel knows it; None where nobody does."""
    for path in sockets_in(directory):
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as stream:
            stream.connect(path)
            pid, _, _ = struct.unpack("3i", stream.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            if pid > 0:  # 0: it lives where this machine does not see processes
                return os.pidfd_open(pid)
    return None


def sockets_in(directory: str) -> Iterator[str]:
    for folder, _, names in os.walk(directory):
        for name in names:
            path = f"{folder}/{name}"
            with contextlib.suppress(OSError):
                if stat.S_ISSOCK(os.lstat(path).st_mode):
                    yield path


@contextlib.contextmanager
def lock(root: str, id: str) -> Iterator[None]:
    """The lock of a record, as Records.lock has it: the file is removed by whoever held it."""
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


def remove_tree(path: str) -> None:
    """Follows no link; what cannot be removed stays."""
    for _, folders, names, fd in os.fwalk(path, topdown=False):
        for name in names:
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=fd)
        for name in folders:
            with contextlib.suppress(OSError):
                os.rmdir(name, dir_fd=fd)
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=fd)  # a link to a directory
    with contextlib.suppress(OSError):
        os.rmdir(path)


def set_title() -> None:
    """What `ps` shows, written over our own arguments."""
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
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # each place holds two
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody has to collect what `apart` starts
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
