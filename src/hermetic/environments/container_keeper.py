"""A shell on this host that outlives its opener: it waits for a container's end and takes away what is left here."""

import asyncio
import contextlib
import os
import signal
from pathlib import Path
from typing import NamedTuple

from hermetic.environments.starting import end_session, ended

PATIENCE = 5.0  # seconds for a container that was told to end; it unmounts its file systems then
FILE = "keeper"  # in the environment's directory: its pid

# KEEPER DIRECTORY SPOOL WORK OVERLAY COMMAND…; SPOOL and OVERLAY may be empty.
# When the container's parent is killed, nobody looks after the programs that serve its files; they are of this session.
# The directory's name may belong to the next life of its task by the time this one ends. Whoever has its lock takes
# that away himself, unless he was killed.
KEEPER = f"""\
directory=$1 spool=$2 work=$3 overlay=$4
shift 4
trap : HUP INT TERM
if [ -n "$overlay" ]; then
    exec 9> "$overlay/.lock" && flock -n 9 || {{ echo "overlay $overlay is used by another environment" >&2; exit 1; }}
fi
exec 8< "$directory"
echo $$ > "$directory/{FILE}"
"$@" 8<&- 9>&-
read -r line < /proc/$$/stat
set -- ${{line##*) }}
own=$4
for stat in /proc/[0-9]*/stat; do
    read -r line < $stat || continue
    set -- ${{line##*) }}
    pid=${{stat%/stat}} pid=${{pid#/proc/}}
    [ "$4" != "$own" ] || [ $pid = $$ ] || kill -KILL $pid
done 2> /dev/null
chmod -R u+rwX -- "$work"
rm -rf -- "$work" ${{spool:+"$spool"}}
[ /proc/self/fd/8 -ef "$directory" ] && rm -rf -- "$directory"
exec 7>> "$directory.lock" && flock -n 7 && rm -f -- "$directory.lock"
"""


class Keeper(NamedTuple):
    """The keeper of one container, as a process."""

    pid: int
    began: int  # in clock ticks since the machine started: pid and this together name it for good

    @classmethod
    def read(cls, directory: str) -> "Keeper":
        """The keeper that has just been started there."""
        pid = int(Path(directory, FILE).read_text())
        return cls(pid, _began(pid) or 0)

    @classmethod
    def parse(cls, text: str) -> "Keeper":
        """The keeper that `str` told of."""
        pid, began = map(int, text.split("."))
        return cls(pid, began)

    def __str__(self) -> str:
        return f"{self.pid}.{self.began}"

    @property
    def is_alive(self) -> bool:
        """False when it has ended, and something else may have its number."""
        return _began(self.pid) == self.began

    async def see_ended(self) -> None:
        """Returns when it has tidied up and ended: after its container's end, or because we end that, or both."""
        for help_with in (self._wait, self._terminate, self._kill_container, self._kill):
            if not self.is_alive:
                return
            help_with()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    await ended(self.pid)

    def _wait(self) -> None:
        """Nothing but time: the resident has been told to end, or is about to."""

    def _terminate(self) -> None:
        self._send_to_container(signal.SIGTERM)

    def _kill_container(self) -> None:
        self._send_to_container(signal.SIGKILL)

    def _send_to_container(self, number: int) -> None:
        """The keeper's only child is the container's parent, and the container dies with that."""
        with contextlib.suppress(OSError):
            for pid in Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split():
                os.kill(int(pid), number)

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            end_session(os.getsid(self.pid))


def _began(pid: int) -> int | None:
    """When a process began; None when it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in b"ZX" else int(fields[19])
