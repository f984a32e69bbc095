"""The guardian: the resident's parent, which ends what is left when the resident is gone for any
reason.
"""

from __future__ import annotations

import os
import sys

from ..lazy import Lazy
from ..processes import tree
from .fast_stdlib import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from ..files import journal
else:
    journal = Lazy("..files.journal", __package__)


def guard(resident_pid: int, directory: str, spool: str | None, patience: float) -> NoReturn:
    """Waits for the resident, ends what it leaves behind, and removes its directory. Never returns.

    A resident that is stopped for `patience` seconds is killed: its own timers do not run.
    """
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: tree.send([resident_pid], signal.SIGTERM))
    held = hold(directory)

    def made_anew(*_: object) -> None:
        """The resident has recreated its directory after a cleanup of /tmp."""
        nonlocal held
        before, held = held, hold(directory)
        if before is not None:
            os.close(before)

    signal.signal(signal.SIGUSR1, made_anew)
    # The resident's orphans become our children only after its death. Until then it is the only
    # child.
    signal.signal(signal.SIGALRM, lambda *_: tree.send([resident_pid], signal.SIGKILL))
    while True:
        pid, status = os.waitpid(-1, os.WUNTRACED | os.WCONTINUED)
        if pid == resident_pid:
            if not (os.WIFSTOPPED(status) or os.WIFCONTINUED(status)):
                break
            signal.setitimer(signal.ITIMER_REAL, patience if os.WIFSTOPPED(status) else 0)
    signal.setitimer(signal.ITIMER_REAL, 0)
    end_children()
    if held is not None:
        if is_held(held, directory):
            make_changes_whole(directory)
        remove_held(held, directory)
    if spool is not None:
        remove_empty(spool)
    sys.stdout = sys.stderr = None
    os._exit(0)


def make_changes_whole(directory: str) -> None:
    """Recovers changes of several files whose writer was killed; their journals are in this
    directory.
    """
    try:
        if any(name.startswith(".hermetic-patch-") for name in os.listdir(directory)):
            journal.recover_all(directory)
    except OSError:  # the directory is gone or not accessible
        pass


def end_children() -> None:
    """Stops, kills and reaps until no child is left: all descendants of a subreaper become its
    children in the end.
    """
    me = os.getpid()
    while True:
        frozen: set[int] = set()
        while True:
            new = [pid for pid in tree.descendants(tree.children(me)) if pid not in frozen]
            if not new:
                break
            tree.send(new, signal.SIGSTOP)
            frozen.update(new)
        refused = tree.send(frozen, signal.SIGKILL)
        try:
            while True:
                pid, _ = os.waitpid(-1, os.WNOHANG if frozen and len(refused) == len(frozen) else 0)
                if pid == 0:
                    return
        except ChildProcessError:
            return


def hold(directory: str) -> int | None:
    """A descriptor of the directory.

    While it is open, no other directory gets the same inode number.
    """
    try:
        return os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None


def is_held(held: int, directory: str) -> bool:
    """Whether the path still leads to the directory; else a later resident of the same task owns
    it.
    """
    try:
        return os.path.samestat(os.fstat(held), os.stat(directory))
    except OSError:
        return False


def remove_held(held: int, directory: str) -> None:
    """Removes a directory, and never another one that has its path by now."""
    try:
        for name in os.listdir(held):
            os.unlink(name, dir_fd=held)
        if is_held(held, directory):
            os.rmdir(directory)
    except OSError:
        pass


def remove_empty(directory: str) -> None:
    """Removes the spool directory if it is empty: spool files have no names."""
    try:
        os.rmdir(directory)
    except OSError:
        pass


def remove(directory: str) -> None:
    """Removes the directory with the socket, the channels and the environment's record."""
    try:
        for name in os.listdir(directory):
            os.unlink("%s/%s" % (directory, name))
        os.rmdir(directory)
    except OSError:
        pass
