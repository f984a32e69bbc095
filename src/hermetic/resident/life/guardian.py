"""The resident's parent: ends whatever is left when the resident is gone, however it went."""

from __future__ import annotations

import os
import sys

from ..processes import tree
from .fast_stdlib import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def guard(
    resident_pid: int, directory: str, spool: str | None, farewell: list[str], environ: dict[str, str], patience: float
) -> NoReturn:
    """Wait for the resident, then end what it leaves and remove its directory. Never returns.

    `farewell` is a program that takes away what is elsewhere. A resident that is stopped for `patience` seconds is
    killed: its own clocks do not run.
    """
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: tree.send([resident_pid], signal.SIGTERM))
    inode = inode_of(directory)

    def made_anew(*_: object) -> None:
        """The resident has made its directory again, after a cleaner of /tmp."""
        nonlocal inode
        inode = inode_of(directory)

    signal.signal(signal.SIGUSR1, made_anew)
    # Orphans of the resident become our children only after its death; until then it is the only one to wait for.
    signal.signal(signal.SIGALRM, lambda *_: tree.send([resident_pid], signal.SIGKILL))
    while True:
        pid, status = os.waitpid(-1, os.WUNTRACED | os.WCONTINUED)
        if pid == resident_pid:
            if not (os.WIFSTOPPED(status) or os.WIFCONTINUED(status)):
                break
            signal.setitimer(signal.ITIMER_REAL, patience if os.WIFSTOPPED(status) else 0)
    signal.setitimer(signal.ITIMER_REAL, 0)
    end_children()
    make_changes_whole(directory)
    if farewell:
        run(farewell, environ)
    if inode is not None and inode == inode_of(directory):  # else another life of the same task has it
        remove(directory)
    if spool is not None:
        remove_empty(spool)
    sys.stdout = sys.stderr = None
    os._exit(0)


def make_changes_whole(directory: str) -> None:
    """Takes back changes of several files whose writer was killed amid them; their journals lie in this directory."""
    try:
        if any(name.startswith(".hermetic-patch-") for name in os.listdir(directory)):
            __import__("files.journal", globals(), None, ["recover_all"], 2).recover_all(directory)
    except OSError:  # the directory is gone or closed to us
        pass


def run(argv: list[str], environ: dict[str, str]) -> None:
    """Returns when the program has ended, or could not be started."""
    pid = os.fork()
    if pid == 0:
        try:
            for number in (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            os.execvpe(argv[0], argv, environ)
        finally:
            os._exit(127)
    os.waitpid(pid, 0)


def end_children() -> None:
    """Freeze, kill and reap until there is no child: a subreaper's descendants all become its children in the end."""
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


def inode_of(path: str) -> int | None:
    try:
        return os.stat(path).st_ino
    except OSError:
        return None


def remove_empty(directory: str) -> None:
    """The spool's files have no names, so that their directory is empty unless somebody else uses it."""
    try:
        os.rmdir(directory)
    except OSError:
        pass


def remove(directory: str) -> None:
    """The socket, the channels and the record of the environment."""
    try:
        for name in os.listdir(directory):
            os.unlink("%s/%s" % (directory, name))
        os.rmdir(directory)
    except OSError:
        pass
