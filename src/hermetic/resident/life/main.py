"""Start of a resident: reads the configuration, daemonises under a guardian, listens, and reports
its socket.
"""

from __future__ import annotations

import gc
import os
import struct
import sys

from ..lazy import Lazy
from ..limits import ERROR_LOG, GRACE, LEASE, LOGIN, UNATTENDED
from ..processes.descriptor_limit import DescriptorLimit, resource
from ..wire import frames
from ..wire.requests import Requests
from ..wire.stream import passed_listener
from . import process_attributes as attributes
from .directories import make_spool, settle
from .fast_stdlib import ctypes, signal
from .guardian import guard, make_changes_whole, remove
from .lease import Life
from .loop import Loop
from .resident import Resident
from .server import Server
from .upkeep import Upkeep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO, NoReturn

    from ..wire.frames import Fields
    from . import blackhole_routes
else:
    blackhole_routes = Lazy(".blackhole_routes", __package__)


class NoCtypes(Exception):
    """This Python has no ctypes, and the starter has one that has."""


# As engines end a container, a pod or a job.
TERMINATED = "the environment was ended from outside, by SIGTERM: deleted, evicted, cancelled, or its time was over"
NOT_INHERITED = (
    "PWD",
    "OLDPWD",
    "SHLVL",
    "_",
    "PS1",
    "PROMPT_COMMAND",
    "APPTAINER_BIND",
    "SINGULARITY_BIND",
)


def main(stream: BinaryIO) -> NoReturn:
    """Runs the resident.

    Never returns: the started process becomes the resident, or ends after the daemon has started.
    """
    config = read_config(stream)
    signal.alarm(0)  # the starter's timeout for reading the program
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    if config["needs_ctypes"] and ctypes is None:
        fail(NoCtypes("this python3 has no ctypes"))
        os._exit(1)
    close_inherited()
    os.umask(0o077)
    if not config["directory"]:
        settle_or_fail(config)
    make_spool(config)
    if not config["foreground"]:
        leave_starter(config)
    config["has_subreaper"] = attributes.become_subreaper()
    attributes.heed_internal_signals()
    try:
        if config["fences"]:
            blackhole_routes.put_up(config["fences"], config["outside"])
        attributes.refuse_calls(config["seccomp"])
        life = begin(config)
    except BaseException as error:
        fail(error)
        os._exit(1)
    say_ready(config, life)
    start_session(life)  # while the opener connects
    os.chdir("/")
    gc.enable()  # objects from the start are never garbage
    gc.freeze()
    gc.set_threshold(5000)  # requests create few cycles, and a collection costs more than a command
    keep_freed_memory()
    life.loop.run()
    if life.resident.channel_directory != config["directory"]:
        remove(life.resident.channel_directory)
    if config["foreground"]:
        remove(config["directory"])  # the guardian's part
    os._exit(0)


def keep_freed_memory() -> None:
    """Makes glibc keep the memory of large answers for the next ones.

    It maps and unmaps allocations from a threshold on, and gives freed memory beyond twice that back;
    the threshold is the largest mapped allocation that was freed. Otherwise each answer of 1 MiB
    would fault in all its pages anew, which takes longer than sending it.
    """
    bytes(2 * frames.FRAME_BODY)  # never touched, so that it takes no memory


def settle_or_fail(config: Fields) -> None:
    try:
        settle(config)
    except OSError as error:
        fail(error)
        os._exit(1)


def leave_starter(config: Fields) -> None:
    """Daemonises: returns in a grandchild with its own kernel session, under a guardian if
    configured.
    """
    if os.fork():
        os._exit(0)
    os.setsid()
    attributes.become_subreaper()
    pid = os.fork()
    if pid and config["guardian"]:
        attributes.set_title(b"hermetic-guardian")
        attributes.close_memory()  # it has read the token
        quiet()
        os.chdir("/")
        patience = max(config["unattended"], 1.0)
        guard(pid, config["directory"], config["spool"], patience)
    if pid:
        os._exit(0)


def read_config(stream: BinaryIO) -> Fields:
    (size,) = struct.unpack(">I", stream.read(4))
    config: Fields = frames.unpack(stream.read(size))
    defaults: Fields = {
        "lease": LEASE,
        "unattended": UNATTENDED,
        "login": True,
        "login_timeout": LOGIN,
        "guardian": True,
        "foreground": False,
        "inherit": False,
        "opener": None,
        "own_sockets": False,
        "own_cgroup": False,
        "arrival": 0.0,
        "seccomp": None,
        "fences": [],
        "outside": 0,
        "shared": [],
        "home": "",
        "host_socket": "",
        "needs_ctypes": False,
    }
    config = dict(defaults, **config)
    if config["inherit"]:
        config["environ"] = dict(inherited(config["home"]), **config["environ"])
    if config.get("last_path"):
        path = config["environ"].get("PATH") or os.defpath
        config["environ"]["PATH"] = path + os.pathsep + config["last_path"]
    config["guardian"] = config["guardian"] and not config["foreground"]
    return config


def inherited(home: str) -> dict[str, str]:
    """Variables of the environment itself."""
    found = {name: value for name, value in os.environ.items() if name not in NOT_INHERITED}
    if (
        home
        and not os.access(found.get("HOME", ""), os.W_OK | os.X_OK)
        and os.access(home, os.W_OK | os.X_OK)
    ):
        found["HOME"] = home
    return found


def close_inherited() -> None:
    """Closes inherited descriptors: a pipe of the starter that stays open here would never end."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            try:
                os.close(int(name))
            except OSError:  # the listing's own
                pass


def begin(config: Fields) -> Life:
    attributes.set_title(b"hermetic-resident")
    if config["own_sockets"]:
        attributes.keep_own_sockets()
    limits = DescriptorLimit()
    log = ErrorLog(config["directory"] + "/log")
    loop = Loop(log.write)
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    resident = Resident(loop, config, limits)
    resident.check_cwd()
    guardian = os.getppid() if config["guardian"] else None
    life = Life(resident, weaknesses(config), guardian, config)

    def end() -> None:
        life.end(GRACE, lambda: None, TERMINATED)

    # a handler may run amid any change, so the loop acts on it
    signal.signal(signal.SIGTERM, lambda *_: loop.call_soon(end))
    if config["guardian"]:
        signal.signal(signal.SIGUSR1, lambda *_: life.guardian_lost())
        attributes.hear_of_parents_death(signal.SIGUSR1)
    serve = Requests(resident, life).serve
    server = Server(loop, config["directory"] + "/s", config["token"], serve, config["opener"])
    passed = passed_listener(config["host_socket"]) if config["host_socket"] else None
    if passed is not None:
        server.listen_at(passed)
    life.attach(server)
    Upkeep(resident, life, server)
    os.umask(config.get("umask", 0o022))
    for directory in config["shared"]:
        make_changes_whole(directory)
    return life


def start_session(life: Life) -> None:
    """Starts the first shell, which opens descriptors of the holder."""
    life.resident.await_holder()
    if life.resident.holder is None:
        life.weak.append(
            "the resident's memory is not closed here: commands of its own user can trace and read it"
        )
    life.resident.session("")


def weaknesses(config: Fields) -> list[str]:
    found = []
    if not config["has_subreaper"]:
        found.append(
            "no ctypes here: a process that leaves its parent and its environment can outlive the end of its command"
        )
        if config["seccomp"] is not None:
            found.append("no ctypes here: system calls are not filtered")
    if resource is None:
        found.append("no resource module here: the limit of open descriptors is not raised")
    return found


def quiet() -> None:
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)


def say_ready(config: Fields, life: Life) -> None:
    assert life.server is not None, "it was begun"
    frame = frames.pack_frame(
        frames.REPLY,
        0,
        {
            "socket": life.server.path,
            "pid": os.getpid(),
            "guardian": life.guardian,
            "resident": config["id"],
            "spool": config["spool"],
        },
    )
    os.write(1, frame)
    quiet()


def fail(error: BaseException) -> None:
    message = "%s: %s" % (type(error).__name__, error)
    os.write(
        1, frames.pack_frame(frames.ERROR, 0, {"error": type(error).__name__, "message": message})
    )


class ErrorLog:
    """Bounded log of the resident's own exceptions, removed with its directory."""

    def __init__(self, path: str) -> None:
        self.path, self.left = path, ERROR_LOG

    def write(self) -> None:
        """Logs the current exception. A failure to log is ignored."""
        try:
            self._append()
        except Exception:  # no descriptors, no directory, a full disk
            pass

    def _append(self) -> None:
        if self.left <= 0:
            return
        with open(self.path, "a") as file:
            before = file.tell()
            sys.stderr, stderr = file, sys.stderr
            try:
                sys.excepthook(*sys.exc_info())
            finally:
                sys.stderr = stderr
            file.flush()
            self.left -= file.tell() - before
