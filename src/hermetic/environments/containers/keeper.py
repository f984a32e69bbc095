"""A shell on this host that outlives its opener: it waits for a container's end and takes away what is left here."""

import contextlib
import os
import signal
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from hermetic.environments.starting import NO_PYTHON_CODE
from hermetic.registry.host_process import HostProcess, end_session

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
[ $? != {NO_PYTHON_CODE} ] || exit 1
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


# BARE_KEEPER OVERLAY NAME PROGRAM WORD…; OVERLAY may be empty. Makes an instance and starts bash in it. It is a child
# of the resident, and so is the instance, whoever its parent was: they end with it.
BARE_KEEPER = """\
overlay=$1 name=$2 program=$3
shift 3
if [ -n "$overlay" ]; then
    exec 9> "$overlay/.lock" && flock -n 9 || { echo "overlay $overlay is used by another environment" >&2; exit 1; }
fi
"$program" --quiet instance start "$@" "$name" < /dev/null > /dev/null 9>&- || exit 1
"$program" --quiet exec --no-privs --pwd / "instance://$name" bash --norc --noprofile 9>&-
"""

# WORK: takes it away when the resident of a bare container has ended.
FAREWELL = 'chmod -R u+rwX -- "$1"; rm -rf -- "$1"'


class Keeper(HostProcess, frozen=True):
    """The keeper of one container, as a process."""

    @classmethod
    def read(cls, directory: str) -> "Keeper":
        """The keeper that has just been started there."""
        pid = int(Path(directory, FILE).read_text())
        return cls.find(pid) or cls(pid, "")

    async def see_ended(self, patience: float = PATIENCE) -> None:
        """Returns when it has tidied up and ended: after its container's end, or because we end that, or both."""
        await super().see_ended(patience)

    def _ways(self) -> Sequence[Callable[[], None]]:
        signals = (partial(self._send_to_container, number) for number in (signal.SIGTERM, signal.SIGKILL))
        return (self._wait, *signals, self._kill)

    def _send_to_container(self, number: int) -> None:
        """The keeper's only child is the container's parent, and the container dies with that."""
        with contextlib.suppress(OSError):
            for pid in Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split():
                os.kill(int(pid), number)

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            end_session(os.getsid(self.pid))
