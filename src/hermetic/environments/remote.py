"""Base of kinds whose resident lives beyond a program that runs a shell line there, such as ssh.

All such calls run Python code there: the environment's own Python, or that of the portable runtime,
which is uploaded where the environment lacks a fitting Python or bash.
"""

import os
import socket
import time
from collections.abc import Mapping, Sequence

from hermetic.contract.environment import EnvironmentRecord, NewEnvironment, ResidentConfig, Started
from hermetic.contract.errors import EnvironmentUnavailable, Unreachable
from hermetic.contract.limits import CONNECT, START
from hermetic.environments.bridge import BRIDGE, bridged
from hermetic.environments.options import resident_config
from hermetic.environments.runtime.store import ADVICE
from hermetic.environments.runtime.upload import UploadChoice
from hermetic.environments.starting import StartFailed, run_program, start_resident
from hermetic.environments.unix_socket import SocketBackend
from hermetic.link.archive import BOOT, NO_PYTHON_CODE
from hermetic.registry.records import check_own, is_own_directory

ANSWER = CONNECT + 5.0  # seconds for a quick call
UPLOAD_SECONDS = 120.0  # for one part of an upload
PART_BYTES = 1 << 20  # of one part
NO_SHELL_CODES = (126, 127)  # of a program that cannot start another one
MARK = b"\0hermetic\n"  # precedes the output of our program; earlier output is the user's shell's

# For any login shell: no nested quotes, no line break, no backslash.
_THERE = (
    f"exec sh -c 'command -v %s >/dev/null 2>&1 || exit {NO_PYTHON_CODE}; "
    'exec %s -I -S -c "import sys; exec(bytes.fromhex(sys.argv.pop(1)).decode())" "$@"\' sh'
)
_BEFORE = f"""\
import os, sys
sys.version_info >= (3, 8) or sys.exit({NO_PYTHON_CODE})
sys.argv[1:] = [os.fsdecode(bytes.fromhex(word)) for word in sys.argv[1:]]
os.write(1, {MARK!r})
"""

# Run there as `python3 -I -S -c REMOVE DIRECTORY SPOOL PID…`: returns when the resident and its
# guardian have ended, by themselves or after growing force, and their files are removed.
REMOVE = """\
import os, signal, sys, time
directory, spool = sys.argv[1:3]
def is_ours(pid):
    try:
        with open("/proc/%s/comm" % pid) as comm:
            return comm.read().startswith("hermetic")
    except OSError:
        return False
def is_of_this_boot():
    with open("/proc/stat") as lines:
        booted = [int(line.split()[1]) for line in lines if line.startswith("btime")]
    return os.stat(directory).st_ctime >= booted[0]
def see_ended(pid):
    for number in (0, signal.SIGTERM, signal.SIGKILL):
        for _ in range(200):
            if not is_ours(pid):
                return
            if number and _ == 0:
                os.kill(int(pid), number)
            time.sleep(0.01)
if os.path.isdir(directory) and is_of_this_boot():
    for pid in sys.argv[3:]:
        see_ended(pid)
if os.path.isdir(directory):
    for name in os.listdir(directory):
        os.unlink(os.path.join(directory, name))
    os.rmdir(directory)
if spool and os.path.isdir(spool):
    os.rmdir(spool)
"""

# Run there as `python3 -I -S -c IS_ALIVE PID AGE`. A process that is younger than the environment
# has only its number; a minute is for clocks that run unevenly.
ENDED_CODE = 98
IS_ALIVE = f"""\
import os, sys
def age(pid):
    with open("/proc/%s/stat" % pid) as stat, open("/proc/uptime") as uptime:
        name, _, rest = stat.read().partition("(")[2].rpartition(")")
        fields = rest.split()
        if not name.startswith("hermetic") or fields[0] in "ZX":
            return -1
        return float(uptime.read().split()[0]) - int(fields[19]) / os.sysconf("SC_CLK_TCK")
try:
    is_alive = age(sys.argv[1]) > float(sys.argv[2]) - 60
except OSError:
    is_alive = False
if not is_alive:
    sys.exit({ENDED_CODE})
"""


class CallFailed(EnvironmentUnavailable):
    """A program ran there, or the one that was to start it did, and failed."""

    def __init__(self, stderr: str, exit_code: int | None) -> None:
        super().__init__(f"it ended; it said:\n{stderr}")
        self.exit_code = exit_code


class RemoteBackend(SocketBackend):
    """Parts of a backend that reaches its environment by a program which runs a shell line there."""

    leaves_files = True

    # -- methods of subclasses
    def line_argv(self, line: str) -> list[str]:
        """The program on this machine that runs a shell line there, with its standard streams."""
        raise NotImplementedError

    def environ(self) -> Mapping[str, str]:
        """The variables of that program."""
        return dict(os.environ)

    def explained(self, error: EnvironmentUnavailable, *, may_pass: bool) -> EnvironmentUnavailable:
        """An error that says what to do; Unreachable if a retry may help.

        `may_pass` is for unknown errors.
        """
        return (
            Unreachable(f"{self}: {error}")
            if may_pass
            else EnvironmentUnavailable(f"{self}: {error}")
        )

    # -- the backend
    async def start(self, new: NewEnvironment) -> Started:
        """Starts a resident there, in a directory of its own. Raises EnvironmentUnavailable."""
        config = resident_config(self.chosen, new, arrival=ANSWER)
        return await self.start_there(config, self.chosen.runtime)

    async def start_there(self, config: ResidentConfig, runtime: str) -> Started:
        """Starts a resident in a directory of its own there. `runtime` is as in RuntimeChoice.

        Raises EnvironmentUnavailable.
        """
        choice = UploadChoice(runtime, str(self), ask=self._ask, size=PART_BYTES, subject=str(self))
        try:
            return await choice.start(config, self.boot)
        except CallFailed as error:
            if error.exit_code in NO_SHELL_CODES:
                raise EnvironmentUnavailable(
                    f"{self}: no shell can be started there; {ADVICE}. {error}"
                ) from error
            raise self.explained(error, may_pass=True) from error
        except StartFailed as error:
            raise self.explained(error, may_pass=False) from error

    async def boot(self, python: str, given: bytes) -> Started:
        """Starts a resident there by this Python, with that input. Raises StartFailed."""
        argv = self.line_argv(python_line(BOOT, python=python))
        return await start_resident(argv, given, seconds=START, environ=self.environ(), after=MARK)

    async def _ask(self, script: str, given: bytes) -> str:
        text = script.encode()
        # The script is the beginning of the input, so that no login shell has to quote it.
        argv = self.line_argv(f"exec sh -c 'eval \"$(dd bs=1 count={len(text)} 2>/dev/null)\"'")
        return (await self._run(argv, seconds=UPLOAD_SECONDS, given=text + given)).decode(
            "utf-8", "replace"
        )

    async def reach(self, record: EnvironmentRecord) -> socket.socket:
        """A stream to the resident's socket there."""
        try:
            call = self._call(record.place, BRIDGE, record.socket)
            return await bridged(call, seconds=ANSWER, environ=self.environ(), after=MARK)
        except EnvironmentUnavailable as error:
            raise self.explained(error, may_pass=True) from error
        # perhaps only the file was removed: the resident makes it anew
        except FileNotFoundError as error:
            if await self.is_gone(record):
                raise ConnectionRefusedError(f"process {record.pid} there has ended") from error
            message = f"{self}: process {record.pid} lives there, and its socket has no name"
            raise Unreachable(message, environment=record.id, state="stalled") from error

    async def is_gone(self, record: EnvironmentRecord) -> bool:
        """Whether the resident's process there has ended.

        Raises Unreachable when there is no answer.
        """
        try:
            await self._run(self._call(record.place, *liveness_words(record)), seconds=ANSWER)
        except EnvironmentUnavailable as error:
            if isinstance(error, CallFailed) and error.exit_code == ENDED_CODE:
                return True
            raise Unreachable(f"{self}: {error}", environment=record.id) from error
        return False

    async def remove(self, record: EnvironmentRecord) -> str:
        """Returns when the resident and its files are gone.

        Raises Unreachable; then its lease ends it.
        """
        pids = [str(pid) for pid in (record.pid, record.guardian) if pid is not None]
        place = record.place
        for path in filter(None, (place["directory"], place["spool"])):
            check_own(record, path, is_own_directory(record, path))
        try:
            await self._run(
                self._call(place, REMOVE, place["directory"], place["spool"], *pids), seconds=START
            )
        except EnvironmentUnavailable as error:
            raise Unreachable(
                f"{error}; what runs there ends with its lease", environment=record.id
            ) from error
        return f"ended process {' and '.join(pids)} there, and removed {place['directory']}"

    def _call(self, place: Mapping[str, str], code: str, *arguments: str) -> list[str]:
        """The program on this machine that runs Python code there."""
        return self.line_argv(python_line(code, *arguments, python=place.get("python", "python3")))

    async def _run(self, argv: Sequence[str], *, seconds: float, given: bytes = b"") -> bytes:
        """Runs a call to its end; its output. Raises CallFailed, EnvironmentUnavailable."""
        try:
            done = await run_program(argv, seconds=seconds, given=given, environ=self.environ())
        except TimeoutError:
            raise EnvironmentUnavailable(f"no answer within {seconds:g} s") from None
        if done.code != 0:
            raise CallFailed(done.errors, done.code)
        return done.output


def liveness_words(record: EnvironmentRecord) -> tuple[str, str, str]:
    """IS_ALIVE and its arguments for the resident of a record."""
    return IS_ALIVE, str(record.pid), f"{max(0.0, time.time() - record.created):.0f}"


def python_line(code: str, *arguments: str, python: str) -> str:
    """A line for any login shell that runs code by that Python there; NO_PYTHON_CODE where it is
    missing.
    """
    words = [os.fsencode(word).hex() for word in (_BEFORE + code, *arguments)]
    return " ".join([_THERE % (python, python), *words])
